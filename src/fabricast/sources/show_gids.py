"""Reader of ``show_gids``: addresses of the ports of RoCE cards, by which NCCL_IB_GID_INDEX is chosen."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "show_gids"
_ROW = re.compile(
    r"^\s*([a-z][\w.-]{1,40})\s+(\d{1,3})\s+(\d{1,3})\s+((?:[0-9a-fA-F]{4}:){7}[0-9a-fA-F]{4})\s+([\d.]{7,15}\s+)?"
    r"(v1|v2|IB/RoCE v1|RoCE v2)\b"
)
_ADDRESS = re.compile(r"(?:[0-9a-fA-F]{4}:){7}[0-9a-fA-F]{4}\s")
#: States by the beginning of an address.
_UNUSABLE = {
    "fe80": "link-local",
    "0000:0000:0000:0000:0000:0000:0000:0000": "zero",
    "0000:0000:0000:0000:0000:ffff:7f": "that of the host itself",
}
_MOST_LISTED = 8


def _is_table(text: Text) -> bool:
    is_likely = any(word in text.raw for word in ("\tv1", "\tv2", " v1", " v2"))
    return is_likely and _ADDRESS.search(text.raw) is not None and any(_ROW.match(line) for _, line in text.lines())


def _read(text: Text) -> Iterator[Reading]:
    facts: list[Fact] = []
    for number, line in text.lines():
        if (match := _ROW.match(line)) is not None:
            state = "" if match[6].endswith("v2") else "of RoCE v1, for hosts of one subnet only"
            state = next((words for start, words in _UNUSABLE.items() if match[4].lower().startswith(start)), state)
            subject = (f"{match[1]} port {match[2]}", match[3])
            facts.append(text.fact(Quantity.GID, state, number, _PROGRAM, subject=subject))
    usable: dict[str, list[str]] = {}
    for fact in facts:
        indexes = usable.setdefault(fact.subject[0], [])
        indexes += [fact.subject[1]] if not fact.value else []
    words = listed([f"{port}: {', '.join(found) or 'none'}" for port, found in usable.items()], _MOST_LISTED, "; ")
    note = f"indexes of RoCE v2 addresses that other hosts can reach: {words}"
    yield Reading([*facts, text.fact(Quantity.NOTE, note, facts[0].place.line, _PROGRAM)])


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "show_gids > gids.txt",
    "mlx5_0  1  3  0000:0000:0000:0000:0000:ffff:0a0c:0015 10.12.0.21  v2  eth0",
    _is_table,
    _read,
    "show_gids.txt",
    versions="indexes of RoCE v2 addresses; NCCL_IB_GID_INDEX of a log is compared with them",
    is_per_host=True,
)
