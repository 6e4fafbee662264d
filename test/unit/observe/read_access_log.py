"""What another program makes of an access log: reads FILE as strict JSON lines and checks that each member of
STRINGS is, line by line, the bytes of RAW (cut at every 0xff 0xff) as a strict UTF-8 reader would show them."""

import json
import sys

file, raw, *strings = sys.argv[1:]
lines = open(file, "rb").read()
cut = open(raw, "rb").read().split(b"\xff\xff")[:-1]

assert lines.endswith(b"\n")
lines = lines[:-1].split(b"\n")
assert len(lines) == len(cut), (len(lines), len(cut))
for line, source in zip(lines, cut):
    text = line.decode("utf-8", "strict")
    assert len(text.splitlines()) == 1 and all(ord(c) >= 0x20 and not 0x7F <= ord(c) < 0xA0 for c in text), line

    def once(pairs):
        assert len(dict(pairs)) == len(pairs), pairs
        return dict(pairs)

    entry = json.loads(text, object_pairs_hook=once)
    for name in strings:
        expected = source.decode("utf-8", "replace")
        assert entry.get(name, "") == expected, (name, entry.get(name), expected)
