"""What the checks share: the files of the tree, C text without comments and strings, and how findings are reported.

A check is a module with check(root), which yields findings as "path:line: what is wrong", and ends with
source.main(check). It is run as `<check>.py [root]`; the root defaults to the checkout it lies in.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIP = {".git", ".build", ".cache", "__pycache__"}

_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def files(root, folders=(".",), suffixes=None):
    """Paths relative to root, sorted."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root)
            if path.is_file() and not SKIP & set(relative.parts) and (suffixes is None or path.suffix in suffixes):
                yield relative


def c_files(root, *folders):
    return files(root, folders, {".c", ".h", ".def"})


def text(root, path):
    return (root / path).read_text(encoding="utf-8", errors="replace")


def bare(root, path):
    """The text with comments, strings and characters blanked, lines kept."""
    return _NOISE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text(root, path))


def line_of(body, offset):
    return body.count("\n", 0, offset) + 1


def includes(root, path):
    """(line, quoted or not, name) of every #include."""
    body = text(root, path)
    for found in _INCLUDE.finditer(body):
        yield line_of(body, found.start()), found.group(1) == '"', found.group(2)


def main(check):
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    findings = list(check(root))
    print("\n".join(findings) if findings else "clean")
    sys.exit(1 if findings else 0)
