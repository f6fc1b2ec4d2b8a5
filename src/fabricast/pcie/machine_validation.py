"""Forecasts held against measured copies of one machine: what was calibrated, what was judged, and what disagrees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fabricast.pcie.hazards import DIVIDED_WRITES, divided_writes
from fabricast.pcie.host_memory import (
    UNLIMITED,
    crosses_sockets,
    flows_of,
    is_host,
    memory_of_flows,
    with_host_memory,
)
from fabricast.pcie.machine_calibration import Calibration, calibrate_machine, memory_limit, with_socket_capacity
from fabricast.pcie.measured_graph import MeasuredGraph
from fabricast.pcie.programs import PROGRAMS, total_rate
from fabricast.pcie.tree import PcieTree

__all__ = ["MachineValidation", "validate_machine"]

#: Roles of rows that a file lists and does not want judged.
_SET_ASIDE = ("impossible_over_line_rate", "circular_topology", "collapse", "partial_collapse")
#: Measured rates beyond what the links can carry by this share contradict the tree, or are an artefact.
_BEYOND = 0.1
_FAR_OFF = 0.15
#: Copies of one GPU from which on its engine, and not the links, decides.
_MANY = 3


@dataclass(frozen=True)
class MachineValidation:
    """Measured graphs beside their forecasts.

    Parameters
    ----------
    rows : pandas.DataFrame
        A row a graph: graph, communications, flows, program, graph_class, judged, measured_bytes_per_s, forecast with
        low and high, sharing_bytes_per_s (links alone) and no_contention_bytes_per_s, relative_error, remark.
    calibration : Calibration
        Parameters and where they come from.
    remarks : tuple of str
        What disagrees: hazards, links, and whether the tree can be the fabric.
    """

    rows: pd.DataFrame
    calibration: Calibration
    remarks: tuple[str, ...]


def _graph_class(tree: PcieTree, graph: MeasuredGraph) -> str:
    """Return what kind of graph it is: its errors have another cause."""
    if is_host(tree, graph):
        return "host copies"
    ends = [end for flow in graph.flows for end in {f"{flow[0]}>", f">{flow[1]}"}]
    if len(graph.flows) > 1 and max(ends.count(end) for end in set(ends)) >= _MANY:
        return "many copies of a GPU"
    if any(crosses_sockets(tree, flow) for flow in graph.flows):
        return "across sockets"
    return "few copies"


def validate_machine(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], *, one_way_bytes_per_s: float | None = None, seed: int = 0
) -> MachineValidation:
    """Forecast every measured graph of a machine with parameters from its copies alone, and say what disagrees.

    Parameters
    ----------
    tree : PcieTree
        The machine.
    graphs : sequence of MeasuredGraph
        Its measurements.
    one_way_bytes_per_s : float, optional
        Rate of a copy alone where none was measured.
    seed : int, default 0
        Of programs with a random order.

    Returns
    -------
    MachineValidation
        Rows, parameters, and remarks.
    """
    whole = with_host_memory(tree)
    calibration = calibrate_machine(whole, graphs, one_way_bytes_per_s=one_way_bytes_per_s)
    rows = [_row(whole, graph, calibration, seed) for graph in graphs]
    frame = pd.DataFrame(rows)
    return MachineValidation(frame, calibration, tuple(_remarks(whole, graphs, frame)))


def _row(tree: PcieTree, graph: MeasuredGraph, calibration: Calibration, seed: int) -> dict[str, object]:
    flows = flows_of(tree, graph)
    rates, kind = calibration.rates, _graph_class(tree, graph)
    tree = calibration.with_sockets(tree, graph)
    forecast = total_rate(tree, flows, PROGRAMS[graph.program], rates, seed=seed)
    total, low, high = forecast.bytes_per_s, forecast.low_bytes_per_s, forecast.high_bytes_per_s
    if kind == "across sockets" and not calibration.tells_sockets(tree, graph):
        # Nothing tells how wide the link is: at most, it holds nobody back.
        wide = with_socket_capacity(tree, UNLIMITED)
        high = max(high, total_rate(wide, flows, PROGRAMS[graph.program], rates, seed=seed).high_bytes_per_s)
    sharing = total_rate(tree, flows, PROGRAMS["independent"], rates).bytes_per_s
    measured = graph.total_bytes_per_s
    remark = ""
    if graph.name in calibration.used:
        remark = "calibration"
    elif graph.role in _SET_ASIDE:
        remark = f"set aside by the file: {graph.role.replace('_', ' ')}"
    elif (peer := _peer_link(tree, flows)) is not None:
        remark = f"not judged: copies take {peer}, of which the tree tells no rate"
    elif measured > sharing * (1 + _BEYOND) and kind != "host copies":
        remark = "more than the links carry"
    elif kind == "host copies":
        total, remark = _host_forecast(tree, graph, calibration, total)
        low, high = min(low, total), total if not remark else high
    return {
        "graph": graph.name, "communications": " ".join(f"{s}>{t}" for s, t in graph.flows), "flows": len(flows),
        "program": graph.program, "graph_class": kind, "judged": not remark, "measured_bytes_per_s": measured,
        "forecast_bytes_per_s": total, "low_bytes_per_s": low, "high_bytes_per_s": high,
        "sharing_bytes_per_s": sharing, "no_contention_bytes_per_s": rates.one_way_bytes_per_s * len(flows),
        "spread_bytes_per_s": graph.spread * measured if graph.repetitions > 1 else None,
        "relative_error": total / measured - 1, "remark": remark,
    }  # fmt: skip


def _host_forecast(tree: PcieTree, graph: MeasuredGraph, calibration: Calibration, total: float) -> tuple[float, str]:
    """Bound copies of host memory by what it serves and takes; without a probe of several GPUs they are not judged."""
    if not calibration.tells_sockets(tree, graph):
        return total, "not judged: no probe tells what the link between sockets carries"
    limits = calibration.limits
    bound = 0.0
    for memory, reads in memory_of_flows(tree, graph).items():
        both = len(set(reads)) == 2
        if both and len(reads) == 2 and "host_both_ways" in limits:
            bound += limits["host_both_ways"]
            continue
        limit = memory_limit(tree, memory, reads)
        if len(reads) > 1 and limit not in limits and not _is_told(tree, memory):
            several = "both ways" if both else "for several GPUs"
            return total, f"not judged: no probe tells what memory carries {several}"
        bound += limits.get(limit, np.inf)
    return min(total, bound), ""


def _is_told(tree: PcieTree, memory: str) -> bool:
    """Whether the topology tells the capacity of memory."""
    return tree.vertex(memory).capacity < UNLIMITED


def _peer_link(tree: PcieTree, flows: Sequence[tuple[int, int]]) -> str | None:
    """Return the kind of direct link that some copy takes instead of the tree."""
    names = tree.endpoint_names
    return next((kind for s, t in flows if (kind := tree.peer_link(names[s], names[t])) is not None), None)


def _hazard(tree: PcieTree, graph: MeasuredGraph) -> bool:
    """Whether posted writes of one uplink go to destinations behind different root ports."""
    if PROGRAMS[graph.program].executor == "target":
        return False
    source, target = np.array(flows_of(tree, graph), dtype=np.int64).T
    return bool(divided_writes(tree, np.zeros_like(source), source, target).size)


def _remarks(tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame) -> Iterable[str]:
    exceeding = rows[rows["remark"] == "more than the links carry"]
    for row in exceeding.to_dict("records"):
        measured, carried = (float(row[f"{name}_bytes_per_s"]) / 1e9 for name in ("measured", "sharing"))
        yield (
            f"'{row['graph']}' reached {measured:.4g} GB/s, the links of {tree.name} carry {carried:.4g}: the tree "
            "cannot be the fabric, or the measurement is an artefact"
        )
    hazards = [graph.name for graph in graphs if _hazard(tree, graph)]
    if hazards:
        yield f"{len(hazards)} graphs, such as '{hazards[0]}', {DIVIDED_WRITES}"
    yield from _disagreeing_links(tree, graphs, rows)


def _disagreeing_links(tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame) -> Iterable[str]:
    """Name the links that all graphs far off have in common, and no other graph uses."""
    judged = rows[rows["judged"]]
    far = set(judged["graph"][judged["relative_error"].abs() > _FAR_OFF])
    near = set(judged["graph"]) - far
    links: dict[str, set[int]] = {}
    routes = tree.routes
    for graph in graphs:
        pairs = [s * routes.endpoints + t for s, t in flows_of(tree, graph)]
        links[graph.name] = {int(x) for p in pairs for x in routes.link[routes.offset[p] : routes.offset[p + 1]]}
    if not far:
        return
    shared = set.intersection(*(links[name] for name in far)) - set().union(*(links[name] for name in near))
    names = [f"{tree.link_names[link][0]} to {tree.link_names[link][1]}" for link in sorted(shared)]
    if names:
        own = ", ".join(names[:4])
        if len(far) == 1:
            yield f"'{next(iter(far))}', the only graph more than {_FAR_OFF:.0%} off, alone uses {own}"
        else:
            yield f"all {len(far)} graphs more than {_FAR_OFF:.0%} off use {own}, and no other graph does"
