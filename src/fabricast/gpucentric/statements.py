"""Statements of the talk as functions of the model parameters.

The module contains the statements that can be checked without the figures of the talk. Each function
returns for every sample of the parameters whether the statement is true. Samples of the assumed
parameters show which statements depend on assumed values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.gpucentric.methods import (
    CONTROLS,
    GRIDS,
    METHODS,
    Values,
    allreduce_time_s,
    control_ratios,
    control_time_s,
    energy_j,
    kernel_time_s,
    message_time_s,
    polling_energy_j,
    powers_w,
    step_time_s,
    without_peer_limit,
)

SMALL_BYTES: NDArray[np.float64] = 2.0 ** np.arange(3.0, 13.0)
LARGE_BYTES: NDArray[np.float64] = 2.0 ** np.arange(22.0, 26.0)
ALL_BYTES: NDArray[np.float64] = 2.0 ** np.arange(3.0, 26.0)
_NODES = 12
#: Nodes of the allreduce; the slide specifies neither nodes nor payload.
ALLREDUCE_NODES = _NODES


@dataclass(frozen=True)
class Statement:
    """A statement of the talk."""

    #: Identifier, wording and slide numbers.
    name: str
    text: str
    slides: str
    #: Basis of the verdict: 'structure', 'published numbers', 'assumed values'.
    decided_by: Literal["structure", "published numbers", "assumed values"]
    holds: Callable[[Values], NDArray[np.bool_]]  # Function of the parameters that returns one boolean per sample
    #: Function of the parameters that returns the number in the statement, if the talk states one.
    observe: Callable[[Values], float] | None = None


def _every(truth: Any) -> NDArray[np.bool_]:
    """Return for each sample whether a condition is true for all sizes."""
    array = np.atleast_2d(np.asarray(truth))
    return np.asarray(array.all(axis=1))


def _rising(values: list[Any]) -> NDArray[np.bool_]:
    """Return for each sample whether the values are strictly increasing."""
    return _every(np.logical_and.reduce([first < second for first, second in pairwise(values)]))


def _faster(first: str, others: tuple[str, ...], sizes: NDArray[np.float64]) -> Callable[[Values], NDArray[np.bool_]]:
    def holds(value: Values) -> NDArray[np.bool_]:
        time = message_time_s(first, value, sizes)
        return np.asarray(np.logical_and.reduce([_every(time < message_time_s(name, value, sizes)) for name in others]))

    return holds


def _verbs_ratio(value: Values) -> float:
    return float(np.mean(value["verbs_gpu"] / value["verbs_cpu"]))


def _hides_more(value: Values) -> NDArray[np.bool_]:
    size, compute_s, overlap = 256 * 1024.0, 1e-3, 0.9
    total = {
        name: step_time_s(name, value, message_time_s(name, value, size), compute_s, overlap)
        for name in ("mpi", "rma", "ggas")
    }
    return _every((total["mpi"] < total["ggas"]) & (total["rma"] < total["ggas"]))


def _by_grid(value: Values, control: str) -> tuple[Any, Any]:
    """Return performance and energy relative to control by the CPU, shape (samples, grids)."""
    ratios = [control_ratios(control, value, grid) for grid in GRIDS]
    performance, energy = (np.concatenate([np.atleast_2d(r[part]) for r in ratios], axis=1) for part in (0, 1))
    return performance, energy


def _best_of_others(value: Values) -> Any:
    """Return the best relative performance on any grid of control methods other than the CPU."""
    return np.max([_by_grid(value, name)[0].max(axis=1) for name in CONTROLS[1:]], axis=0)


def _grids_with_slowest_kernel(value: Values) -> Any:
    others = np.min([_by_grid(value, name)[0] for name in ("cpu", "stream", "device")], axis=0)
    return (_by_grid(value, "in_kernel")[0] < others).sum(axis=1)


def _grids_with_stream_first(value: Values) -> Any:
    return (_by_grid(value, "stream")[0] > _by_grid(value, "device")[0]).sum(axis=1)


def _in_kernel_grows(value: Values) -> NDArray[np.bool_]:
    """Return whether the in-kernel synchronisation time increases with the number of thread blocks."""
    planes = {grid[:2]: grid for grid in GRIDS}.values()
    return _rising(
        [control_time_s("in_kernel", value, grid) - kernel_time_s("in_kernel", value, grid) for grid in planes]
    )


def _kernel_energy(value: Values) -> Any:
    """Return the lowest energy of in-kernel synchronisation on any grid, relative to the CPU."""
    return _by_grid(value, "in_kernel")[1].min(axis=1)


def _kernel_power(value: Values) -> Any:
    """Return the largest power ratio of in-kernel to stream synchronisation on any grid."""
    powers = [performance * energy for performance, energy in (_by_grid(value, n) for n in ("in_kernel", "stream"))]
    return (powers[0] / powers[1]).max(axis=1)


def _sleeping_saves(value: Values) -> Any:
    """Return the smallest and largest energy saving of stream synchronisation on any grid."""
    saved = 1 - _by_grid(value, "stream")[1]
    return saved.min(axis=1), saved.max(axis=1)


def _allreduce_saves_half(value: Values) -> NDArray[np.bool_]:
    """Return for each sample whether GGAS saves half of the energy at a payload: more at some, less at others."""
    energies = []
    for name in ("ggas", "mpi"):
        time = allreduce_time_s(name, value, ALL_BYTES, ALLREDUCE_NODES)
        energies.append(energy_j(name, value, time, time, 0.0))
    saves = np.atleast_2d(1 - energies[0] / energies[1])
    return np.asarray((saves.max(axis=1) >= 0.5) & (saves.min(axis=1) <= 0.5))


def _irregular(value: Values) -> NDArray[np.bool_]:
    times = {name: message_time_s(name, value, SMALL_BYTES[:4]) for name in ("mpi", "rma", "ggas")}
    energy = {name: energy_j(name, value, time, time, 0.0) for name, time in times.items()}
    both = np.logical_and.reduce(
        [_every((times["ggas"] < times[name]) & (energy["ggas"] < energy[name])) for name in ("mpi", "rma")]
    )
    return np.asarray(both)


def _longer_run_pays(value: Values) -> NDArray[np.bool_]:
    compute = 1e-2
    return _every(energy_j("ggas", value, 1.03 * compute, 0.0, compute) < energy_j("mpi", value, compute, 0.0, compute))


def _polling_optimum(value: Values) -> NDArray[np.bool_]:
    sleeps = np.geomspace(1e-9, 1e-2, 200)
    energy = np.atleast_2d(polling_energy_j(value, 1e-4, sleeps))
    best = energy.argmin(axis=1)
    return np.asarray((best > 0) & (best < sleeps.size - 1))


def _time_energy_correlation(value: Values) -> Any:
    """Return Spearman's rank correlation of time and energy over methods and sizes."""
    times, energies = [], []
    for name in ("mpi", "ggas", "rma", "rma_host"):
        time = message_time_s(name, value, ALL_BYTES)
        times.append(time)
        energies.append(energy_j(name, value, time, time, 0.0))
    both = [np.atleast_2d(np.concatenate(np.broadcast_arrays(*part), axis=-1)) for part in (times, energies)]
    ranks = [pd.DataFrame(part).rank(axis=1).to_numpy() for part in both]
    return np.array([np.corrcoef(time, energy)[0, 1] for time, energy in zip(*ranks, strict=True)])


def _staging_power(value: Values) -> NDArray[np.bool_]:
    totals = {}
    for name in ("mpi", "ggas"):
        totals[name] = sum(more + busy for _, more, busy in powers_w(name, value).values())
    busy = powers_w("mpi", value)
    parts = [busy[component][2] > 0 for component in ("cpu", "dram", "gpu")]
    return _every(np.logical_and.reduce([*parts, totals["mpi"] > totals["ggas"]]))


def _mean(function: Callable[[Values], Any]) -> Callable[[Values], float]:
    return lambda value: float(np.mean(function(value)))


_OTHERS = tuple(name for name in METHODS if name not in ("ggas", "ggas_rma"))
STATEMENTS = (
    Statement(
        "G01",
        "Start-up of verbs driven by the GPU is 10 times that of the CPU.",
        "5",
        "published numbers",
        lambda v: _every(v["verbs_gpu"] >= 10 * v["verbs_cpu"] * (1 - 1e-9)),
        _verbs_ratio,
    ),
    Statement(
        "G02",
        "A remote load takes less than 2 µs, more on the GPU than on the CPU.",
        "16",
        "published numbers",
        lambda v: _every((v["remote_load_cpu"] < v["remote_load_gpu"]) & (v["remote_load_gpu"] < 2e-6)),
        _mean(lambda v: v["remote_load_gpu"]),
    ),
    Statement(
        "G03",
        "A 64-bit data path at 156 MHz has a rate of 1.248 GB/s.",
        "16",
        "published numbers",
        lambda v: _every(np.isclose(v["network_rate"], 64 / 8 * 156e6)),
        _mean(lambda v: v["network_rate"]),
    ),
    Statement(
        "G04",
        "GGAS is fastest for payloads up to 4 KiB.",
        "17, 26",
        "assumed values",
        _faster("ggas", _OTHERS, SMALL_BYTES),
    ),
    Statement(
        "G05",
        "GGAS has a latency floor of 1.9 µs.",
        "17",
        "published numbers",
        lambda v: _every(np.isclose(message_time_s("ggas", v, 0.0), 1.9e-6)),
        _mean(lambda v: message_time_s("ggas", v, 0.0)),
    ),
    Statement(
        "G06",
        "With the limit of peer-to-peer reads MPI beats RMA and GGAS from 4 MiB on.",
        "17, 26",
        "assumed values",
        _faster("mpi", ("rma", "ggas"), LARGE_BYTES),
    ),
    Statement(
        "G07",
        "Without that limit the better of GGAS and RMA beats MPI at every size.",
        "26",
        "assumed values",
        lambda v: _faster("ggas_rma", ("mpi",), ALL_BYTES)(without_peer_limit(v)),
    ),
    Statement(
        "G08", "With enough computation RMA and MPI hide more than GGAS (256 KiB).", "26", "assumed values", _hides_more
    ),
    Statement(
        "G09",
        "Control by the CPU is fastest on all nine grids (performance of the best other form, divided "
        "by that of control by the CPU).",
        "9, 11",
        "assumed values",
        lambda v: _best_of_others(v) < 1,
        _mean(_best_of_others),
    ),
    Statement(
        "G10",
        "The overhead of in-kernel synchronisation grows with the thread blocks.",
        "9",
        "structure",
        _in_kernel_grows,
    ),
    Statement(
        "G11",
        "A sleeping CPU saves about 10 % energy on all nine grids (least saving).",
        "10",
        "assumed values",
        lambda v: np.abs(_sleeping_saves(v)[0] - 0.1) <= 0.005,
        _mean(lambda v: _sleeping_saves(v)[0]),
    ),
    Statement(
        "G12",
        "In-kernel synchronisation uses more energy on all nine grids (least energy relative to that of the CPU).",
        "10",
        "assumed values",
        lambda v: _kernel_energy(v) > 1,
        _mean(_kernel_energy),
    ),
    Statement(
        "G13",
        "In the case shown an allreduce with GGAS saves 50 % energy (at some payload).",
        "18",
        "assumed values",
        _allreduce_saves_half,
    ),
    Statement("G14", "For small, irregular accesses GGAS saves time and energy.", "26", "assumed values", _irregular),
    Statement(
        "G15", "Bypassing the CPU can pay for a run that is 3 % longer.", "26", "assumed values", _longer_run_pays
    ),
    Statement("G16", "Polling less often saves energy up to an optimum.", "11", "structure", _polling_optimum),
    Statement(
        "G17",
        "Time dominates energy: their rank correlation is above 0.95.",
        "26",
        "assumed values",
        lambda v: np.asarray(_time_energy_correlation(v) > 0.95),
        _mean(_time_energy_correlation),
    ),
    Statement("G18", "Staging adds power of CPU, DRAM and copy engine.", "26", "assumed values", _staging_power),
    Statement(
        "G19",
        "In-kernel synchronisation is slowest on all nine grids (number of them).",
        "9",
        "assumed values",
        lambda v: _grids_with_slowest_kernel(v) == len(GRIDS),
        _mean(_grids_with_slowest_kernel),
    ),
    Statement(
        "G20",
        "Stream synchronisation is faster than device synchronisation on all nine grids (number of them).",
        "9",
        "assumed values",
        lambda v: _grids_with_stream_first(v) == len(GRIDS),
        _mean(_grids_with_stream_first),
    ),
    Statement(
        "G21",
        "In-kernel synchronisation saves much more power than stream synchronisation (largest ratio of "
        "their powers on the nine grids).",
        "10",
        "assumed values",
        lambda v: _kernel_power(v) <= 0.9,
        _mean(_kernel_power),
    ),
)
