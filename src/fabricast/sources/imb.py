"""Reader of the point-to-point tests of the Intel MPI Benchmarks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.errors import InputError
from fabricast.core.facts import Content
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.messages import count_of, message_reading, numbers_of
from fabricast.sources.text import Format, Reading, Text


def _times(lines: Sequence[str]) -> Iterator[MessageTime | InputError]:
    """Parse IMB output: one-way PingPong in us, total Uniband and Biband in MB/s."""
    benchmark, ranks = "", 2
    refused: set[str] = set()
    for number, line in enumerate(lines, start=1):
        match = re.search(r"# Benchmarking (\w+)", line)
        if match:
            benchmark, ranks = match[1].lower(), 2
        match = re.search(r"#processes = (\d+)", line)
        if match:
            ranks = count_of(match[1], "#processes", number)
        values = numbers_of(line, number)
        if not values or len(values) < 4:
            continue
        pairs = ranks // 2
        if benchmark not in ("pingpong", "uniband", "biband"):
            if benchmark not in refused:
                refused.add(benchmark)
                yield InputError(
                    f"benchmark is '{benchmark}', expected PingPong, Uniband or Biband (-multi 0 Uniband of IMB-MPI1)",
                    line=number,
                )
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
    lambda text: "# Benchmarking " in text.raw,
    _read,
    "imb.out",
    "fabricast fit",
    re.compile(r"# Benchmarking "),
    versions="PingPong, Uniband, Biband",
)
