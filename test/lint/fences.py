#!/usr/bin/env python3
"""Vendor headers stay behind their fences in lib/ and cmd/ (tests may use a vendor to play a peer)."""

import re

import source

# vendor header -> files that may include it, and in how many files at most
FENCES = [
    (r"event2/|ev(ent|http|dns|util|rpc)\.h$", r"lib/(io|transport)/|lib/server/admin\.c$", None),
    (r"openssl/", r"lib/transport/", None),
    (r"nghttp2/", r"lib/codec/h2_", None),
    (r"llhttp\.h$", r"lib/codec/h1_", None),
    (r"systemd/", r"lib/server/systemd\.c$", None),
    (r"yaml\.h$", r"lib/config/", 1),
]


def check(root):
    users = {}
    for path in source.c_files(root, "lib", "cmd"):
        for line, quoted, name in source.includes(root, path):
            for vendor, allowed, most in FENCES:
                if quoted or not re.match(vendor, name):
                    continue
                where = users.setdefault(vendor, [])
                if path not in where:
                    where.append(path)
                if not re.match(allowed, path.as_posix()):
                    yield f"{path}:{line}: <{name}> is fenced: only {allowed}"
                elif most and len(where) > most:
                    yield f"{path}:{line}: <{name}> is for one file, and {where[0]} is that file"


if __name__ == "__main__":
    source.main(check)
