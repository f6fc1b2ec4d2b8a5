"""Reader of ``nvidia-smi dmon``: throttling, errors and PCIe traffic of GPUs over time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "nvidia-smi dmon"
_HEADER = re.compile(r"^#\s{0,9}(?:Date\s+Time\s+|Time\s+)?gpu\s+(?!pid)\w")
#: States by column, with what one sample above zero means; the driver counts errors since its start.
_STATES = {
    "tviol": "SW Thermal Slowdown or HW Thermal Slowdown is active (tviol)",
    "dbecc": "uncorrectable ECC errors since the start of the driver (dbecc)",
}
_TRAFFIC = {"rxpci": "receives", "txpci": "sends"}
#: Number of repeated PCIe packets from which they are no accident, as in the reader of 'nvidia-smi -q'.
_MANY_REPLAYS = 100


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
    facts: dict[tuple[str, str], Fact] = {}
    peaks: dict[tuple[str, str], _Sample] = {}
    gpus = dict[str, int]()
    for sample in _samples(text):
        gpus.setdefault(sample.gpu, sample.line)
        for name, state in _states(sample.values):
            fact = text.fact(Quantity.GPU_STATE, state, sample.line, _PROGRAM, subject=(sample.gpu,))
            facts.setdefault((sample.gpu, name), fact)
        for name in _TRAFFIC:
            highest = peaks.get((sample.gpu, name))
            if sample.values.get(name, 0) > (0 if highest is None else highest.values[name]):
                peaks[sample.gpu, name] = sample
    if not gpus:
        raise text.error("has no row of a GPU, expected output of 'nvidia-smi dmon'")
    yield Reading([*facts.values(), *_traffic(text, peaks)] or [_idle(text, gpus)])


def _states(values: dict[str, float]) -> Iterator[tuple[str, str]]:
    """Yield column and text of unhealthy states of a row."""
    for name, state in _STATES.items():
        if values.get(name, 0) > 0:
            yield name, state if name != "dbecc" else f"{values[name]:.0f} {state}"
    if values.get("pci", 0) >= _MANY_REPLAYS:
        yield "pci", f"{values['pci']:.0f} PCIe replays since the start of the driver (pci)"


def _traffic(text: Text, peaks: dict[tuple[str, str], _Sample]) -> Iterator[Fact]:
    """Yield the largest PCIe traffic of any GPU in each direction."""
    for name, verb in _TRAFFIC.items():
        of_name = [sample for (_, column), sample in peaks.items() if column == name]
        if of_name:
            top = max(of_name, key=lambda sample: sample.values[name])
            # dmon prints megabytes.
            words = (
                f"GPU {top.gpu} {verb} up to {top.values[name] / 1e3:.3g} GB/s over PCIe, the most of all GPUs ({name})"
            )
            yield text.fact(Quantity.NOTE, words, top.line, _PROGRAM)


def _idle(text: Text, gpus: dict[str, int]) -> Fact:
    """Return the note that no row has an unhealthy state."""
    count = f"{len(gpus)} GPUs" if len(gpus) > 1 else "the GPU"
    return text.fact(Quantity.NOTE, f"no throttling and no errors of {count}", min(gpus.values()), _PROGRAM)


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "nvidia-smi dmon -s pucvet > dmon.txt",
    "# gpu pwr gtemp mtemp sm mem enc dec mclk pclk pviol tviol sbecc dbecc pci rxpci txpci",
    _is_output,
    _read,
    "nvidia_smi_dmon.txt",
    versions="columns in any order; thermal violations, errors of memory, PCIe replays and traffic",
    is_per_host=True,
)
