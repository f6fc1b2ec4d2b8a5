"""Measurement of probes on the GPUs of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.measurements.cuda_copies import _IN_A_ROW, MachineGpus
from fabricast.pcie.measurements.probes import Probe
from fabricast.pcie.topology.memory import HOST
from fabricast.pcie.topology.tree import PcieTree

#: Columns of measured copies for `fabricast validate`, one row per copy and repetition.
COPY_COLUMNS = ("graph", "source", "target", "size_bytes", "elapsed_s", "repetition", "program", "role")
_LEAST_REPETITIONS = 5


def measure_probes(
    gpus: MachineGpus,
    tree: PcieTree,
    probes: Sequence[Probe],
    *,
    size_bytes: int,
    seconds: float,
    width: float = 0.01,
    progress: Callable[[int], None] | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Measure probes on this machine."""
    ordinals = gpus.ordinals(tree)
    memory = {node.name for node in tree.memory_nodes}
    rows: list[tuple[Any, ...]] = []
    left_out = []
    for probe in probes:
        reason = _cannot(gpus, ordinals, memory, probe)
        if reason is None:
            flows = [(_ordinal(ordinals, source), _ordinal(ordinals, target)) for source, target in probe.flows]
            size = max(1, round(size_bytes * probe.size_share))
            read = PROGRAMS[probe.program].executor == "target"
            for repetition, times in enumerate(_repeated(gpus, flows, size, seconds, width, read=read)):
                rows += [
                    (probe.graph, source, target, _IN_A_ROW * size, elapsed, repetition, probe.program, probe.role)
                    for (source, target), elapsed in zip(probe.flows, times, strict=True)
                ]
        else:
            left_out.append(f"{probe.graph}: {reason}")
        if progress is not None:
            progress(1)
    return pd.DataFrame(rows, columns=list(COPY_COLUMNS)), left_out


def _ordinal(ordinals: dict[str, int], name: str) -> int | None:
    return None if name == HOST else ordinals[name]


def _cannot(gpus: MachineGpus, ordinals: dict[str, int], memory: set[str], probe: Probe) -> str | None:
    """Return the reason why a probe cannot run on this machine; None if it can."""
    for source, target in probe.flows:
        for name in (source, target):
            if name != HOST and name not in ordinals:
                if name in memory:
                    return f"{name} cannot be selected as host memory; run another benchmark under numactl --membind"
                return f"CUDA shows no GPU at the PCI address of endpoint {name}"
        if HOST not in (source, target) and not gpus.reaches(ordinals[source], ordinals[target]):
            return f"GPU {source} cannot reach memory of GPU {target} without the host"
    return None


def _repeated(
    gpus: MachineGpus,
    flows: list[tuple[int | None, int | None]],
    size_bytes: int,
    seconds: float,
    width: float,
    *,
    read: bool,
) -> list[list[float]]:
    """Repeat copies until the interval of their mean total rate is narrow enough.

    The first repetition is a warm-up and is discarded.
    """
    gpus.together(flows, size_bytes, read=read)
    repetitions: list[list[float]] = []
    end = time.perf_counter() + seconds
    while len(repetitions) < _LEAST_REPETITIONS or time.perf_counter() < end:
        repetitions.append(gpus.together(flows, size_bytes, read=read))
        rates = 1.0 / np.array([max(times) for times in repetitions])
        if (
            len(repetitions) >= _LEAST_REPETITIONS
            and 1.96 * rates.std(ddof=1) / len(rates) ** 0.5 <= width * rates.mean()
        ):
            break
    return repetitions


def measured_text(rows: pd.DataFrame, text: str) -> str:
    """Return measured copies as CSV for `fabricast validate`.

    >>> print(measured_text(pd.DataFrame(columns=list(COPY_COLUMNS)), "nothing measured: no GPU"), end="")
    # nothing measured: no GPU
    graph,source,target,size_bytes,elapsed_s,repetition,program,role
    """
    return f"# {text}\n{rows.to_csv(index=False, lineterminator=chr(10))}"
