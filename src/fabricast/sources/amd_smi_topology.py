"""Reader of the link types that ``amd-smi topology`` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.rocm_smi import matrix_of_link_types
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "amd-smi topology"
_TITLE, _ACCESS_TITLE = "LINK TYPE TABLE:", "ACCESS TABLE:"
#: A GPU, by address or number.
_GPU = re.compile(r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|GPU\d{1,3}", re.IGNORECASE)
_Rows = dict[int, tuple[int, list[str]]]


def _tables(text: Text, title: str) -> Iterator[tuple[int, list[str], _Rows]]:
    """Yield the line of each table with a title, its GPUs, and line and cells of each."""
    first = 0
    names: list[str] = []
    rows: _Rows = {}
    for number, line in text.lines():
        words = line.split()
        if line.strip().endswith(":"):
            if first:
                yield first, names, rows
            first, names, rows = (number if line.strip() == title else 0), [], {}
        elif first and words and all(_GPU.fullmatch(word) for word in words):
            names = names or words
        elif words and words[0] in names:
            rows[names.index(words[0])] = (number, words[1:])
    if first:
        yield first, names, rows


def _access(text: Text) -> Iterator[Fact]:
    """Yield the reason of each pair without peer access; the reason is empty for pairs with peer access."""
    for _, names, rows in _tables(text, _ACCESS_TITLE):
        for one, (number, cells) in rows.items():
            for other, cell in enumerate(cells[: len(names)]):
                if other != one and cell in ("ENABLED", "DISABLED"):
                    reason = "" if cell == "ENABLED" else "disabled"
                    yield text.fact(Quantity.PEER_ACCESS, reason, number, _PROGRAM, subject=(str(one), str(other)))


def _read(text: Text) -> Iterator[Reading]:
    access = list(_access(text))
    for title, names, rows in _tables(text, _TITLE):
        matrix = matrix_of_link_types(text, rows, len(names), {}, _PROGRAM)
        problems = []
        if len(matrix.links) < len(names) * (len(names) - 1):
            words = "states no NUMA nodes, which paths over PCIe need: add 'rocm-smi --showtopo' or 'lspci -vv'"
            problems.append(text.error(words, title))
        facts = [] if problems else [text.fact(Quantity.TOPOLOGY, matrix, title, _PROGRAM)]
        facts += [
            text.fact(Quantity.GPU_ADDRESS, name.lower(), title + 1, _PROGRAM, subject=(str(place),))
            for place, name in enumerate(names)
            if ":" in name
        ]
        yield Reading([*facts, *access], problems)
        access = []


FORMAT = Format(
    _PROGRAM,
    Content.TOPOLOGY,
    "amd-smi topology > topo.txt",
    "0000:05:00.0 SELF         XGMI         XGMI         XGMI",
    lambda text: _TITLE in text.raw and "SELF" in text.raw,
    _read,
    "amd_smi_topology.txt",
    versions="link types and access",
    is_per_host=True,
)
