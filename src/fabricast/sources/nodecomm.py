"""Reader of nodecomm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.errors import InputError
from fabricast.core.facts import Content
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.messages import message_reading, numbers_of
from fabricast.sources.text import Format, Reading, Text

_INT_BYTES = 4


def _times(lines: Sequence[str]) -> Iterator[MessageTime | InputError]:
    """Parse rows ``n t(1) ... t(k)``: n ints, full round trip, maximum over ranks."""
    path, master, columns = "network", 0, 0
    for number, line in enumerate(lines, start=1):
        label, _, ranks = line.partition(":")
        if label in ("master", "partner"):
            first = int(ranks.split(",")[0])
            master, path = (first, path) if label == "master" else (master, f"network+{first - master}")
        elif label.startswith("Pingpong for"):
            columns = 0
        values = numbers_of(line, number)
        if values and len(values) > 1 and columns not in (0, len(values)):
            reason = f"has {len(values)} values, expected {columns} as in the row above: it is cut"
            yield InputError(reason, line=number)
        elif values and len(values) > 1:
            columns = len(values)
            for k, time in enumerate(values[1:], start=1):
                yield MessageTime(number, path, k, _INT_BYTES * values[0], time, "round_trip")


def _read(text: Text) -> Iterator[Reading]:
    yield message_reading(text, "nodecomm", _times(text.clean_lines))


FORMAT = Format(
    "nodecomm",
    Content.MESSAGES,
    "nodecomm > nodecomm.out",
    "Pingpong for 4 processes",
    lambda text: "Pingpong for" in text.raw,
    _read,
    "nodecomm.out",
    "fabricast fit",
    re.compile(r"Pingpong for"),
    versions="ping-pong times of pairs",
)
