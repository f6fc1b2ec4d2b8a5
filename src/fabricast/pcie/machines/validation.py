"""Forecasts held against measured copies of one machine: what was calibrated, what was judged, and what disagrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from fabricast.pcie.engines.forecast import rate_alone, total_rate
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.machines.calibrate import BEYOND, LINK_PAYLOAD, calibrate_machine, most_carried
from fabricast.pcie.machines.calibration import Calibration
from fabricast.pcie.machines.limits import with_root_link_capacity
from fabricast.pcie.machines.shared_limits import limits_of
from fabricast.pcie.machines.warnings import BEYOND_THE_LINKS, NO_PROBE, machine_remarks
from fabricast.pcie.measurements.measured_graph import (
    CALIBRATION,
    DIRECT_LINKS,
    SET_ASIDE,
    MeasuredGraph,
    flows_of,
    graph_class,
)
from fabricast.pcie.topology.memory import UNLIMITED, with_host_memory
from fabricast.pcie.topology.parts import PeerLink, direct_rates
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["UNTOLD_LINKS", "UNTOLD_ROOT_LINK", "MachineValidation", "validate_machine"]

#: Remarks of rows that are listed and not judged.
UNTOLD_ROOT_LINK = f"{NO_PROBE} what the link between root complexes carries"
UNTOLD_LINKS = "not judged: more than copies through the root complex, and no copy alone below it was measured"


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


def validate_machine(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], *, one_way_bytes_per_s: float | None = None,
    one_way_source: str = LINK_PAYLOAD, seed: int = 0, doubts: Sequence[str] = (),
) -> MachineValidation:  # fmt: skip
    """Forecast every measured graph of a machine with parameters from its copies alone, and say what disagrees.

    Parameters
    ----------
    tree : PcieTree
        The machine.
    graphs : sequence of MeasuredGraph
        Its measurements.
    one_way_bytes_per_s : float, optional
        Rate of a copy alone where none was measured.
    one_way_source : str, optional
        Where that rate comes from.
    seed : int, default 0
        Of programs with a random order.
    doubts : sequence of str, optional
        What the measurements themselves leave in doubt; they come first among the remarks.

    Returns
    -------
    MachineValidation
        Rows, parameters, and remarks.
    """
    whole = with_host_memory(tree)
    calibration = calibrate_machine(
        whole, graphs, one_way_bytes_per_s=one_way_bytes_per_s, one_way_source=one_way_source
    )
    frame = pd.DataFrame([_row(whole, graph, calibration, seed) for graph in graphs])
    _set_other_ways_aside(frame, graphs)
    return MachineValidation(frame, calibration, (*doubts, *machine_remarks(whole, graphs, frame, calibration)))


def _set_other_ways_aside(rows: pd.DataFrame, graphs: Sequence[MeasuredGraph]) -> None:
    """Judge no graph with a copy that alone is faster than the links of the tree: it takes another way."""
    alone = {
        graph.flows[0]
        for graph, remark in zip(graphs, rows["remark"], strict=True)
        if len(graph.flows) == 1 and remark == BEYOND_THE_LINKS
    }
    for place, graph in enumerate(graphs):
        found = next((flow for flow in graph.flows if flow in alone), None)
        if found is not None and rows["judged"].iloc[place]:
            rows.loc[rows.index[place], "judged"] = False
            rows.loc[rows.index[place], "remark"] = (
                f"not judged: {found[0]}>{found[1]} alone is faster than the links of the tree, so it takes another way"
            )


class _Forecast(NamedTuple):
    """Total rate of a graph in bytes/s, with its range over draws and over what nothing tells."""

    total: float
    low: float
    high: float
    #: Whether what nothing tells moves the total by more than rates differ.
    is_wide: bool = False


@lru_cache(maxsize=64)  # most graphs of a machine take the same tree, and its routes
def _with_direct_links(tree: PcieTree, links: tuple[PeerLink, ...]) -> PcieTree:
    return replace(tree, peer_links=links)


def _row(tree: PcieTree, graph: MeasuredGraph, calibration: Calibration, seed: int) -> dict[str, object]:
    flows = flows_of(tree, graph)
    kind = graph_class(tree, graph)
    carried = most_carried(tree, flows, calibration)
    forecast = _forecast(tree, graph, calibration, seed)
    # The baseline knows what probes tell of memory and of the link between root complexes, too.
    limited, limits = limits_of(calibration, tree, graph.flows)
    joined = _with_direct_links(limited, calibration.direct_links)
    shared = total_rate(joined, flows, PROGRAMS["independent"], calibration.rates, over_peer_links=True, limits=limits)
    measured = graph.total_bytes_per_s
    reasons = _untold(joined, graph, calibration)
    remark = ""
    if graph.name in calibration.used:
        remark = "calibration"
    elif graph.role in SET_ASIDE:
        remark = f"set aside by the file: {graph.role.replace('_', ' ')}"
    elif measured > carried * (1 + BEYOND):
        remark = BEYOND_THE_LINKS if calibration.tells_links else UNTOLD_LINKS
    elif graph.role == CALIBRATION:
        remark = "not judged: marked as calibration, and tells no parameter"
    else:
        # A range that is narrow tells enough.
        remark = next((r for r in reasons if r != UNTOLD_ROOT_LINK or forecast is None or forecast.is_wide), "")
    if any(reason != UNTOLD_ROOT_LINK or graph.name in calibration.used for reason in reasons):
        forecast = None
    total, low, high = (np.nan,) * 3 if forecast is None else (forecast.total, forecast.low, forecast.high)
    return {
        "graph": graph.name, "communications": " ".join(f"{s}>{t}" for s, t in graph.flows), "flows": len(flows),
        "program": graph.program, "graph_class": kind, "judged": not remark, "measured_bytes_per_s": measured,
        "forecast_bytes_per_s": total, "low_bytes_per_s": low, "high_bytes_per_s": high,
        "sharing_bytes_per_s": float(shared.flow_bytes_per_s.sum()) if graph.rates_summed else shared.bytes_per_s,
        "no_contention_bytes_per_s": _no_contention(joined, flows, calibration) if kind == DIRECT_LINKS
        else calibration.rates.one_way_bytes_per_s * len(flows),
        "spread_bytes_per_s": graph.spread * measured if graph.repetitions > 1 else None,
        "relative_error": total / measured - 1, "remark": remark,
    }  # fmt: skip


def _forecast(tree: PcieTree, graph: MeasuredGraph, calibration: Calibration, seed: int) -> _Forecast | None:
    """Forecast the total rate of a graph; None where no copy alone tells the least of a link between root complexes."""
    flows, program = flows_of(tree, graph), PROGRAMS[graph.program]

    def total(known: Calibration, capacity: float | None = None) -> _Forecast:
        limited, limits = limits_of(known, tree, graph.flows)
        carrier = _with_direct_links(limited, calibration.direct_links)
        if capacity is not None:
            carrier = with_root_link_capacity(carrier, capacity)
        found = total_rate(
            carrier, flows, program, known.rates, over_peer_links=True, limits=limits, seed=seed
        )  # fmt: skip
        # Of copies that end at different times, the sum of their own rates is more than all bytes until the last end.
        summed = float(found.flow_bytes_per_s.sum()) / found.bytes_per_s if graph.rates_summed else 1.0
        low, high = found.low_bytes_per_s * summed, found.high_bytes_per_s * summed
        return _Forecast(found.bytes_per_s * summed, low, high)

    if calibration.tells_root_link(tree, graph.flows):
        return total(calibration)
    least = calibration.least_of_root_link(tree, graph.flows)
    if least is None:
        return None
    # From a link that carries what one copy alone reached, to one that holds nobody back.
    low, high = total(least), total(calibration, UNLIMITED)
    is_wide = high.total > low.total * (1 + BEYOND)
    return _Forecast(float(np.sqrt(low.total * high.total)), low.low, high.high, is_wide)


def _untold(tree: PcieTree, graph: MeasuredGraph, calibration: Calibration) -> list[str]:
    """Return why a graph is not judged: what neither file nor measurements tell."""
    direct = _direct_remark(tree, graph)
    root_link = "" if calibration.tells_root_link(tree, graph.flows) else UNTOLD_ROOT_LINK
    untold = calibration.untold_memory(tree, graph.flows) or calibration.untold_root_complex(tree, graph.flows)
    return [reason for reason in (direct, root_link, f"{NO_PROBE} {untold}" if untold else "") if reason]


def _direct_remark(tree: PcieTree, graph: MeasuredGraph) -> str:
    """Return why copies over direct links are not judged: nothing tells the rate of one of them."""
    told = direct_rates(tree.peer_links)
    untold = next((flow for flow in graph.flows if tree.peer_link(*flow) is not None and flow not in told), None)
    if untold is None:
        return ""
    kind = tree.peer_link(*untold)
    between = "" if kind == "NVSwitch" else f" between {untold[0]} and {untold[1]}"
    return f"not judged: copies take {kind}, of which no copy alone{between} was measured"


def _no_contention(tree: PcieTree, flows: list[tuple[int, int]], calibration: Calibration) -> float:
    return sum(rate_alone(tree, flow, calibration.rates, over_peer_links=True) for flow in flows)
