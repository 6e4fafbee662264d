#!/usr/bin/env python3
"""Each check is itself checked: silent on a small good tree, and loud on that tree with one bad file in it."""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

GOOD = {
    "lib/LAYERS": "# comment\nbase\nio\nhttp transport\ncodec\nconfig\n",
    "lib/base/err.h": "#ifndef WR_BASE_ERR_H\n#define WR_BASE_ERR_H\n\nint wr_err_sum(int a, int b);\n\n#endif\n",
    "lib/base/err.c": '#include "base/err.h"\n\n#ifdef __linux__\n#include <errno.h>\n#endif\n\n'
    "/* not atoi(), see strcpy() */\nint wr_err_sum(int a, int b)\n{\n    return a + b;\n}\n",
    "lib/transport/tls.c": '#include <openssl/ssl.h>\n\n#include "base/err.h"\n',
    "cmd/weir/main.c": '#include "base/err.h"\n\nint main(void)\n{\n    return wr_err_sum(0, 0);\n}\n',
    "test/run": '#!/usr/bin/env bash\necho "$@"\n',
    "bench/README.md": "nothing\n",
}

LONG_BODY = "int f(void)\n{\n" + "    g();\n" * 61 + "}\n"
LONG_FILE = "int x;\n" * 501
GUARDED = "#ifndef WR_IO_X_H\n#define WR_IO_X_H\n%s\n#endif\n"

# check, bad file, its text, what the finding must say
BAD = [
    ("layers.py", "lib/base/x.c", '#include "io/loop.h"\n', "lib/base/x.c:1: base may not include"),
    ("layers.py", "lib/http/x.c", '#include "transport/tls.h"\n', "lib/http/x.c:1: http may not include"),
    ("layers.py", "lib/http/x.c", "#include <base/err.h>\n", "write it in quotes"),
    ("layers.py", "lib/http/x.c", '#include "err.h"\n', "names no layer"),
    ("layers.py", "lib/new/x.c", "int x;\n", "new is not in lib/LAYERS"),
    ("fences.py", "lib/codec/h1_x.c", "#include <openssl/ssl.h>\n", "lib/codec/h1_x.c:1: <openssl/ssl.h> is fenced"),
    ("fences.py", "lib/codec/h1_x.c", "#include <nghttp2/nghttp2.h>\n", "is fenced"),
    ("fences.py", "lib/codec/h2_x.c", "#include <llhttp.h>\n", "is fenced"),
    ("fences.py", "lib/codec/h2_x.c", "#include <event2/event.h>\n", "is fenced"),
    ("fences.py", "cmd/weir/x.c", "#include <yaml.h>\n", "is fenced"),
    ("banned.py", "lib/io/x.c", "int f(const char *s)\n{\n    return atoi(s);\n}\n", "lib/io/x.c:3: atoi() is banned"),
    ("banned.py", "lib/io/x.c", "void f(void)\n{\n    assert(1);\n}\n", "assert() is banned"),
    ("banned.py", "test/x.c", "void f(char *s)\n{\n    strcpy(s, s);\n}\n", "strcpy() is banned"),
    ("limits.py", "lib/io/x.c", LONG_FILE, "lib/io/x.c:1: 501 lines"),
    ("limits.py", "test/x.c", LONG_BODY, "test/x.c:2: a body of 61 lines"),
    ("conditionals.py", "lib/codec/h1_x.c", "#if 1\n#endif\n", "lib/codec/h1_x.c:1: #if is only for"),
    ("conditionals.py", "cmd/weir/x.c", "#ifdef X\n#endif\n", "#ifdef is only for"),
    ("names.py", "lib/io/x.h", GUARDED % "int loop_run(int x);", "lib/io/x.h:3: loop_run() does not start with wr_"),
    ("names.py", "lib/io/x.h", GUARDED % "static inline struct a *b(int x)\n{\n}", "b() does not start with wr_"),
    ("names.py", "lib/io/x.h", GUARDED % "typedef struct a b;", "no typedef of a struct"),
    ("names.py", "lib/io/y.h", GUARDED % "", "the include guard is not WR_IO_Y_H"),
    ("places.py", "notes.txt", "x\n", "notes.txt:1: not a top-level entry"),
    ("places.py", "config/x.yaml", "a: /" + "root/x\n", "config/x.yaml:1: names a machine"),
    ("places.py", "config/x.yaml", "\nhttp://deb." + "debian.org/\n", "config/x.yaml:2: names a machine"),
    ("format", "lib/io/x.c", "int f( void ){return 1;}\n", "lib/io/x.c:1"),
    ("shell", "test/x", "#!/usr/bin/env bash\necho $1\n", "SC2086"),
    ("tidy", "lib/io/x.c", "int wr_x(int a)\n{\n    if (a)\n        ;\n    return 0;\n}\n", "bugprone-suspicious-semicolon"),
]

# Two files that are each in order, and one too many together.
BAD_PAIRS = [
    ("fences.py", "lib/config/%s.c", "#include <yaml.h>\n", "is for one file"),
    ("conditionals.py", "lib/transport/%s.c", "#if 1\n#endif\n", "is for one file"),
]


def write(root, files):
    for name, body in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)


def run(check, root):
    """(failed or not, output) of one check over root."""
    command = [str(HERE / check), str(root)]
    if check.endswith(".py"):
        command = [sys.executable, "-B", *command]
    elif check == "tidy":
        sources = [p for p in root.rglob("*.c")]
        lines = ['{\n"directory": "%s",\n"command": "cc -std=c17 -c %s",\n"file": "%s"\n}' % (root, s, s) for s in sources]
        (root / ".build").mkdir(exist_ok=True)
        (root / ".build" / "compile_commands.json").write_text("[" + ",".join(lines) + "]")
        command = [command[0], str(root / ".build"), str(root)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode != 0, done.stdout


def trial(check, extra, expected):
    """A complaint about the check, or None when it does its work on GOOD with extra files."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        write(root, {**GOOD, **extra})
        for name in (".clang-format", ".clang-tidy"):
            (root / name).write_text((ROOT / name).read_text())
        if check == "tidy":
            (root / "lib/transport/tls.c").unlink()
            (root / "lib/base/err.c").unlink()
            (root / "cmd/weir/main.c").write_text("int main(void)\n{\n    return 0;\n}\n")
        failed, output = run(check, root)
    if expected is None:
        return f"{check} fails on a good tree:\n{output}" if failed else None
    if not failed or expected not in output:
        return f"{check} misses {list(extra)}: wanted {expected!r}, got:\n{output}"
    return None


def main():
    complaints = [trial(check, {}, None) for check in sorted({row[0] for row in BAD})]
    complaints += [trial(check, {name: body}, say) for check, name, body, say in BAD]
    complaints += [trial(check, {name % "a": body, name % "b": body}, say) for check, name, body, say in BAD_PAIRS]
    failures = [complaint for complaint in complaints if complaint]
    print("\n".join(failures) if failures else f"{len(complaints)} trials as expected")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
