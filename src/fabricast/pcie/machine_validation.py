"""Forecasts held against measured copies of one machine: what was calibrated, what was judged, and what disagrees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fabricast.core.errors import InputError, near_names
from fabricast.pcie.hazards import DIVIDED_WRITES, divided_writes
from fabricast.pcie.measured_graph import HOST, MeasuredGraph
from fabricast.pcie.programs import PROGRAMS, LinkRates, total_rate
from fabricast.pcie.tree import PcieTree
from fabricast.pcie.tree_parts import Vertex

__all__ = ["Calibration", "MachineValidation", "calibrate_machine", "validate_machine", "with_host_memory"]

#: What a byte of the other direction costs where no two-way pair was measured: median of three machines with PCIe 5.0
#: switches (config/published/pcie_concurrent_copies.csv).
DUPLEX_COST = 0.03
#: Roles of rows that a file lists and does not want judged.
_SET_ASIDE = ("impossible_over_line_rate", "circular_topology", "collapse", "partial_collapse")
#: Measured rates beyond what the links can carry by this share contradict the tree, or are an artefact.
_BEYOND = 0.1
_FAR_OFF = 0.15
#: Copies of one GPU from which on its engine, and not the links, decides.
_MANY = 3
#: Memory carries what many root ports ask for; this stands for no limit.
_UNLIMITED = 1000.0


@dataclass(frozen=True)
class Calibration:
    """Rates of a machine, and where each of them comes from.

    Parameters
    ----------
    rates : LinkRates
        One way, two ways, across the root complex.
    read_bytes_per_s, write_bytes_per_s : float or None
        What the memory of a root complex serves to, and takes from, all its GPUs; None where no probe tells.
    source : dict of str to str
        Origin of each by name.
    used : frozenset of str
        Graphs that were used, which are not judged.
    """

    rates: LinkRates
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    source: dict[str, str]
    used: frozenset[str]


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


def with_host_memory(tree: PcieTree) -> PcieTree:
    """Return a tree with host memory below every root complex, as the endpoint ``H@`` and its name.

    Examples
    --------
    >>> from fabricast.pcie.regular_tree import regular_tree
    >>> with_host_memory(regular_tree("flat4x2", (2, 4))).endpoint_names[-1]
    'H@RC'
    """
    roots = [vertex.name for vertex in tree.vertices if vertex.kind == "root_complex"]
    memory = [Vertex(f"{HOST}@{name}", "endpoint", name, capacity=_UNLIMITED) for name in roots]
    return replace(tree, vertices=(*tree.vertices, *memory))


def _root_complex(tree: PcieTree, endpoint: str) -> str:
    above = [name for name in tree.ancestors(endpoint) if tree.vertex(name).kind == "root_complex"]
    return above[-1] if above else tree.root


def _flows(tree: PcieTree, graph: MeasuredGraph) -> list[tuple[int, int]]:
    """Return the endpoint numbers of a graph's flows; host memory is that next to the other end."""
    number = tree.endpoint_number
    found = []
    for source, target in graph.flows:
        names = [source, target]
        for place, name in enumerate(names):
            if name == HOST:
                names[place] = f"{HOST}@{_root_complex(tree, names[1 - place])}"
        for name in names:
            if name not in number:
                raise InputError(f"'{graph.name}' (line {graph.line}): {tree.name} has no endpoint '{name}'"
                                 f"{near_names(name, number)}")  # fmt: skip
        found.append((number[names[0]], number[names[1]]))
    return found


def _is_host(graph: MeasuredGraph) -> bool:
    return any(HOST in flow for flow in graph.flows)


def _graph_class(tree: PcieTree, graph: MeasuredGraph) -> str:
    """Return what kind of graph it is: its errors have another cause."""
    if _is_host(graph):
        return "host copies"
    ends = [end for flow in graph.flows for end in {f"{flow[0]}>", f">{flow[1]}"}]
    if len(graph.flows) > 1 and max(ends.count(end) for end in set(ends)) >= _MANY:
        return "many copies of a GPU"
    if any(tree.vertex(tree.lowest_common_ancestor(*flow)).kind == "system" for flow in graph.flows):
        return "across sockets"
    return "few copies"


def _apart(tree: PcieTree, flows: Sequence[tuple[int, int]]) -> bool:
    """Whether no two flows use a link in the same direction."""
    routes = tree.routes
    used: set[int] = set()
    for source, target in flows:
        pair = source * routes.endpoints + target
        own = set(routes.link[routes.offset[pair] : routes.offset[pair + 1]].tolist())
        if own & used:
            return False
        used |= own
    return True


def calibrate_machine(
    tree: PcieTree, graphs: Iterable[MeasuredGraph], *, one_way_bytes_per_s: float | None = None
) -> Calibration:
    """Take the parameters of a machine from copies alone, opposite pairs, and rows that the file marks.

    Parameters
    ----------
    tree : PcieTree
        With host memory.
    graphs : iterable of MeasuredGraph
        All of the machine.
    one_way_bytes_per_s : float, optional
        Rate of a copy alone where none was measured, such as the payload share of the links.

    Returns
    -------
    Calibration
        Only flows that share no link in the same direction, or that are marked, are used.

    Raises
    ------
    InputError
        If nothing tells the rate of a copy alone.
    """
    alone: dict[str, list[float]] = {"local": [], "crossing": [], "host": []}
    two_way: list[float] = []
    memory: dict[str, list[float]] = {"read": [], "write": []}
    used = set()
    for graph in graphs:
        flows = _flows(tree, graph)
        each = graph.total_bytes_per_s / len(flows)
        marked = graph.role == "calibration"
        opposite = {(t, s) for s, t in flows} == set(flows) and len(flows) == 2
        if marked and _is_host(graph) and len(flows) > 1:
            roots = {_root_complex(tree, s if t == HOST else t) for s, t in graph.flows}
            reads = {source == HOST for source, _ in graph.flows}
            if len(reads) == 1:
                memory["read" if reads.pop() else "write"].append(graph.total_bytes_per_s / len(roots))
                used.add(graph.name)
        elif len(flows) == 1 or (marked and not opposite and _apart(tree, flows)):
            crossing = any(tree.routes.crossing[s * tree.routes.endpoints + t] for s, t in flows)
            alone["host" if _is_host(graph) else "crossing" if crossing else "local"].append(each)
            used.add(graph.name)
        elif opposite and (marked or not graph.role):
            two_way.append(each)
            used.add(graph.name)
    return _estimated(alone, two_way, memory, used, one_way_bytes_per_s)


def _estimated(
    alone: dict[str, list[float]], two_way: list[float], memory: dict[str, list[float]], used: set[str],
    default: float | None,
) -> Calibration:  # fmt: skip
    source = {}
    one_way = next((values for values in (alone["local"], alone["crossing"], alone["host"]) if values), None)
    if one_way:
        rate = float(np.median(one_way))
        source["one_way"] = f"{len(one_way)} measured, copies alone"
    elif default is not None:
        rate = default
        source["one_way"] = "payload share of the links of the file; no copy alone was measured"
    else:
        raise InputError(
            "no copy alone was measured, and the topology has no link rate; measure one (fabricast probes)"
        )
    if two_way:
        both = min(float(np.median(two_way)), rate)
        source["two_way"] = f"{len(two_way)} measured, opposite pairs"
    else:
        both = rate / (1 + DUPLEX_COST)
        source["two_way"] = "duplex cost of other machines; no opposite pair was measured"
    crossing = None
    if alone["crossing"] and alone["local"]:
        crossing = float(np.median(alone["crossing"]))
        source["crossing"] = f"{len(alone['crossing'])} measured, copies alone"
    found = {}
    for name, values in memory.items():
        found[name] = float(np.median(values)) if values else None
        if values:
            source[f"memory_{name}"] = f"{len(values)} measured, all GPUs of a root complex"
    rates = LinkRates(rate, max(both, rate / 2), crossing)
    return Calibration(rates, found["read"], found["write"], source, frozenset(used))


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
    flows = _flows(tree, graph)
    rates, kind = calibration.rates, _graph_class(tree, graph)
    forecast = total_rate(tree, flows, PROGRAMS[graph.program], rates, seed=seed)
    total, low, high = forecast.bytes_per_s, forecast.low_bytes_per_s, forecast.high_bytes_per_s
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
    needed: dict[tuple[str, str], int] = {}
    for source, target in graph.flows:
        if HOST in (source, target):
            way = "read" if source == HOST else "write"
            root = _root_complex(tree, target if source == HOST else source)
            needed[root, way] = needed.get((root, way), 0) + 1
    busy = {key for key, count in needed.items() if count > 1}
    limits = {"read": calibration.read_bytes_per_s, "write": calibration.write_bytes_per_s}
    if any(limits[way] is None for _, way in busy):
        return total, "not judged: no probe tells what memory carries for several GPUs"
    if {way for _, way in needed} == {"read", "write"}:
        return total, "not judged: no probe tells what memory carries both ways"
    bound = sum(limits[way] or np.inf for _, way in needed)
    return min(total, bound), ""


def _peer_link(tree: PcieTree, flows: Sequence[tuple[int, int]]) -> str | None:
    """Return the kind of direct link that some copy takes instead of the tree."""
    names = tree.endpoint_names
    return next((kind for s, t in flows if (kind := tree.peer_link(names[s], names[t])) is not None), None)


def _hazard(tree: PcieTree, graph: MeasuredGraph) -> bool:
    """Whether posted writes of one uplink go to destinations behind different root ports."""
    if PROGRAMS[graph.program].executor == "target":
        return False
    source, target = np.array(_flows(tree, graph), dtype=np.int64).T
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
        pairs = [s * routes.endpoints + t for s, t in _flows(tree, graph)]
        links[graph.name] = {int(x) for p in pairs for x in routes.link[routes.offset[p] : routes.offset[p + 1]]}
    if not far:
        return
    shared = set.intersection(*(links[name] for name in far)) - set().union(*(links[name] for name in near))
    names = [f"{tree.link_names[link][0]} to {tree.link_names[link][1]}" for link in sorted(shared)]
    if names:
        yield f"all {len(far)} graphs more than {_FAR_OFF:.0%} off use {', '.join(names[:4])}, and no other graph does"
