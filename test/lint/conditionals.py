#!/usr/bin/env python3
"""#if and its kin, include guards aside, only in lib/base and in one file each of lib/io and lib/transport."""

import re

import source

CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif)\b[ \t]*(\w*)", re.M)


def is_guard(body, found):
    name = found.group(2)
    return found.group(1) == "ifndef" and name.endswith("_H") and f"#define {name}\n" in body


def check(root):
    owners = {}
    for path in source.c_files(root, "lib", "cmd"):
        body = source.bare(root, path)
        for found in CONDITION.finditer(body):
            layer = path.parts[1]
            if is_guard(body, found) or path.parts[:2] == ("lib", "base"):
                continue
            where = f"{path}:{source.line_of(body, found.start())}"
            if path.parts[0] == "lib" and layer in ("io", "transport"):
                if owners.setdefault(layer, path) != path:
                    yield f"{where}: #{found.group(1)} in {layer} is for one file, and {owners[layer]} is that file"
            else:
                yield f"{where}: #{found.group(1)} is only for lib/base and one file of lib/io and of lib/transport"


if __name__ == "__main__":
    source.main(check)
