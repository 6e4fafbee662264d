#!/usr/bin/env python3
"""A file includes its own layer and lower ones; siblings never: every #include "..." against lib/LAYERS."""

import source


def ranks(root):
    lines = source.text(root, "lib/LAYERS").splitlines()
    lines = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return {layer: rank for rank, line in enumerate(lines) for layer in line}


def fault(rank, owner, quoted, name):
    """What is wrong with this include in layer `owner` (None: in cmd, which may use all), or None."""
    first, slash, _ = name.partition("/")
    if not quoted:
        return f"<{name}> is ours: write it in quotes" if slash and first in rank else None
    if owner is None:
        return None
    if not slash or first not in rank:
        return f'"{name}" names no layer: write "<layer>/<file>"'
    if first != owner and rank[first] >= rank[owner]:
        return f'{owner} may not include "{name}": {first} is not below it'
    return None


def check(root):
    rank = ranks(root)
    for path in source.c_files(root, "lib", "cmd"):
        owner = path.parts[1] if path.parts[0] == "lib" else None
        if owner is not None and owner not in rank:
            yield f"{path}:1: {owner} is not in lib/LAYERS"
            continue
        for line, quoted, name in source.includes(root, path):
            wrong = fault(rank, owner, quoted, name)
            if wrong:
                yield f"{path}:{line}: {wrong}"


if __name__ == "__main__":
    source.main(check)
