#!/usr/bin/env python3
"""In the headers of lib/: functions start with wr_, guards are WR_<LAYER>_<FILE>_H, no struct hides in a typedef."""

import re

import source

# A declaration or definition in the first column: its type, its name, an opening parenthesis.
FUNCTION = re.compile(r"^(?!#|typedef\b|\})[A-Za-z_][\w \t*]*?[ *](\w+)\s*\(", re.M)
TYPEDEF = re.compile(r"^[ \t]*typedef\s+(struct|union|enum)\b", re.M)
NOT_FUNCTIONS = ("_Static_assert", "static_assert", "__attribute__")


def check(root):
    for path in source.files(root, ["lib"], {".h"}):
        body = source.bare(root, path)
        guard = f"WR_{path.parts[-2]}_{path.stem}_H".upper()
        if f"#ifndef {guard}\n#define {guard}\n" not in body:
            yield f"{path}:1: the include guard is not {guard}"
        for found in FUNCTION.finditer(body):
            name = found.group(1)
            if not name.startswith("wr_") and not name.isupper() and name not in NOT_FUNCTIONS:
                yield f"{path}:{source.line_of(body, found.start(1))}: {name}() does not start with wr_"
        for found in TYPEDEF.finditer(body):
            yield f"{path}:{source.line_of(body, found.start())}: no typedef of a {found.group(1)}"


if __name__ == "__main__":
    source.main(check)
