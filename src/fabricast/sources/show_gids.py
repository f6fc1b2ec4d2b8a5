"""Reader of ``show_gids`` and ``ibv_devinfo -v``: addresses of RoCE ports, among which NCCL_IB_GID_INDEX chooses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.sources.ibstat import DEVINFO_CARD, DEVINFO_PORT
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "show_gids"
_ROW = re.compile(
    r"^\s*([a-z][\w.-]{1,40})\s+(\d{1,3})\s+(\d{1,3})\s+((?:[0-9a-fA-F]{4}:){7}[0-9a-fA-F]{4})\s+([\d.]{7,15}\s+)?"
    r"(v1|v2|IB/RoCE v1|RoCE v2)\b"
)
_ADDRESS = re.compile(r"(?:[0-9a-fA-F]{4}:){7}[0-9a-fA-F]{4}\s")
#: Addresses of ibv_devinfo, which shortens those of IPv4.
_GID = re.compile(r"^\s*GID\[\s*(\d{1,3})\]:\s+([0-9a-fA-F:.]{2,45}), (RoCE v[12])\b")
#: States by the beginning of an address.
_UNUSABLE = {
    "fe80": "link-local",
    "0000:0000:0000:0000:0000:0000:0000:0000": "zero",
    "0000:0000:0000:0000:0000:ffff:7f": "that of the host itself",
    "::ffff:127.": "that of the host itself",
}
_MOST_LISTED = 8


def _is_table(text: Text) -> bool:
    if "GID[" in text.raw and ", RoCE v" in text.raw and next(_addresses(text), None) is not None:
        return True
    is_likely = any(word in text.raw for word in ("\tv1", "\tv2", " v1", " v2"))
    return is_likely and _ADDRESS.search(text.raw) is not None and any(_ROW.match(line) for _, line in text.lines())


def _addresses(text: Text) -> Iterator[tuple[int, str, str, str, str]]:
    """Yield line, port, index, address and version of each address."""
    card, port = "a card", "1"
    for number, line in text.lines():
        if (match := _ROW.match(line)) is not None:
            yield number, f"{match[1]} port {match[2]}", match[3], match[4], match[6]
        elif (match := DEVINFO_CARD.match(line)) is not None:
            card = match[1]
        elif (match := DEVINFO_PORT.match(line)) is not None:
            port = match[1]
        elif (match := _GID.match(line)) is not None:
            yield number, f"{card} port {port}", match[1], match[2], match[3]


def _read(text: Text) -> Iterator[Reading]:
    facts: list[Fact] = []
    for number, port, index, address, version in _addresses(text):
        state = "" if version.endswith("v2") else "of RoCE v1, for hosts of one subnet only"
        state = next((words for start, words in _UNUSABLE.items() if address.lower().startswith(start)), state)
        facts.append(text.fact(Quantity.GID, state, number, _PROGRAM, subject=(port, index)))
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
    versions="also `ibv_devinfo -v`: indexes of RoCE v2 addresses; NCCL_IB_GID_INDEX of a log is compared with them",
    is_per_host=True,
)
