"""Reader of BenchPress."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.facts import Content
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.messages import message_reading, numbers_of
from fabricast.sources.text import Format, Reading, Text

_FLOAT_BYTES = 4
_SIZE_LINE = re.compile(r"^Size \d+:?\s", re.MULTILINE)


def _times(lines: Sequence[str]) -> Iterator[MessageTime]:
    """Parse ``Size n t(1) ... t(k)``: n floats, half round trip, maximum over ranks."""
    path = "network"
    for number, line in enumerate(lines, start=1):
        if line.startswith("Timing"):
            path = "gpu" if "GPU" in line else "cpu"
        if line.startswith("Size "):
            values = numbers_of(line.removeprefix("Size ").replace(":", " "), number)
            for k, time in enumerate((values or [0])[1:], start=1):
                yield MessageTime(number, path, k, _FLOAT_BYTES * (values or [0])[0], time, "one_way")


def _read(text: Text) -> Iterator[Reading]:
    yield message_reading(text, "BenchPress", _times(text.clean_lines))


FORMAT = Format(
    "BenchPress",
    Content.MESSAGES,
    "BenchPress > benchpress.out",
    "Timing CPU Ping-Pong",
    lambda text: "Ping" in text.raw and _SIZE_LINE.search(text.clean) is not None,
    _read,
    "benchpress.out",
    "fabricast fit",
    re.compile(r"^Timing\b"),
    versions="max-rate and ping-pong tests",
)
