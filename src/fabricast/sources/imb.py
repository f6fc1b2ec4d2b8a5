"""Reader of the point-to-point tests of the Intel MPI Benchmarks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.errors import InputError
from fabricast.core.facts import Content
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.messages import count_of, message_reading, numbers_of
from fabricast.sources.text import Format, Reading, Text

#: Tests of two processes or several pairs; others are read as operations.
BETWEEN_PROCESSES = ("pingpong", "uniband", "biband")
_BETWEEN_PROCESSES = re.compile(
    rf"(?:^|# )Benchmarking (?:{'|'.join(BETWEEN_PROCESSES)})\b", re.IGNORECASE | re.MULTILINE
)


def _times(lines: Sequence[str]) -> Iterator[MessageTime]:
    """Parse IMB output: one-way PingPong in us, total Uniband and Biband in MB/s."""
    benchmark, ranks = "", 2
    for number, line in enumerate(lines, start=1):
        match = re.search(r"(?:^|# )Benchmarking (\w+)", line)
        if match:
            benchmark, ranks = match[1].lower(), 2
        match = re.search(r"(?:^|#) ?processes = (\d+)", line)
        if match:
            ranks = count_of(match[1], "#processes", number)
        values = numbers_of(line, number)
        if not values or len(values) < 4:
            continue
        pairs = ranks // 2
        if benchmark not in BETWEEN_PROCESSES:
            continue
        if benchmark == "pingpong":
            yield MessageTime(number, "imb_pingpong", 1, values[0], values[2] * 1e-6, "one_way")
        elif values[0] > 0:
            if values[2] <= 0 or pairs < 1:
                raise InputError(
                    f"bandwidth is {values[2]:g} MB/s of {pairs} pairs, expected above 0 MB/s of 1 pair or more",
                    line=number,
                )
            directions = 2 if benchmark == "biband" else 1
            time = directions * pairs * values[0] / (values[2] * 1e6)
            yield MessageTime(number, f"imb_{benchmark}", pairs, values[0], time, "windowed")


def _read(text: Text) -> Iterator[Reading]:
    yield message_reading(text, "IMB", _times(text.clean_lines))


FORMAT = Format(
    "IMB",
    Content.MESSAGES,
    "IMB-MPI1 PingPong > imb.out",
    "# Benchmarking PingPong",
    lambda text: _BETWEEN_PROCESSES.search(text.raw) is not None,
    _read,
    "imb.out",
    "fabricast fit",
    re.compile(r"# Benchmarking "),
    versions="PingPong, Uniband, Biband",
    is_per_host=True,
)
