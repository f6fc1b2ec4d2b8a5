"""Reader of the cores of processes, as Intel MPI (I_MPI_DEBUG=4) and srun (--cpu-bind=verbose) print them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.number_text import span_text
from fabricast.core.short_text import numbered
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "pinning of processes"
#: Rank, process, host and processors of Intel MPI; host, task and mask of srun.
_INTEL = re.compile(r"MPI startup\(\):\s+(\d{1,7})\s+\d{1,9}\s+(\S{1,200})\s+\{([\d,-]{1,4000})\}")
_SRUN = re.compile(
    r"cpu-bind\S{0,20}\s+- (\S{1,200}), task\s+(\d{1,7})\s+\d{1,7} \[\d{1,9}\]: mask 0x([0-9a-f]{1,512}) set"
)
#: Range of processors, and largest number of one.
_RANGE, _MOST_PROCESSORS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?"), 1 << 14
_MOST_LISTED = 4


class _Pin(NamedTuple):
    line: int
    host: str
    rank: int
    processors: frozenset[int]


def _pins(text: Text) -> list[_Pin]:
    """Return the processors of each process, up to the second print of one."""
    found: list[_Pin] = []
    known: set[tuple[str, int]] = set()
    if "MPI startup()" not in text.raw and "cpu-bind" not in text.raw:
        return found
    for number, line in text.lines(lambda line: "MPI startup()" in line or "cpu-bind" in line):
        if (match := _INTEL.search(line)) is not None:
            pin = _Pin(number, match[2], int(match[1]), _of_list(match[3]))
        elif (match := _SRUN.search(line)) is not None:
            mask = int(match[3], 16)
            pin = _Pin(number, match[1], int(match[2]), frozenset(i for i in range(mask.bit_length()) if mask >> i & 1))
        else:
            continue
        if (pin.host, pin.rank) in known:
            break
        known.add((pin.host, pin.rank))
        found.append(pin)
    return found


def _of_list(text: str) -> frozenset[int]:
    ranges = [(int(one[1]), int(one[2] or one[1])) for one in _RANGE.finditer(text)]
    return frozenset(number for low, high in ranges if high < _MOST_PROCESSORS for number in range(low, high + 1))


def _read(text: Text) -> Iterator[Reading]:
    yield Reading(list(_facts(text, _pins(text))))


def _facts(text: Text, pins: list[_Pin]) -> Iterator[Fact]:
    """Yield processes that share too few processors, and how many processors the others have."""
    groups: dict[tuple[str, frozenset[int]], list[_Pin]] = {}
    for pin in pins:
        groups.setdefault((pin.host, pin.processors), []).append(pin)
    for (host, processors), same in groups.items():
        if 0 < len(processors) < len(same):
            ranks = numbered("rank", [pin.rank for pin in same], _MOST_LISTED)
            cores = f"processor {min(processors)}" if len(processors) == 1 else f"{len(processors)} processors"
            words = f"{len(same)} processes of {host} ({ranks}) share {cores}"
            yield text.fact(Quantity.CAUSE, words, same[1].line, _PROGRAM, subject=("shared_core",))
            break
    counts = [len(pin.processors) for pin in pins]
    each = span_text(str(min(counts)), str(max(counts)))
    words = f"{len(pins)} processes are pinned to {each} processor{'' if each == '1' else 's'} each"
    yield text.fact(Quantity.NOTE, words, pins[0].line, _PROGRAM)


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "I_MPI_DEBUG=4 mpirun ... > pins.txt; srun --cpu-bind=verbose ... 2> pins.txt",
    "[0] MPI startup(): 0       210311   node012    {0,1}",
    lambda text: bool(_pins(text)),
    _read,
    "process_pins.txt",
    versions="Intel MPI (I_MPI_DEBUG=4 and more) and `srun --cpu-bind=verbose`: processes that share a processor",
)
