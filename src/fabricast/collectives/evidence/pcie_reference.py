"""Public measurements of collective operations over PCIe: what machines with some model of GPU reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fabricast.collectives.evidence.measured import gpu_of, measured_cases, measured_machine
from fabricast.collectives.reference import Reference, reference_table
from fabricast.core.errors import InputError
from fabricast.core.number_text import size_text
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.nccl.costs import Operation, bus_factor

_PATHS = {True: "direct copies", False: "copies through host memory"}


def pcie_reference(gpu: str, gpus: int, operation: Operation | str, sizes: Sequence[float]) -> Reference:
    """Return the measurements of machines with a model of GPU, with the nearest number of GPUs.

    >>> pcie_reference("RTX 4090", 4, "all_reduce", [2.0**30]).words
    '4 x RTX 4090 over PCIe'
    """
    operation = Operation.of(operation)
    wanted = gpu_model(gpu).words if is_known_gpu(gpu) else gpu
    cases = [
        case
        for case in measured_cases()
        if case.operation is operation and gpu_model(gpu_of(case.system)).words == wanted
    ]
    if not cases:
        names = ", ".join(sorted({gpu_of(case.system) for case in measured_cases() if case.operation is operation}))
        raise InputError(f"{names or 'none'} over PCIe", argument="gpu")
    counts = {case.system: len(measured_machine(case.system).ranks) for case in cases}
    ranks = min(set(counts.values()), key=lambda count: (abs(np.log2(count / gpus)), count))
    cases = [case for case in cases if counts[case.system] == ranks]
    groups = {
        case.system: pd.DataFrame({"size_bytes": case.size_bytes, "median_us": case.measured_s * 1e6}) for case in cases
    }
    notes = []
    for case in cases:
        largest = int(np.argmax(case.size_bytes))
        rate = bus_factor(operation, ranks) * case.size_bytes[largest] / case.measured_s[largest] / 1e9
        path = _PATHS[measured_machine(case.system).settings.has_peer_access]
        notes.append(f"{case.system}, {path}: {rate:.3g} GB/s at {size_text(float(case.size_bytes[largest]))}")
    sources = tuple(dict.fromkeys(case.source for case in cases))
    table = reference_table(list(groups.values()), sizes, operation, ranks)
    words = f"{ranks} x {gpu_of(cases[0].system)} over PCIe"
    return Reference(words, ranks != gpus, operation, 1, ranks, table, tuple(groups), sources, tuple(notes), None)
