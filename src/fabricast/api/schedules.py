"""Search for the fastest order of copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd

from fabricast.api.graphs import check_endpoints
from fabricast.api.machine_inputs import MachineLike, machine_of
from fabricast.api.methods import check_parameters
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.quantities import MOST_THREADS, check_count, to_bytes_per_s
from fabricast.core.warnings import CodedWarning
from fabricast.pcie.graphs.checks import reject_peer_copies
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_pairs
from fabricast.pcie.graphs.patterns import Pattern, halo_pattern, read_pattern
from fabricast.pcie.models.catalogue import Model, named_model
from fabricast.pcie.models.parameters import machine_parameters
from fabricast.pcie.schedules.enumeration import can_enumerate, enumerate_schedules
from fabricast.pcie.schedules.results import Mode, ScheduleSearch
from fabricast.pcie.schedules.search import search_schedules
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["EVALUATIONS", "FastestSchedule", "fastest_schedule", "halo_pattern", "read_pattern"]

#: Longest latency of a message in s; longer ones are typing errors.
_LONGEST_LATENCY_S = 10.0
#: Maximum number of schedules that a search evaluates.
EVALUATIONS = 40_000


@dataclass(frozen=True)
class FastestSchedule:
    """Fastest schedules of a pattern, with a lower bound.

    Parameters
    ----------
    steps : pandas.DataFrame
        One row per copy: schedule (1 is the fastest), source, step, target, elapsed_s (time of the schedule in s).
    elapsed_s : float
        Time of the fastest schedule in s.
    naive_s : float
        Time in s of the order in which the copies are listed.
    bound_s : float
        Proven lower bound of the time of any schedule in s.
    optimal : bool
        Whether the fastest schedule is optimal: all schedules were evaluated, or its time equals the lower bound.
    search : ScheduleSearch
        Result of the search.
    warnings : tuple of CodedWarning
        Assumptions that affect the result.
    """

    steps: pd.DataFrame
    elapsed_s: float
    naive_s: float
    bound_s: float
    optimal: bool
    search: ScheduleSearch
    warnings: tuple[CodedWarning, ...]

    def __repr__(self) -> str:
        end = "no order is faster" if self.optimal else f"no order is faster than {self.bound_s * 1e3:.4g} ms"
        return (
            f"fastest schedule: {self.elapsed_s * 1e3:.4g} ms, naive order {self.naive_s * 1e3:.4g} ms; {end}; the "
            "orders are in `steps`"
        )

    def _repr_html_(self) -> str:
        proof = "optimal" if self.optimal else f"at most {self.elapsed_s / self.bound_s - 1:.1%} above the lower bound"
        warnings = "".join(f"<p>warning: {escape(str(one))}</p>" for one in self.warnings)
        best = self.steps[self.steps["schedule"] == 1].pivot(index="source", columns="step", values="target")
        return (
            f"<p>{self.elapsed_s * 1e3:.4g} ms, {proof}; naive order {self.naive_s * 1e3:.4g} ms</p>"
            f"{best.fillna('').to_html()}{warnings}"
        )


@with_checked_types
def fastest_schedule(
    tree: MachineLike,
    communications: CongestionGraphs | Pattern,
    *,
    mode: Mode | str = "asynchronous",
    model: str | Model = "congestion_factor",
    bandwidth: float | str | None = None,
    tau: float | None = None,
    crossing_cost: float | None = None,
    parameters: str | Path | None = None,
    latency_s: float = 0.0,
    top: int = 10,
    pcie_only: bool = False,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> FastestSchedule:
    """Find the fastest order of copies by enumeration, or by search with a lower bound.

    Each source sends its copies one after the other; the schedule is the order of its targets. Small patterns are
    enumerated. Larger patterns are searched, and a proven lower bound limits the distance from the optimum.

    Parameters
    ----------
    tree : PcieTree, Machine, str, Path or sequence of these
        Topology or machine, its name, or files that describe it.
    communications : CongestionGraphs or Pattern
        One graph, as returned by `halo_exchange`.
    mode : {'asynchronous', 'synchronised'}
        Whether each source starts its next copy when its previous copy ends, or all sources start each step together.
    model, bandwidth, tau, crossing_cost, parameters, pcie_only, threads
        See `fabricast.predict`.
    latency_s : float, default 0
        Delay before each copy in s.
    top : int, default 10
        Number of fastest schedules to return.
    progress : callable, optional
        Called during a search with the number of schedules evaluated since the previous call.

    Returns
    -------
    FastestSchedule
        Fastest schedules and lower bound.

    Raises
    ------
    InputError
        If there is not exactly one graph, or an argument is invalid.

    Examples
    --------
    >>> import fabricast as fc
    >>> tree = fc.load_topology("storm8")
    >>> found = fc.fastest_schedule(tree, fc.halo_exchange(tree, (4, 2)))
    >>> found.optimal, bool(found.elapsed_s < found.naive_s)
    (True, True)
    """
    check_count("top", top, 100_000)
    if not 0 <= latency_s <= _LONGEST_LATENCY_S:
        raise InputError(f"is {latency_s:g}, expected 0 to {_LONGEST_LATENCY_S:g} s", argument="latency_s")
    check_count("threads", threads, MOST_THREADS)
    chosen = named_model(model) if isinstance(model, str) else model
    check_parameters(chosen, tau, crossing_cost)
    if mode not in get_args(Mode):
        raise unknown_name("mode", str(mode), get_args(Mode))
    tree = machine_of(tree).tree
    pattern = communications if isinstance(communications, Pattern) else _pattern(tree, communications)
    if any(max(pair) >= len(tree.endpoint_names) for pair in pattern.pairs):
        raise InputError(
            f"contains endpoints beyond the {len(tree.endpoint_names)} of '{tree.name}'", argument="communications"
        )
    if not pcie_only:
        reject_peer_copies(tree, from_pairs([pattern.pairs], size_bytes=1.0, names=[pattern.name]))
        _reject_staged_copies(tree, pattern)
    machine = machine_parameters(
        tree,
        bandwidth_bytes_per_s=None if bandwidth is None else to_bytes_per_s(bandwidth),
        tau=tau,
        crossing_cost=crossing_cost,
        parameters_file=parameters,
    )
    keywords = {
        "model": chosen,
        "bandwidth_bytes_per_s": machine.bandwidth_bytes_per_s,
        "tau": machine.tau,
        "crossing_cost": machine.crossing_cost,
        "latency_s": latency_s,
        "top": top,
        "threads": threads,
    }
    checked_mode: Literal["synchronised", "asynchronous"] = mode  # type: ignore[assignment]  # checked above
    if can_enumerate(pattern):
        result = enumerate_schedules(tree, pattern, checked_mode, **keywords)  # type: ignore[arg-type]
    else:
        result = search_schedules(tree, pattern, checked_mode, evaluations=EVALUATIONS, progress=progress, **keywords)  # type: ignore[arg-type]
    return FastestSchedule(
        steps=_steps(tree, result),
        elapsed_s=result.best[0].elapsed_s,
        naive_s=result.naive.elapsed_s,
        bound_s=result.bound_s,
        optimal=result.elapsed_s is not None or result.gap <= 1e-9,
        search=result,
        warnings=(*tree.warnings, *machine.warnings(chosen)),
    )


def _reject_staged_copies(tree: PcieTree, pattern: Pattern) -> None:
    """Raise an error if copies pass through host memory, which the models of schedules leave out."""
    names, staged = tree.endpoint_names, set(tree.staged_pairs)
    found = [pair for pair in pattern.pairs if (names[pair[0]], names[pair[1]]) in staged]
    if found:
        raise InputError(
            f"has {len(found)} of {len(pattern.pairs)} copies that pass through host memory, which schedules do not "
            "model: forecast an order with 'fabricast predict'; --pcie-only (pcie_only) counts them as direct ones",
            argument="communications",
        )


def _pattern(tree: PcieTree, graphs: CongestionGraphs) -> Pattern:
    if len(graphs) != 1:
        raise InputError(f"contains {len(graphs)} graphs, expected one", argument="communications")
    check_endpoints(tree, graphs, "communications")
    if graphs.start_s.any():
        raise InputError(
            "contains start times, expected all to be 0: the schedule determines the start times",
            argument="communications",
        )
    rows_of_source = [np.flatnonzero(graphs.source == source) for source in range(len(tree.endpoint_names))]
    return Pattern(
        graphs.names[0],
        tuple(tuple(graphs.target[rows].tolist()) for rows in rows_of_source),
        tuple(tuple(graphs.size_bytes[rows].tolist()) for rows in rows_of_source),
    )


def _steps(tree: PcieTree, found: ScheduleSearch) -> pd.DataFrame:
    names = tree.endpoint_names
    rows = [
        (rank, names[source], step, names[target], plan.elapsed_s)
        for rank, plan in enumerate(found.best, start=1)
        for source, targets in enumerate(plan.order)
        for step, target in enumerate(targets, start=1)
    ]
    return pd.DataFrame(rows, columns=["schedule", "source", "step", "target", "elapsed_s"])
