"""Forecasts of a machine with the one fitted number of its program taken from other machines alone."""

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

__all__ = ["JudgedMachine", "left_out_rates"]

#: Pauses that are tried, as shares of a copy alone.
_PAUSES = np.arange(0, 22, 2) / 100
#: Runs of each: with fewer, chance decides between neighbours.
_DRAWS = 31
#: Pauses with errors up to so many times the least are as good.
_AS_GOOD = 1.1
_Rates = dict[int, NDArray[np.float64]]


@dataclass(frozen=True)
class JudgedMachine:
    """A machine, its measurements and their forecasts.

    Parameters
    ----------
    tree : PcieTree
        The machine.
    graphs : sequence of MeasuredGraph
        Its measurements.
    validation : MachineValidation
        Their forecasts, a row a graph.
    own : bool
        Whether it is the user's: no number is fitted to it.
    """

    tree: PcieTree
    graphs: Sequence[MeasuredGraph]
    validation: MachineValidation
    own: bool


def left_out_rates(machines: Sequence[JudgedMachine], *, seed: int = 0) -> list[NDArray[np.float64]]:
    """Forecast many copies of a GPU with the pauses that fit those of all other machines best.

    Parameters
    ----------
    machines : sequence of JudgedMachine
        All machines.
    seed : int, default 0
        Of programs with a random order.

    Returns
    -------
    list of ndarray of float64, shape (graphs,)
        For each machine the total rates in bytes/s; NaN for graphs on which the pause has no bearing, and where no
        other machine has such graphs. A few machines do not tell one pause: the rate is the mean over all whose mean
        absolute error is within a tenth of the least.

    Examples
    --------
    >>> left_out_rates([])
    []
    """
    tried = [_tried(machine, seed) for machine in machines]
    found = []
    for place, machine in enumerate(machines):
        others = [
            np.abs(rates / other.graphs[number].total_bytes_per_s - 1)
            for other, of_other in zip(machines, tried, strict=True)
            for number, rates in of_other.items()
            if other is not machine and not other.own
        ]
        rates = np.full(len(machine.graphs), np.nan)
        if others:
            error = np.mean(others, axis=0)
            good = error <= error.min() * _AS_GOOD
            for number, of_pauses in tried[place].items():
                rates[number] = of_pauses[good].mean()
        found.append(rates)
    return found


def _tried(machine: JudgedMachine, seed: int) -> _Rates:
    """Return the rates of all pauses for each judged graph on which they bear."""
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
        totals = total_rates(tree, flows, programs, calibration.rates, limits=limits, draws=_DRAWS, seed=seed)
        tried[number] = np.array([total.bytes_per_s for total in totals])
    return tried
