"""Random mutations of valid files for fuzz tests."""

from __future__ import annotations

import random
import re

TOKENS = (
    b"nan",
    b"inf",
    b"-inf",
    b"-1",
    b"0",
    b"1e308",
    b"1e-320",
    b"1" * 5000,
    b"9" * 30,
    b"0x10",
    b"1_000",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"'",
    b'"',
    b",",
    b";",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
    b"<",
    b">",
    b"&",
    b"&amp;",
    b"<!ENTITY a 'b'>",
    b"\n",
    b"\r\n",
    b"\t",
    b"#",
    b"- ",
    b"? ",
    b"!!int abc",
    b"!!timestamp foo",
    b"!!binary x",
    b"!!python/object:os.system {}",
    b"2024-99-99",
    b"0b_",
    b"*a",
    b"&a",
    b"null",
    b"true",
    b"[a, b]: 1",
    b"{a: 1}: 2",
    b"../../etc/passwd",
    b"/dev/zero",
    "\u202e".encode(),
    "é".encode("latin-1"),
    b"x" * 3000,
    b"=1+1",
    b"%",
    b"N/A",
    b"\\ud800",
    b"1e400",
    b"1.5.2",
    b"--",
    b"4300",
    b"[" * 600,
    b"encoding='cp9999'",
    b"encoding='utf-16'",
    b"link_width='1_6'",
)
NUMBERS = (
    b"0",
    b"-1",
    b"nan",
    b"inf",
    b"1e308",
    b"1e-308",
    b"1e400",
    b"9" * 25,
    b"3.5",
    b"",
    b"1e17",
    b"2147483648",
    b"1" * 400,
)


def mutate(content: bytes, chance: random.Random) -> bytes:
    """Apply one to three random mutations to a file content."""
    for _ in range(chance.randint(1, 3)):
        content = chance.choice(_KINDS)(content, chance)
    return content[:200_000]


def _insert(content, chance):
    place = chance.randint(0, len(content))
    return content[:place] + chance.choice(TOKENS) + content[place:]


def _cut(content, chance):
    one, two = sorted(chance.randint(0, len(content)) for _ in range(2))
    return content[:one] + content[min(two, one + 40) :]


def _truncate(content, chance):
    return content[: chance.randint(0, len(content))]


def _flip(content, chance):
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _number(content, chance):
    numbers = list(re.finditer(rb"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?", content))
    if not numbers:
        return content
    match = chance.choice(numbers)
    return content[: match.start()] + chance.choice(NUMBERS) + content[match.end() :]


def _word(content, chance):
    words = list(re.finditer(rb"[A-Za-z_]{2,}", content))
    if not words:
        return content
    match = chance.choice(words)
    return content[: match.start()] + chance.choice((b"", b"x", b"null", *TOKENS[:8])) + content[match.end() :]


def _lines(content, chance):
    lines = content.split(b"\n")
    kind = chance.randrange(4)
    place = chance.randrange(len(lines))
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(place, lines[chance.randrange(len(lines))])
    elif kind == 2:
        chance.shuffle(lines)
    else:
        lines = lines * chance.randint(2, 20)
    return b"\n".join(lines)


def _encode(content, chance):
    text = content.decode("utf-8", "replace")
    return text.encode(chance.choice(("utf-16", "utf-32", "latin-1", "utf-8-sig")), "replace")


_KINDS = (_insert, _insert, _cut, _truncate, _flip, _number, _number, _number, _word, _lines, _encode)
