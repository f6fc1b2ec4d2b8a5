"""Forecasts held against measured copies of one machine: what was calibrated, what was judged, and what disagrees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.pcie.hazards import divided_writes, divided_writes_text
from fabricast.pcie.host_memory import (
    UNLIMITED,
    flows_of,
    is_between_roots,
    is_host,
    with_host_memory,
)
from fabricast.pcie.machine_calibration import BEYOND, LINK_PAYLOAD, calibrate_machine, links_carry
from fabricast.pcie.machine_limits import root_complex_limits, with_root_link_capacity
from fabricast.pcie.machine_rates import Calibration
from fabricast.pcie.measured_graph import CALIBRATION, SET_ASIDE, MeasuredGraph
from fabricast.pcie.programs import PROGRAMS, rate_alone, total_rate
from fabricast.pcie.shared_limits import limits_of
from fabricast.pcie.tree import PcieTree
from fabricast.pcie.tree_parts import direct_rates

__all__ = [
    "BETWEEN_ROOTS",
    "BEYOND_THE_LINKS",
    "DIRECT_LINKS",
    "MANY_COPIES",
    "MISSING_PROBES",
    "UNLIMITED_ROOT_COMPLEX",
    "UNTOLD_LINKS",
    "UNTOLD_ROOT_LINK",
    "MachineValidation",
    "validate_machine",
]

_FAR_OFF = 0.15
#: PCIe of the sixth generation with 16 lanes; and the share of a link below which a copy alone is in doubt.
_FASTEST_LINK, _FAR_BELOW = pcie_link_bytes_per_s(6, 16), 0.25
#: By how much rates in Gbit/s, taken for GB/s, exceed what links carry that they fill mostly or wholly.
_BITS = (4.0, 8.5)
#: Remarks of rows that are listed and not judged.
BEYOND_THE_LINKS = "more than the links carry"
_NO_PROBE = "not judged: no probe tells"
UNTOLD_ROOT_LINK = f"{_NO_PROBE} what the link between root complexes carries"
UNTOLD_LINKS = "not judged: more than a copy across the root complex, and no copy alone below it was measured"
#: Parts of remarks that say what was not measured, and nothing against a tree.
MISSING_PROBES = "can be judged once probes are measured"
UNLIMITED_ROOT_COMPLEX = "is taken to hold back nobody"
BETWEEN_ROOTS = "between root complexes"
HOST_COPIES = "host copies"
#: Class of graphs with copies over NVLink, NVSwitch or xGMI.
DIRECT_LINKS = "direct links"
#: Class of graphs in which the engine of a GPU decides.
MANY_COPIES = "many copies of a GPU"
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
    if is_host(tree, graph.flows):
        return HOST_COPIES
    if any(tree.peer_link(*flow) is not None for flow in graph.flows):
        return DIRECT_LINKS
    ends = [end for flow in graph.flows for end in {f"{flow[0]}>", f">{flow[1]}"}]
    if len(graph.flows) > 1 and max(ends.count(end) for end in set(ends)) >= _MANY:
        return MANY_COPIES
    if any(is_between_roots(tree, flow) for flow in graph.flows):
        return BETWEEN_ROOTS
    return "few copies"


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
    rows = [_row(whole, graph, calibration, seed) for graph in graphs]
    frame = pd.DataFrame(rows)
    return MachineValidation(frame, calibration, (*doubts, *_remarks(whole, graphs, frame, calibration)))


class _Forecast(NamedTuple):
    """Total rate of a graph in bytes/s, with its range over draws and over what nothing tells."""

    total: float
    low: float
    high: float


def _row(tree: PcieTree, graph: MeasuredGraph, calibration: Calibration, seed: int) -> dict[str, object]:
    flows = flows_of(tree, graph)
    kind = _graph_class(tree, graph)
    carried = _carried(tree, flows, calibration)
    forecast = _forecast(tree, graph, calibration, seed)
    # The baseline knows what probes tell of memory and of the link between root complexes, too.
    limited, limits = limits_of(calibration, tree, graph.flows)
    joined = replace(limited, peer_links=calibration.direct_links)
    shared = total_rate(joined, flows, PROGRAMS["independent"], calibration.rates, over_peer_links=True, limits=limits)
    measured = graph.total_bytes_per_s
    untold = _untold(joined, graph, calibration)
    remark = ""
    if graph.name in calibration.used:
        remark = "calibration"
    elif graph.role in SET_ASIDE:
        remark = f"set aside by the file: {graph.role.replace('_', ' ')}"
    elif measured > carried * (1 + BEYOND):
        remark = BEYOND_THE_LINKS if calibration.tells_links else UNTOLD_LINKS
    elif graph.role == CALIBRATION:
        remark = "not judged: marked as calibration, and tells no parameter"
    elif untold and (forecast is None or untold != UNTOLD_ROOT_LINK or forecast.high > forecast.low * (1 + BEYOND)):
        remark = untold
    if untold and untold != UNTOLD_ROOT_LINK:
        forecast = None
    total, low, high = (np.nan,) * 3 if forecast is None else forecast
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
        carrier = replace(limited, peer_links=calibration.direct_links)
        if capacity is not None:
            carrier = with_root_link_capacity(carrier, capacity)
        found = total_rate(
            carrier, flows, program, known.rates, over_peer_links=True, limits=limits, seed=seed
        )  # fmt: skip
        # Of copies that end at different times, the sum of their own rates is more than all bytes until the last end.
        summed = float(found.flow_bytes_per_s.sum()) / found.bytes_per_s if graph.rates_summed else 1.0
        return _Forecast(
            *(rate * summed for rate in (found.bytes_per_s, found.low_bytes_per_s, found.high_bytes_per_s))
        )

    if calibration.tells_root_link(tree, graph.flows):
        return total(calibration)
    least = calibration.least_of_root_link(tree, graph.flows)
    if least is None:
        return None
    # From a link that carries what one copy alone reached, to one that holds nobody back.
    low, high = total(least), total(calibration, UNLIMITED)
    return _Forecast(float(np.sqrt(low.total * high.total)), low.low, high.high)


def _untold(tree: PcieTree, graph: MeasuredGraph, calibration: Calibration) -> str:
    """Return why a graph is not judged: what neither file nor measurements tell; nothing if all is told."""
    direct = _direct_remark(tree, graph)
    if direct:
        return direct
    if not calibration.tells_root_link(tree, graph.flows):
        return UNTOLD_ROOT_LINK
    untold = calibration.untold_memory(tree, graph.flows) or calibration.untold_root_complex(tree, graph.flows)
    return f"{_NO_PROBE} {untold}" if untold else ""


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


def _carried(tree: PcieTree, flows: list[tuple[int, int]], calibration: Calibration) -> float:
    """Return the most that the links can carry, each at the fastest rate that is known.

    Copies over direct links add what these carry; where nothing tells it, there is no most.
    """
    rates, names = calibration.rates, tree.endpoint_names
    told = direct_rates(calibration.direct_links or tree.peer_links)
    direct = [flow for flow in flows if tree.peer_link(names[flow[0]], names[flow[1]]) is not None]
    most = sum(told.get((names[source], names[target]), np.inf) for source, target in direct)
    on_tree = [flow for flow in flows if flow not in direct]
    if on_tree:
        most += links_carry(tree, on_tree, max(rates.one_way_bytes_per_s, rates.crossing_bytes_per_s or 0.0))
    return most


def _hazard(tree: PcieTree, graph: MeasuredGraph) -> bool:
    """Whether posted writes of one uplink go to destinations behind different root ports."""
    kind = _graph_class(tree, graph)
    if PROGRAMS[graph.program].executor == "target" or kind in (DIRECT_LINKS, HOST_COPIES):
        return False
    source, target = np.array(flows_of(tree, graph), dtype=np.int64).T
    return bool(divided_writes(tree, np.zeros_like(source), source, target).size)


def _remarks(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame, calibration: Calibration
) -> Iterable[str]:
    by_name = {graph.name: graph for graph in graphs}
    exceeding = rows[rows["remark"] == BEYOND_THE_LINKS]
    if len(exceeding):
        flows = [flows_of(tree, by_name[str(name)]) for name in exceeding["graph"]]
        carried = np.array([_carried(tree, own, calibration) for own in flows])
        yield _beyond_text(tree, exceeding, carried)
    yield from _contradictions(rows)
    yield from _implausible(tree, calibration)
    yield from _slow_direct_links(tree, calibration)
    hazards = [graph.name for graph in graphs if _hazard(tree, graph)]
    if hazards:
        yield divided_writes_text(len(hazards), hazards[0])
    yield from _disagreeing_links(tree, graphs, rows)
    yield from _missing_probes(rows)
    yield from _unlimited_root_complex(tree, graphs, rows, calibration)


def _beyond_text(tree: PcieTree, rows: pd.DataFrame, carried: NDArray[np.float64]) -> str:
    """Say which graphs are faster than the links carry, the furthest first, and what may be the cause."""
    measured = rows["measured_bytes_per_s"].to_numpy(dtype=np.float64)
    times = measured / carried
    worst = int(np.argmax(times))
    more = f" (and {len(rows) - 1} more graphs)" if len(rows) > 1 else ""
    text = (
        f"'{rows['graph'].iloc[worst]}' reached {measured[worst] / 1e9:.4g} GB/s, the links of {tree.name} carry "
        f"{carried[worst] / 1e9:.4g}{more}: the tree cannot be the fabric, the measurement is an artefact, or links "
        "slept when the topology was written"
    )
    if times.min() > _BITS[0] and times.max() < _BITS[1]:
        text += f", or rates are in Gbit/s (up to {times.max():.2g} times as fast as the links)"
    return text


def _slow_direct_links(tree: PcieTree, calibration: Calibration) -> Iterable[str]:
    """Say so if copies alone over direct links are far from what the topology tells of them."""
    if "measured" not in calibration.source.get("direct_link", ""):
        return
    told, reached = direct_rates(tree.peer_links), direct_rates(calibration.direct_links)
    shares = {pair: reached[pair] / rate for pair, rate in told.items() if pair in reached}
    slowest = min(shares, key=lambda pair: shares[pair], default=None)
    if slowest is not None and shares[slowest] < _FAR_BELOW:
        kind = tree.peer_link(*slowest)
        yield (
            f"a copy alone from {slowest[0]} to {slowest[1]} at {reached[slowest] / 1e9:.4g} GB/s is "
            f"{shares[slowest]:.1%} of what the topology tells of their {kind}: see whether the unit is right, peer "
            "access is on, or GPUs are numbered otherwise"
        )


def _missing_probes(rows: pd.DataFrame) -> Iterable[str]:
    """Say what would tell the parameters for want of which graphs are not judged."""
    waiting = rows["graph"][rows["remark"].str.startswith(_NO_PROBE)]
    if len(waiting):
        more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        yield (
            f"'{waiting.iloc[0]}'{more} {MISSING_PROBES}: `fabricast probes` lists them for this "
            "topology, those with role calibration tell the parameters"
        )


def _unlimited_root_complex(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame, calibration: Calibration
) -> Iterable[str]:
    """Say so if graphs are judged that cross a root complex side by side, of which nothing tells what it carries."""
    judged = set(rows["graph"][rows["judged"]])
    told = {*calibration.limits, *calibration.at_least}
    own = [
        graph.name
        for graph in graphs
        if graph.name in judged
        and any(
            name not in told and not _share_all(tree, graph, numbers)
            for name, numbers in root_complex_limits(tree, graph.flows).values()
        )
    ]
    if own and "root_complex" not in told:
        resting = f"'{own[0]}' rests" if len(own) == 1 else f"{len(own)} graphs, such as '{own[0]}', rest"
        yield (
            f"the root complex {UNLIMITED_ROOT_COMPLEX}, on which {resting}: no probe tells what it carries of "
            "several copies between GPUs"
        )


def _share_all(tree: PcieTree, graph: MeasuredGraph, numbers: Sequence[int]) -> bool:
    """Whether all of some copies share a link, which tells more of them than the root complex does."""
    routes, flows = tree.routes, flows_of(tree, graph)
    own = [flows[number][0] * routes.endpoints + flows[number][1] for number in numbers]
    return bool(set.intersection(*(set(routes.link[routes.offset[p] : routes.offset[p + 1]].tolist()) for p in own)))


def _implausible(tree: PcieTree, calibration: Calibration) -> Iterable[str]:
    """Say so if copies alone are far from what links of PCIe carry: of a unit, or of links that sleep."""
    rate, links = calibration.rates.one_way_bytes_per_s, tree.link_bytes_per_s
    if links is None and rate > _FASTEST_LINK:
        yield (
            f"a copy alone at {rate / 1e9:.4g} GB/s is more than PCIe of the sixth generation with 16 lanes carries "
            f"({_FASTEST_LINK / 1e9:.4g} GB/s): see whether rates are in Gbit/s, or copies take NVLink or xGMI"
        )
    if links is not None and rate < _FAR_BELOW * links:
        yield (
            f"a copy alone at {rate / 1e9:.4g} GB/s is {rate / links:.1%} of what the links of {tree.name} carry: see "
            "whether the unit is right, links sleep, or copies go through host memory"
        )


def _contradictions(rows: pd.DataFrame) -> Iterable[str]:
    """Say which rows gave parameters that do not give them back: they contradict others of their kind, or the model."""
    used = rows[rows["remark"] == "calibration"]
    off = used[used["relative_error"].abs() > _FAR_OFF].sort_values("relative_error", key=abs, ascending=False)
    if len(off):
        worst = off.iloc[0]
        yield (
            f"{len(off)} of {len(used)} graphs that give parameters are more than {_FAR_OFF:.0%} off with them, such "
            f"as '{worst['graph']}' ({worst['measured_bytes_per_s'] / 1e9:.4g} GB/s, with them "
            f"{worst['forecast_bytes_per_s'] / 1e9:.4g}): copies of one kind differ, so that the tree is another, GPUs "
            "are numbered otherwise, or something else was running"
        )


def _disagreeing_links(tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame) -> Iterable[str]:
    """Name the links that all graphs far off have in common, and no other graph uses."""
    # Copies over direct links use none of the tree.
    judged = rows[rows["judged"] & (rows["graph_class"] != DIRECT_LINKS)]
    far = set(judged["graph"][judged["relative_error"].abs() > _FAR_OFF])
    near = set(judged["graph"]) - far
    links: dict[str, set[int]] = {}
    routes = tree.routes
    kinds = dict(zip(rows["graph"], rows["graph_class"], strict=True))
    for graph in graphs:
        if kinds[graph.name] == DIRECT_LINKS:
            continue
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
