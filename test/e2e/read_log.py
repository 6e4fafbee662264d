"""What another program makes of an access log. Every line of FILE must be strict JSON on a line of its own, and the member
NAME of those of TYPE must be, in order, what a strict UTF-8 reader makes of the bytes in RAW (hexadecimal, one a line; "?": anything)."""

import json
import sys

file, kind, name, raw = sys.argv[1:]
text = open(file, "rb").read()
assert text.endswith(b"\n"), text[-100:]


def once(pairs):
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


def refuse(constant):
    raise ValueError(constant)


seen = []
for line in text[:-1].split(b"\n"):
    line = line.decode("utf-8", "strict")
    assert len(line.splitlines()) == 1, line
    assert all(ord(c) >= 0x20 and not 0x7F <= ord(c) < 0xA0 for c in line), line
    entry = json.loads(line, object_pairs_hook=once, parse_constant=refuse)
    if entry["type"] == kind:
        seen.append(entry.get(name, ""))
wanted = open(raw).read().splitlines()
assert len(seen) == len(wanted), f"{len(seen)} lines, not {len(wanted)}"
for one, other in zip(seen, wanted):
    if other != "?":
        assert one == bytes.fromhex(other).decode("utf-8", "replace"), (one, other)
