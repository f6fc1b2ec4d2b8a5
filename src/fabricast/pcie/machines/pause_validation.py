"""Forecasts with a pause between copies that is fitted to other machines only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.engines.forecast import total_rates
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.machines.shared_limits import limits_of
from fabricast.pcie.machines.validation import MachineValidation
from fabricast.pcie.measurements.measured_graph import MANY_COPIES, MeasuredGraph, flows_of
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.tree import PcieTree

#: Candidate pauses, as shares of the duration of an isolated copy.
_PAUSES = np.arange(5, 30, 5) / 100
#: Draws per pause. Copies are repeated as often as in forecasts: with 20 repetitions all-to-all copies are not yet in a
#: steady state, and other pauses fit.
_DRAWS = 5
#: Pauses are equally good if their error is at most this multiple of the smallest error.
_AS_GOOD = 1.1
_Rates = dict[int, NDArray[np.float64]]


@dataclass(frozen=True)
class ValidatedMachine:
    """A machine, its measurements and their forecasts."""

    tree: PcieTree  # Topology of the machine
    graphs: Sequence[MeasuredGraph]  # Measured graphs of the machine
    validation: MachineValidation  # Forecasts of these graphs, one row per graph
    user_supplied: bool  # Whether the machine is user-supplied; no parameter is fitted to it


def left_out_rates(machines: Sequence[ValidatedMachine], *, seed: int = 0) -> list[NDArray[np.float64]]:
    """Forecast many copies of a GPU with the pauses that fit all other machines best.

    >>> left_out_rates([])
    []
    """
    tried = [_tried(machine, seed) for machine in machines]
    left_out = []
    for machine_number, machine in enumerate(machines):
        others = [
            np.abs(rates / other.graphs[number].total_bytes_per_s - 1)
            for other, of_other in zip(machines, tried, strict=True)
            for number, rates in of_other.items()
            if other is not machine and not other.user_supplied
        ]
        rates = np.full(len(machine.graphs), np.nan)
        if others:
            error = np.mean(others, axis=0)
            good = error <= error.min() * _AS_GOOD
            for number, of_pauses in tried[machine_number].items():
                rates[number] = of_pauses[good].mean()
        left_out.append(rates)
    return left_out


def _tried(machine: ValidatedMachine, seed: int) -> _Rates:
    """Return the total rates with each pause, by number of the affected graphs."""
    whole, calibration = with_host_memory(machine.tree), machine.validation.calibration
    rows = machine.validation.rows
    tried: _Rates = {}
    for number, graph in enumerate(machine.graphs):
        program, row = PROGRAMS[graph.program], rows.iloc[number]
        if not row["judged"] or row["graph_class"] != MANY_COPIES or program.switch_share == 0:
            continue
        tree, limits = limits_of(calibration, whole, graph.flows)
        flows = flows_of(tree, graph)
        programs = [replace(program, switch_share=float(pause)) for pause in _PAUSES]
        totals = total_rates(
            tree,
            flows,
            programs,
            calibration,
            limits=limits,
            draws=_DRAWS,
            seed=seed,
            sharing="ports",
            statistic=graph.statistic,
        )
        tried[number] = np.array([total.bytes_per_s for total in totals])
    return tried
