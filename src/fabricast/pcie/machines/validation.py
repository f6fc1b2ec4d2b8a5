"""Validation of forecasts with measured copies of one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from fabricast.core.errors import InputError
from fabricast.core.warnings import CodedWarning
from fabricast.pcie.engines.forecast import Sharing, isolated_rate, total_rate
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.machines.calibrate import BEYOND, calibrate_machine, highest_link_rate
from fabricast.pcie.machines.exclusion import Exclusion, Reason
from fabricast.pcie.machines.limits import with_inter_socket_capacity
from fabricast.pcie.machines.shared_limits import limits_of
from fabricast.pcie.machines.unknown_limits import unknown_limits, with_inter_socket_worst_case
from fabricast.pcie.machines.warnings import machine_warnings
from fabricast.pcie.measurements.measured_graph import (
    CALIBRATION,
    DIRECT_LINKS,
    EXCLUDED_ROLES,
    MeasuredGraph,
    flows_of,
    graph_class,
)
from fabricast.pcie.topology.memory import UNLIMITED, with_host_memory
from fabricast.pcie.topology.parts import PeerLink, direct_rates
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["GraphForecast", "MachineValidation", "check_number", "forecast_graph", "validate_machine", "validate_rates"]


#: Maximum number of measured graphs: each takes a few milliseconds.
MOST_GRAPHS = 20_000


@dataclass(frozen=True)
class MachineValidation:
    """Measured graphs with their forecasts.

    Parameters
    ----------
    rows : pandas.DataFrame
        One row per graph: graph, communications, flows, program, statistic, graph_class, ``judged`` (whether the graph
        is used for validation), measured_bytes_per_s, forecast_bytes_per_s with low and high (only high if no probe
        measured host memory), sharing_bytes_per_s (links only), no_contention_bytes_per_s, relative_error, reason_code
        and reason (of graphs excluded from validation).
    calibration : Rates
        Parameters and their sources.
    warnings : tuple of CodedWarning
        Contradictions between measurements and topology, and missing measurements.
    """

    rows: pd.DataFrame
    calibration: Rates
    warnings: tuple[CodedWarning, ...]


def validate_machine(
    tree: PcieTree,
    graphs: Sequence[MeasuredGraph],
    *,
    one_way_bytes_per_s: float | None = None,
    seed: int = 0,
    warnings: Sequence[CodedWarning] = (),
) -> MachineValidation:
    """Compare forecasts with the measured graphs of a machine, which calibrate them."""
    check_number(graphs)
    whole = with_host_memory(tree)
    rates = calibrate_machine(whole, graphs, one_way_bytes_per_s=one_way_bytes_per_s)
    return validate_rates(whole, graphs, rates, seed=seed, warnings=warnings)


def check_number(graphs: Sequence[MeasuredGraph]) -> None:
    """Refuse more graphs than are compared in a few minutes."""
    if len(graphs) > MOST_GRAPHS:
        raise InputError(f"the measurements have {len(graphs):,} graphs, expected at most {MOST_GRAPHS:,}")


def validate_rates(
    whole: PcieTree,
    graphs: Sequence[MeasuredGraph],
    calibration: Rates,
    *,
    seed: int = 0,
    warnings: Sequence[CodedWarning] = (),
    progress: Callable[[int], None] | None = None,
) -> MachineValidation:
    """Compare forecasts with the measured graphs of a machine; `whole` is the topology with host memory."""
    rows = []
    for graph in graphs:
        rows.append(_row(whole, graph, calibration, seed))
        if progress is not None:
            progress(1)
    frame = pd.DataFrame(rows)
    _exclude_other_routes(frame, graphs)
    return MachineValidation(frame, calibration, (*warnings, *machine_warnings(whole, graphs, frame, calibration)))


def _exclude_other_routes(rows: pd.DataFrame, graphs: Sequence[MeasuredGraph]) -> None:
    """Exclude graphs with a copy whose isolated rate exceeds the links of the tree.

    Such a copy uses another route.
    """
    fast = {
        graph.flows[0]
        for graph, code in zip(graphs, rows["reason_code"], strict=True)
        if len(graph.flows) == 1 and code == Reason.BEYOND_LINKS
    }
    for number, graph in enumerate(graphs):
        copy = next((flow for flow in graph.flows if flow in fast), None)
        if copy is not None and rows["judged"].iloc[number]:
            rows.loc[rows.index[number], "judged"] = False
            rows.loc[rows.index[number], "reason_code"] = str(Reason.OTHER_ROUTE)
            rows.loc[rows.index[number], "reason"] = (
                f"an isolated copy {copy[0]}>{copy[1]} is faster than the links of the tree, so it uses another route"
            )


class GraphForecast(NamedTuple):
    """Total rate of a graph in bytes/s, with its range over draws and unknown limits."""

    total: float
    low: float
    high: float
    #: Rate if all copies run like the slowest one.
    slowest: float
    #: Whether the unknown limits change the total by more than measured rates scatter.
    is_wide: bool = False


@lru_cache(maxsize=64)  # most graphs of a machine share the tree and its routes
def _with_direct_links(tree: PcieTree, links: tuple[PeerLink, ...]) -> PcieTree:
    return replace(tree, peer_links=links)


def _row(tree: PcieTree, graph: MeasuredGraph, calibration: Rates, seed: int) -> dict[str, object]:
    flows = flows_of(tree, graph)
    kind = graph_class(tree, graph)
    capacity = highest_link_rate(tree, flows, calibration, graph.statistic)
    forecast = forecast_graph(tree, graph, calibration, seed=seed)
    engines = forecast_graph(tree, graph, calibration, seed=seed, sharing="max_min")
    # The baseline uses the measured limits of memory and of the link between root complexes, too.
    limited, limits = limits_of(calibration, tree, graph.flows)
    joined = _with_direct_links(limited, calibration.direct_links)
    shared = total_rate(
        joined,
        flows,
        PROGRAMS["independent"],
        calibration,
        over_peer_links=True,
        limits=limits,
        statistic=graph.statistic,
    )
    measured = graph.total_bytes_per_s
    unknown = _unknown(joined, graph, calibration)
    exclusion: Exclusion | None = None
    if graph.name in calibration.used:
        exclusion = Exclusion(Reason.CALIBRATION, "used for calibration")
    elif graph.role in EXCLUDED_ROLES:
        exclusion = Exclusion(Reason.EXCLUDED_BY_FILE, f"excluded by the file: {graph.role.replace('_', ' ')}")
    elif measured > capacity * (1 + BEYOND):
        exclusion = _BEYOND_LINKS if calibration.links_calibrated else _LINKS_UNCALIBRATED
    elif graph.role == CALIBRATION:
        exclusion = Exclusion(Reason.CALIBRATION_UNUSED, "marked as calibration, but determines no parameter")
    else:
        # A narrow range over an unknown inter-socket capacity is precise enough.
        precise = forecast is not None and not forecast.is_wide
        exclusion = next(
            (missing for missing in unknown if not (precise and missing.code is Reason.NO_INTER_SOCKET_PROBE)), None
        )
    codes = {missing.code for missing in unknown}
    # Without a probe of the memory, only the upper bound is known: the memory limits no copy.
    highest = np.nan if forecast is None or codes != {Reason.NO_MEMORY_PROBE} else forecast.high
    if codes - {Reason.NO_INTER_SOCKET_PROBE} or (codes and graph.name in calibration.used):
        forecast = engines = None
    total, low, high = (np.nan, np.nan, highest) if forecast is None else (forecast.total, forecast.low, forecast.high)
    return {
        "graph": graph.name,
        "communications": " ".join(f"{s}>{t}" for s, t in graph.flows),
        "flows": len(flows),
        "program": graph.program,
        "statistic": graph.statistic,
        "graph_class": kind,
        "judged": exclusion is None,
        "measured_bytes_per_s": measured,
        "forecast_bytes_per_s": total,
        "low_bytes_per_s": low,
        "high_bytes_per_s": high,
        "engines_bytes_per_s": np.nan if engines is None else engines.total,
        "sharing_bytes_per_s": shared.bytes_per_s,
        "no_contention_bytes_per_s": _no_contention(joined, flows, calibration)
        if kind == DIRECT_LINKS
        else calibration.one_way_bytes_per_s * len(flows),
        "spread_bytes_per_s": graph.spread * measured if graph.repetitions > 1 else None,
        "relative_error": total / measured - 1,
        "reason_code": "" if exclusion is None else str(exclusion.code),
        "reason": "" if exclusion is None else exclusion.text,
    }


def forecast_graph(
    tree: PcieTree, graph: MeasuredGraph, calibration: Rates, *, seed: int = 0, sharing: Sharing = "ports"
) -> GraphForecast | None:
    """Forecast the total rate of a graph.

    Parameters
    ----------
    tree : PcieTree
        Topology with host memory as endpoints.
    graph : MeasuredGraph
        Graph with its program and statistic.
    calibration : Rates
        Calibration of the machine.
    seed : int, default 0
        Seed of programs with a random order.
    sharing : {'max_min', 'ports'}, default 'ports'
        Rule by which running copies share links.

    Returns
    -------
    GraphForecast or None
        None if the capacity between sockets is unknown and has no lower bound.
    """
    flows, program = flows_of(tree, graph), PROGRAMS[graph.program]

    def total(known: Rates, capacity: float | None = None) -> GraphForecast:
        limited, limits = limits_of(known, tree, graph.flows)
        carrier = _with_direct_links(limited, calibration.direct_links)
        if capacity is not None:
            carrier = with_inter_socket_capacity(carrier, capacity)
        totals = total_rate(
            carrier,
            flows,
            program,
            known,
            over_peer_links=True,
            limits=limits,
            seed=seed,
            sharing=sharing,
            statistic=graph.statistic,
        )
        slowest = len(flows) * float(totals.flow_bytes_per_s.min())
        return GraphForecast(totals.bytes_per_s, totals.low_bytes_per_s, totals.high_bytes_per_s, slowest)

    unknown = unknown_limits(calibration, tree, graph.flows)
    if all(exclusion.code is not Reason.NO_INTER_SOCKET_PROBE for exclusion in unknown):
        return total(calibration)
    worst = with_inter_socket_worst_case(calibration, tree, graph.flows)
    if worst is None:
        return None
    # From an inter-socket link with the rate of a single copy to one that limits no copy. Copies between sockets also
    # slow local copies: at worst all copies run like the slowest one.
    low, high = total(worst), total(calibration, UNLIMITED)
    is_wide = high.total > low.total * (1 + BEYOND)
    return GraphForecast(
        float(np.sqrt(low.total * high.total)), min(low.low, low.slowest), high.high, low.slowest, is_wide
    )


_BEYOND_LINKS = Exclusion(Reason.BEYOND_LINKS, "faster than the links of the tree")
_LINKS_UNCALIBRATED = Exclusion(
    Reason.LINKS_UNCALIBRATED,
    "faster than copies through the root complex, and no single copy below a switch was measured",
)


def _unknown(tree: PcieTree, graph: MeasuredGraph, calibration: Rates) -> list[Exclusion]:
    """Return the unknown rates and limits that the forecast of a graph needs."""
    direct = _unknown_direct_link(tree, graph)
    return [*([] if direct is None else [direct]), *unknown_limits(calibration, tree, graph.flows)]


def _unknown_direct_link(tree: PcieTree, graph: MeasuredGraph) -> Exclusion | None:
    """Return the exclusion of copies over a direct link of unknown rate."""
    known = direct_rates(tree.peer_links)
    copy = next((flow for flow in graph.flows if tree.peer_link(*flow) is not None and flow not in known), None)
    if copy is None:
        return None
    kind = tree.peer_link(*copy)
    between = "" if kind == "NVSwitch" else f" between {copy[0]} and {copy[1]}"
    return Exclusion(
        Reason.DIRECT_LINK_UNMEASURED, f"copies use {kind}, and no single copy{between} over it was measured"
    )


def _no_contention(tree: PcieTree, flows: list[tuple[int, int]], calibration: Rates) -> float:
    return sum(isolated_rate(tree, flow, calibration, over_peer_links=True) for flow in flows)
