"""The fastest order of communications."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd

from fabricast.api.graphs import check_endpoints
from fabricast.api.quantities import MOST_THREADS, check_count, to_bytes_per_s
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.warnings import Warning
from fabricast.pcie.graphs.checks import refuse_peer_copies
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_arcs
from fabricast.pcie.graphs.patterns import Pattern
from fabricast.pcie.models.catalogue import Model, named_model
from fabricast.pcie.models.parameters import machine_parameters
from fabricast.pcie.schedules.enumeration import can_enumerate, enumerate_schedules
from fabricast.pcie.schedules.results import Mode, ScheduleSearch
from fabricast.pcie.schedules.search import search_schedules
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["FastestSchedule", "fastest_schedule"]

#: Schedules that a search evaluates at most.
EVALUATIONS = 40_000


@dataclass(frozen=True)
class FastestSchedule:
    """The fastest schedules of a pattern, and how firmly that holds.

    Parameters
    ----------
    steps : pandas.DataFrame
        One row a communication: schedule (1 is the fastest), source, step, target, elapsed_s (of
        the whole schedule).
    elapsed_s : float
        Time of the fastest.
    naive_s : float
        Time of the order in which the communications are listed.
    bound_s : float
        Proved lower bound: no schedule can be faster.
    optimal : bool
        Whether no schedule is faster: all were evaluated, or the bound is reached.
    search : ScheduleSearch
        All that is known of the space.
    warnings : tuple of Warning
        What the reader should know, such as which numbers were assumed.
    """

    steps: pd.DataFrame
    elapsed_s: float
    naive_s: float
    bound_s: float
    optimal: bool
    search: ScheduleSearch
    warnings: tuple[Warning, ...]

    def _repr_html_(self) -> str:
        proof = "optimal" if self.optimal else f"at most {self.elapsed_s / self.bound_s - 1:.1%} above the lower bound"
        warnings = "".join(f"<p>warning: {escape(str(one))}</p>" for one in self.warnings)
        best = self.steps[self.steps["schedule"] == 1].pivot(index="source", columns="step", values="target")
        return (
            f"<p>{self.elapsed_s * 1e3:.4g} ms, {proof}; naive order {self.naive_s * 1e3:.4g} ms</p>"
            f"{best.fillna('').to_html()}{warnings}"
        )


def fastest_schedule(
    tree: PcieTree,
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
    """Find the fastest order of communications: all schedules, or a search with a proved bound.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    communications : CongestionGraphs or Pattern
        One graph, as `halo_exchange` gives; each source sends its communications one after the other.
    mode : {'asynchronous', 'synchronised'}
        Whether a source starts its next send when its previous one ends, or all do together.
    model, bandwidth, tau, crossing_cost, parameters, pcie_only, threads
        As for `fabricast.predict`.
    latency_s : float, default 0
        Pause before each send.
    top : int, default 10
        How many of the fastest to return.
    progress : callable, optional
        Called, if the space is searched, with the number of schedules evaluated since its last call.

    Returns
    -------
    FastestSchedule
        The fastest schedules and how firmly that holds.

    Raises
    ------
    InputError
        If there is not exactly one graph, or an argument is not as expected.

    Examples
    --------
    >>> import fabricast as fc
    >>> tree = fc.load_topology("storm8")
    >>> found = fc.fastest_schedule(tree, fc.halo_exchange(tree, (4, 2)))
    >>> found.optimal, bool(found.elapsed_s < found.naive_s)
    (True, True)
    """
    check_count("top", top, 100_000)
    check_count("threads", threads, MOST_THREADS)
    chosen = named_model(model) if isinstance(model, str) else model
    if mode not in get_args(Mode):
        raise unknown_name("mode", str(mode), get_args(Mode))
    pattern = communications if isinstance(communications, Pattern) else _pattern(tree, communications)
    if any(max(arc) >= len(tree.endpoint_names) for arc in pattern.arcs):
        raise InputError(
            f"names endpoints beyond the {len(tree.endpoint_names)} of '{tree.name}'", argument="communications"
        )
    if not pcie_only:
        refuse_peer_copies(tree, from_arcs([pattern.arcs], size_bytes=1.0, names=[pattern.name]))
    machine = machine_parameters(
        tree, bandwidth_bytes_per_s=None if bandwidth is None else to_bytes_per_s(bandwidth), tau=tau,
        crossing_cost=crossing_cost, parameters_file=parameters,
    )  # fmt: skip
    keywords = {
        "model": chosen, "bandwidth_bytes_per_s": machine.bandwidth_bytes_per_s, "tau": machine.tau,
        "crossing_cost": machine.crossing_cost, "latency_s": latency_s, "top": top, "threads": threads,
    }  # fmt: skip
    way: Literal["synchronised", "asynchronous"] = mode  # type: ignore[assignment]  # checked above
    if can_enumerate(pattern):
        found = enumerate_schedules(tree, pattern, way, **keywords)  # type: ignore[arg-type]
    else:
        found = search_schedules(tree, pattern, way, evaluations=EVALUATIONS, progress=progress, **keywords)  # type: ignore[arg-type]
    return FastestSchedule(
        steps=_steps(tree, found), elapsed_s=found.best[0].elapsed_s, naive_s=found.naive.elapsed_s,
        bound_s=found.bound_s, optimal=found.elapsed_s is not None or found.gap <= 1e-9, search=found,
        warnings=(*tree.warnings, *machine.warnings(chosen)),
    )  # fmt: skip


def _pattern(tree: PcieTree, graphs: CongestionGraphs) -> Pattern:
    if len(graphs) != 1:
        raise InputError(f"holds {len(graphs)} graphs, expected one", argument="communications")
    check_endpoints(tree, graphs, "communications")
    if graphs.start_s.any():
        raise InputError(
            "has starts of its own, expected all at 0: a schedule decides when each starts", argument="communications"
        )
    own = [np.flatnonzero(graphs.source == source) for source in range(len(tree.endpoint_names))]
    return Pattern(
        graphs.names[0],
        tuple(tuple(graphs.target[rows].tolist()) for rows in own),
        tuple(tuple(graphs.size_bytes[rows].tolist()) for rows in own),
    )


def _steps(tree: PcieTree, found: ScheduleSearch) -> pd.DataFrame:
    names = tree.endpoint_names
    rows = [
        (rank, names[source], step, names[target], plan.elapsed_s)
        for rank, plan in enumerate(found.best, start=1)
        for source, own in enumerate(plan.order)
        for step, target in enumerate(own, start=1)
    ]
    return pd.DataFrame(rows, columns=["schedule", "source", "step", "target", "elapsed_s"])
