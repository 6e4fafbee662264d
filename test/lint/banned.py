#!/usr/bin/env python3
"""Calls that are not made: unbounded copies, hidden state, silent conversions; and assert(), since WR_ASSERT stays on."""

import re

import source

UNSAFE = "strcpy stpcpy strcat sprintf vsprintf gets alloca tmpnam tempnam mktemp"
# Tests may run a shell; the product may not.
PRODUCT = UNSAFE + " strncpy strncat strtok atoi atol atoll atof rand srand random system popen signal usleep assert"


def calls(names):
    return re.compile(r"(?<![\w.>])(" + "|".join(names.split()) + r")\s*\(")


def check(root):
    for folders, pattern in ((("lib", "cmd"), calls(PRODUCT)), (("test", "bench"), calls(UNSAFE))):
        for path in source.c_files(root, *folders):
            body = source.bare(root, path)
            for found in pattern.finditer(body):
                yield f"{path}:{source.line_of(body, found.start())}: {found.group(1)}() is banned"


if __name__ == "__main__":
    source.main(check)
