"""Reader of ``nvidia-smi dmon``: throttling, errors and PCIe traffic of GPUs over time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "nvidia-smi dmon"
_HEADER = re.compile(r"^#\s{0,9}(?:Date\s+Time\s+|Time\s+)?gpu\s+(?!pid)\w")
_TRAFFIC = {"rxpci": "receives", "txpci": "sends"}
#: Number of repeated PCIe packets from which they are no accident, as in the reader of 'nvidia-smi -q'.
_MANY_REPLAYS = 100
#: Share of the time in percent from which the power limit reduces clocks most of the time.
_MOSTLY = 50


#: What columns with numbers show if they are 0.
_SHOWN_BY = {"no throttling": {"tviol"}, "no errors": {"dbecc", "pci"}}
_ALL_COLUMNS = "nvidia-smi dmon -s pucvet"


class _Sample(NamedTuple):
    """Row of a GPU."""

    line: int
    gpu: str
    values: dict[str, float]


def _is_output(text: Text) -> bool:
    return "gpu" in text.raw and any(_HEADER.match(line) for _, line in text.lines(lambda line: line[:1] == "#"))


def _samples(text: Text) -> Iterator[_Sample]:
    """Yield the rows; "-" is a value that the GPU does not have, and headers are repeated."""
    names: list[str] = []
    for number, line in text.lines():
        if _HEADER.match(line):
            names = line.lstrip("# ").split()
            continue
        cells = line.split()
        if not names or len(cells) != len(names) or not cells[names.index("gpu")].isdigit():
            continue
        values = {name: float(cell) for name, cell in zip(names, cells, strict=True) if re.fullmatch(r"\d{1,15}", cell)}
        yield _Sample(number, cells[names.index("gpu")], values)


def _read(text: Text) -> Iterator[Reading]:
    of_gpus: dict[str, list[_Sample]] = {}
    for sample in _samples(text):
        of_gpus.setdefault(sample.gpu, []).append(sample)
    if not of_gpus:
        raise text.error("has no row of a GPU, expected output of 'nvidia-smi dmon'")
    facts = [fact for samples in of_gpus.values() for fact in _states(text, samples)]
    facts += [*_capped(text, of_gpus), *_traffic(text, of_gpus)]
    yield Reading(facts or [_idle(text, of_gpus)])


def _states(text: Text, samples: list[_Sample]) -> Iterator[Fact]:
    """Yield unhealthy states of a GPU: throttling in any row, and counters of the last one."""
    first, last = samples[0], samples[-1]
    subject = (last.gpu,)
    hot = next((one for one in samples if one.values.get("tviol", 0) > 0), None)
    if hot is not None:
        state = "SW Thermal Slowdown or HW Thermal Slowdown is active (tviol)"
        yield text.fact(Quantity.GPU_STATE, state, hot.line, _PROGRAM, subject=subject)
    errors = last.values.get("dbecc", 0)
    grown = errors - first.values.get("dbecc", errors)
    if grown > 0:
        state = f"{grown:.0f} uncorrectable ECC errors since the first row (dbecc)"
        yield text.fact(Quantity.GPU_STATE, state, last.line, _PROGRAM, subject=subject)
    elif errors:
        words = f"GPU {last.gpu} counts {errors:.0f} uncorrectable ECC errors in its life, none in these rows (dbecc)"
        yield text.fact(Quantity.NOTE, words, last.line, _PROGRAM)
    replays = last.values.get("pci", 0)
    if replays >= _MANY_REPLAYS:
        growth = replays - first.values.get("pci", 0)
        more = f", {growth:.0f} of them since the first row" if growth > 0 else ", none of them in these rows"
        state = f"{replays:.0f} PCIe replays since the start of the driver{more} (pci)"
        yield text.fact(Quantity.GPU_STATE, state, last.line, _PROGRAM, subject=subject)


def _capped(text: Text, of_gpus: dict[str, list[_Sample]]) -> Iterator[Fact]:
    """Yield the note that the power limit reduces clocks most of the time."""
    capped = [
        max(samples, key=lambda one: one.values.get("pviol", 0))
        for samples in of_gpus.values()
        if median(one.values.get("pviol", 0) for one in samples) >= _MOSTLY
    ]
    if capped:
        gpus = f"{len(capped)} GPUs" if len(capped) > 1 else "a GPU"
        words = f"the power limit reduces the clocks of {gpus} most of the time (pviol), as usual under full load"
        yield text.fact(Quantity.NOTE, words, capped[0].line, _PROGRAM)


def _traffic(text: Text, of_gpus: dict[str, list[_Sample]]) -> Iterator[Fact]:
    """Yield the largest PCIe traffic of any GPU in each direction."""
    every = [one for samples in of_gpus.values() for one in samples]
    for name, verb in _TRAFFIC.items():
        top = max(every, key=lambda one: one.values.get(name, 0))
        if top.values.get(name, 0) > 0:
            # dmon prints megabytes.
            rate = f"{top.values[name] / 1e3:.3g} GB/s"
            words = f"GPU {top.gpu} {verb} up to {rate} over PCIe, the most of all GPUs ({name})"
            yield text.fact(Quantity.NOTE, words, top.line, _PROGRAM)


def _idle(text: Text, of_gpus: dict[str, list[_Sample]]) -> Fact:
    """Return the note that no row has an unhealthy state, as far as the columns show it."""
    count = f"{len(of_gpus)} GPUs" if len(of_gpus) > 1 else "the GPU"
    line = min(samples[0].line for samples in of_gpus.values())
    columns = {name for samples in of_gpus.values() for one in samples for name in one.values}
    healthy = [words for words, names in _SHOWN_BY.items() if columns & names]
    note = (
        f"{' and '.join(healthy)} of {count}" if healthy else f"no column shows throttling or errors: '{_ALL_COLUMNS}'"
    )
    return text.fact(Quantity.NOTE, note, line, _PROGRAM)


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    f"{_ALL_COLUMNS} > dmon.txt",
    "# gpu pwr gtemp mtemp sm mem enc dec mclk pclk pviol tviol sbecc dbecc pci rxpci txpci",
    _is_output,
    _read,
    "nvidia_smi_dmon.txt",
    versions="columns in any order; thermal violations, errors of memory, PCIe replays and traffic",
    is_per_host=True,
)
