"""Public measurements of collective operations over PCIe: what machines with some model of GPU reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fabricast.collectives.evidence.measured import MeasuredCase, gpu_of, measured_cases, measured_machine
from fabricast.collectives.reference import Reference, reference_table
from fabricast.core.errors import InputError
from fabricast.core.number_text import size_text
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.nccl.costs import Operation, bus_factor

_PATHS = {True: "direct copies", False: "copies through host memory"}


class PcieRate(NamedTuple):
    """Bus bandwidth of the largest size of a public machine."""

    system: str
    gpus: int
    path: str  # In words
    size_bytes: float
    gb_per_s: float


def _rates(cases: Iterable[MeasuredCase]) -> list[PcieRate]:
    """Return the bus bandwidth of the largest size of each case."""
    found = []
    for case in cases:
        largest, machine = int(np.argmax(case.size_bytes)), measured_machine(case.system)
        count, size = len(machine.ranks), float(case.size_bytes[largest])
        rate = bus_factor(case.operation, count) * size / case.measured_s[largest] / 1e9
        found.append(PcieRate(case.system, count, _PATHS[machine.settings.has_peer_access], size, float(rate)))
    return found


def pcie_rates(gpu: str, operation: Operation) -> list[PcieRate]:
    """Return the rates of the public machines with a model of GPU over PCIe, whatever their number of GPUs.

    >>> sorted({one.path for one in pcie_rates("NVIDIA GeForce RTX 4090", Operation.ALL_REDUCE)})
    ['copies through host memory', 'direct copies']
    """
    return _rates(_cases(gpu, operation))


def _cases(gpu: str, operation: Operation) -> list[MeasuredCase]:
    """Return the measurements of machines with a model of GPU."""
    wanted = gpu_model(gpu).words if is_known_gpu(gpu) else gpu
    return [
        case
        for case in measured_cases()
        if case.operation is operation and gpu_model(gpu_of(case.system)).words == wanted
    ]


def pcie_reference(gpu: str, gpus: int, operation: Operation | str, sizes: Sequence[float]) -> Reference:
    """Return the measurements of machines with a model of GPU, with the nearest number of GPUs.

    >>> pcie_reference("RTX 4090", 4, "all_reduce", [2.0**30]).words
    '4 x RTX 4090 over PCIe'
    """
    operation = Operation.of(operation)
    cases = _cases(gpu, operation)
    if not cases:
        names = ", ".join(sorted({gpu_of(case.system) for case in measured_cases() if case.operation is operation}))
        raise InputError(f"{names or 'none'} over PCIe", argument="gpu")
    counts = {case.system: len(measured_machine(case.system).ranks) for case in cases}
    ranks = min(set(counts.values()), key=lambda count: (abs(np.log2(count / gpus)), count))
    cases = [case for case in cases if counts[case.system] == ranks]
    groups = {
        case.system: pd.DataFrame({"size_bytes": case.size_bytes, "median_us": case.measured_s * 1e6}) for case in cases
    }
    notes = [
        f"{one.system}, {one.path}: {one.gb_per_s:.3g} GB/s at {size_text(one.size_bytes)}" for one in _rates(cases)
    ]
    sources = tuple({case.system: case.source for case in cases}.values())
    table = reference_table(list(groups.values()), sizes, operation, ranks)
    words = f"{ranks} x {gpu_of(cases[0].system)} over PCIe"
    measured = tuple(sorted({float(size) for case in cases for size in case.size_bytes}))
    return Reference(
        words, ranks != gpus, operation, 1, ranks, table, tuple(groups), sources, tuple(notes), None, measured
    )
