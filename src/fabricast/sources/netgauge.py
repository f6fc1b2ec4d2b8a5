"""Reader of netgauge's pattern loggp."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.facts import Content, Quantity
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.messages import message_reading, numbers_of
from fabricast.sources.text import Format, Reading, Text


def _times(lines: Sequence[str]) -> Iterator[MessageTime]:
    """Parse netgauge's loggp pattern: PRTT(1, 0, s) is a full round trip in us."""
    for number, line in enumerate(lines, start=1):
        values = numbers_of(line, number)
        if values and len(values) >= 5:
            yield MessageTime(number, "netgauge", 1, values[0], values[2] * 1e-6, "round_trip")


def _read(text: Text) -> Iterator[Reading]:
    reading = message_reading(text, "netgauge", _times(text.clean_lines))
    # The estimators of o, g and G need the columns of message trains.
    reading.facts.append(text.fact(Quantity.FILE, (text.path, text.clean), 0, "netgauge"))
    yield reading


FORMAT = Format(
    "netgauge",
    Content.MESSAGES,
    "netgauge -m mpi -x loggp -o netgauge",
    "PRTT(1,0,s)",
    lambda text: "PRTT(1,0,s)" in text.raw,
    _read,
    "netgauge.out",
    "fabricast fit",
    re.compile(r"PRTT\(1,0,s\)"),
    versions="LogGP output",
)
