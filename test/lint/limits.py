#!/usr/bin/env python3
"""At most 500 lines a file and 60 a function body. A function's braces are alone in the first column (.clang-format)."""

import source

FILE_LINES = 500
FUNCTION_LINES = 60


def check(root):
    for path in source.c_files(root, "lib", "cmd", "test", "bench"):
        lines = source.bare(root, path).splitlines()
        if len(lines) > FILE_LINES:
            yield f"{path}:1: {len(lines)} lines, at most {FILE_LINES}"
        opened = None
        for number, line in enumerate(lines, 1):
            if line.rstrip() == "{":
                opened = number
            elif line.startswith("}") and opened:
                if number - opened - 1 > FUNCTION_LINES:
                    yield f"{path}:{opened}: a body of {number - opened - 1} lines, at most {FUNCTION_LINES}"
                opened = None


if __name__ == "__main__":
    source.main(check)
