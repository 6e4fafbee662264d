#!/usr/bin/env python3
"""Nothing strange at the top level, and nothing in the tree names one machine's folders or a package registry."""

import re

import source

TOP = {"cmd", "lib", "config", "test", "bench", "CMakeLists.txt", "Dockerfile", "README.md"}
PLACE = re.compile(
    r"/(?:work|root|home)/\w"
    r"|\b(?:deb|security|snapshot|ftp)\.debian\.org"
    r"|\b(?:registry\.npmjs|deb\.nodesource|pypi|files\.pythonhosted|proxy\.golang)\.(?:org|com)"
)


def check(root):
    for entry in sorted(root.iterdir()):
        if entry.name not in TOP and not entry.name.startswith("."):
            yield f"{entry.name}:1: not a top-level entry of this project"
    for path in source.files(root):
        body = source.text(root, path)
        for found in PLACE.finditer(body):
            yield f"{path}:{source.line_of(body, found.start())}: names a machine or a registry: {found.group()}"


if __name__ == "__main__":
    source.main(check)
