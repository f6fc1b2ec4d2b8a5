"""Reader of busGrind of CUDA's demo suite: copies between host memory and each GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.memory import HOST
from fabricast.sources.copies import check_end, rate_facts
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "busGrind"
#: Title of the copies of one device at a time from pinned memory; others are of all devices, or of pageable memory.
_TITLE = re.compile(r"^\s*(?:(Concurrent) )?Host/Device Bandwidth Matrix \(GB/s\), memory=(\w+)")
_ROW = re.compile(r"^\s*(D2H|H2D|BiDir)((?:\s+\d{1,5}\.\d{1,3}){1,64})\s*$")


def _graphs(text: Text) -> Iterator[MeasuredGraph]:
    """Yield the copies with host memory of one GPU at a time; both ways together have the sum of their rates."""
    columns: list[str] = []
    is_read = False
    for number, line in text.lines():
        if (title := _TITLE.match(line)) is not None:
            is_read, columns = title[1] is None and title[2] == "Pinned", []
        elif is_read and line.split()[:1] == ["Dir\\D"]:
            columns = [word for word in line.split()[1:] if word.isdigit()]
        elif is_read and (match := _ROW.match(line)) is not None:
            rates = match[2].split()
            if len(rates) != len(columns):
                raise text.error(f"row {match[1]} has {len(rates)} values, expected {len(columns)}", number)
            for gpu, rate in zip(columns, rates, strict=True):
                ways = {"H2D": ((HOST, gpu),), "D2H": ((gpu, HOST),), "BiDir": ((HOST, gpu), (gpu, HOST))}[match[1]]
                yield MeasuredGraph(f"{match[1]} {gpu}", ways, float(rate) * 1e9, "independent", line=number)


def _read(text: Text) -> Iterator[Reading]:
    check_end(text)
    facts = list(rate_facts(text, _PROGRAM, _graphs(text)))
    if not facts:
        raise text.error("contains no copies of busGrind between pinned host memory and one GPU")
    yield Reading(facts, program=_PROGRAM)


FORMAT = Format(
    _PROGRAM,
    Content.COPIES,
    "busGrind -p 1 -u 0 > bus.txt",
    "Host/Device Bandwidth Matrix (GB/s), memory=Pinned",
    lambda text: "Host/Device Bandwidth Matrix" in text.raw,
    _read,
    "bus_grind.txt",
    versions="copies of pinned host memory, one GPU at a time",
)
