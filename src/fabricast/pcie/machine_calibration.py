"""Rates of a machine from what was measured on it: copies alone, opposite pairs, and probes of what copies share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fabricast.core.errors import InputError
from fabricast.pcie.copy_links import LinkRates, Way, way_of
from fabricast.pcie.copy_ways import ONE_WAY, apart, has_local, telling_way
from fabricast.pcie.direct_links import calibrated_links
from fabricast.pcie.host_memory import (
    UNLIMITED,
    ends_of,
    flows_of,
    is_between_roots,
    is_host,
    memory_of,
    memory_of_flows,
    root_complex_of,
)
from fabricast.pcie.machine_parameters import MachineParameters
from fabricast.pcie.measured_graph import CALIBRATION, MeasuredGraph
from fabricast.pcie.programs import PROGRAMS, total_rate
from fabricast.pcie.tree import PcieTree
from fabricast.pcie.tree_parts import PeerLink

__all__ = [
    "BEYOND",
    "LINK_PAYLOAD",
    "Calibration",
    "calibrate_machine",
    "links_carry",
    "memory_limit",
    "peer_link_of",
    "root_link_limit",
    "uncalibrated",
    "ways_between_roots",
    "with_root_link_capacity",
]

#: What a byte of the other direction costs where no two-way pair was measured: median of three machines with PCIe 5.0
#: switches (config/published/pcie_concurrent_copies.csv).
DUPLEX_COST = 0.03
#: Measured rates beyond what the links can carry by this share contradict the tree, or are an artefact.
BEYOND = 0.1
#: Where the rate of a copy alone comes from that nobody measured or gave.
LINK_PAYLOAD = "payload share of the links of the file"
#: Copies that are slower than their links by this share are held back by something else.
_HELD_BACK = 0.05
#: Kinds of ways, those that may be slower last.
_WAYS: tuple[Way, ...] = ("local", "host_in", "host_out", "crossing", "between_roots")
_WORDS: dict[Way, str] = {
    "local": "below one switch", "crossing": "across the root complex", "between_roots": "between root complexes",
    "host_in": "from host memory", "host_out": "to host memory",
}  # fmt: skip
#: What each limit was measured with.
_PROBES = {
    "memory_read": "all GPUs of a root complex", "memory_write": "all GPUs of a root complex",
    "memory_both_ways": "all GPUs of a root complex", "memory_read_of_a_node": "several GPUs, one NUMA node",
    "memory_write_of_a_node": "several GPUs, one NUMA node",
    "memory_both_ways_of_a_node": "several GPUs, one NUMA node", "host_both_ways": "one GPU",
    "root_complex_link": "several copies between two root complexes",
    "root_complex_link_both_ways": "several copies between two root complexes",
}  # fmt: skip


@dataclass(frozen=True)
class Calibration:
    """Rates of a machine, and where each of them comes from.

    Parameters
    ----------
    rates : LinkRates
        One way, two ways, across the root complex.
    limits : dict of str to float
        In bytes/s, those that probes tell: ``memory_read``, ``memory_write`` and ``memory_both_ways``, what the memory
        of a root complex serves to, takes from and carries for all its GPUs; the same with ``_of_a_node``, of one of
        several NUMA nodes below a root complex; ``host_both_ways``, what one GPU reads and writes there at once;
        ``root_complex_link`` and ``root_complex_link_both_ways``, what the link between two root complexes carries.
    source : dict of str to str
        Origin of each by name.
    used : frozenset of str
        Graphs that were used, which are not judged.
    direct_links : tuple of PeerLink, default ()
        Direct links between GPUs with what copies alone reached over them, else with what the topology tells.
    told_copies : dict of str to int
        Up to how many copies of one memory a limit is told, where memory held those of its probe back by nothing.
    measured_ways : frozenset of str, optional
        Kinds of ways of which a copy alone was measured; None if there are no measurements.
    tells_links : bool, default True
        Whether anything tells what a link carries; if not, `rates` has what a copy across the root complex reaches,
        though the tree has shorter ways.
    """

    rates: LinkRates
    limits: dict[str, float]
    source: dict[str, str]
    used: frozenset[str]
    direct_links: tuple[PeerLink, ...] = ()
    tells_links: bool = True
    told_copies: dict[str, int] = field(default_factory=dict)
    measured_ways: frozenset[Way] | None = None

    @property
    def values(self) -> dict[str, float | None]:
        """Every rate in bytes/s by the name that `source` has for it."""
        rates, direct = self.rates, [link.bytes_per_s for link in self.direct_links if link.bytes_per_s is not None]
        return {
            **({"direct_link": float(np.median(direct))} if direct else {}),
            "one_way": rates.one_way_bytes_per_s, "two_way": rates.two_way_bytes_per_s,
            "crossing": rates.crossing_bytes_per_s, "between_roots": rates.between_roots_bytes_per_s,
            "host_in": rates.host_in_bytes_per_s, "host_out": rates.host_out_bytes_per_s, **self.limits,
        }  # fmt: skip

    def tells_root_link(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> bool:
        """Whether a probe tells what the link between root complexes carries for some copies."""
        ways = ways_between_roots(tree, flows)
        # One copy between GPUs is as fast as such copies are alone; of memory further away, nothing is known.
        if not ways or (len(ways) == 1 and not is_host(tree, flows)):
            return True
        return root_link_limit(ways) in self.limits

    def untold_memory(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> str:
        """Return what no probe and no topology tells of the memory that some copies use; nothing if all is told."""
        for memory, reads in memory_of_flows(tree, flows).items():
            told = tree.vertex(memory).capacity < UNLIMITED
            if len(reads) == 1 or told:
                continue
            ways = "both ways" if len(set(reads)) == 2 else "for several GPUs"
            if self._memory_limit(tree, flows, memory, reads) is None:
                return f"what memory carries {ways}"
            most = self.told_copies.get(memory_limit(tree, memory, reads), len(reads))
            if len(reads) > most:
                return f"what memory carries {ways}, more than {most} copies that it did not hold back"
        return ""

    def with_root_link_limit(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> PcieTree:
        """Return the tree with what a probe tells of the link between root complexes as its capacity."""
        name = root_link_limit(ways_between_roots(tree, flows))
        if not ways_between_roots(tree, flows) or name not in self.limits:
            return tree
        if name == "root_complex_link_both_ways":
            return with_root_link_capacity(tree, self.limits[name] / 2 / self.rates.two_way_bytes_per_s)
        return with_root_link_capacity(tree, self.limits[name] / self.rates.one_way_bytes_per_s)

    def _memory_limit(
        self, tree: PcieTree, flows: Sequence[tuple[str, str]], memory: str, reads: Sequence[bool]
    ) -> float | None:
        """Return what memory carries of several copies in bytes/s; None where no probe tells it."""
        if len(set(reads)) == 2 and len(reads) == 2 and "host_both_ways" in self.limits:
            ends = [set(ends_of(tree, flow)) for flow in flows]
            if len({other for own in ends if memory in own for other in own - {memory}}) == 1:
                return self.limits["host_both_ways"]
        return self.limits.get(memory_limit(tree, memory, reads))


def memory_limit(tree: PcieTree, memory: str, reads: Sequence[bool]) -> str:
    """Return the name of the limit of host memory that serves, takes, or both.

    Parameters
    ----------
    tree : PcieTree
        With host memory.
    memory : str
        One of its endpoints.
    reads : sequence of bool
        Of each copy, whether it reads there.

    Examples
    --------
    >>> from fabricast.pcie.host_memory import with_host_memory
    >>> from fabricast.pcie.regular_tree import regular_tree
    >>> memory_limit(with_host_memory(regular_tree("flat4x2", (2, 4))), "H@RC", [True, True])
    'memory_read'
    """
    way = "memory_both_ways" if len(set(reads)) == 2 else "memory_read" if reads[0] else "memory_write"
    whole = memory_of(tree, root_complex_of(tree, memory)) == memory
    return way if whole else f"{way}_of_a_node"


def with_root_link_capacity(tree: PcieTree, capacity: float) -> PcieTree:
    """Return a tree whose links between root complexes have another capacity; a tree of one socket has none."""
    vertices = tuple(
        replace(vertex, capacity=capacity) if vertex.kind == "root_complex" and vertex.parent is not None else vertex
        for vertex in tree.vertices
    )
    return replace(tree, vertices=vertices)


def peer_link_of(tree: PcieTree, flows: Sequence[tuple[int, int]]) -> str | None:
    """Return the kind of direct link that some copy takes instead of the tree; None if all take the tree."""
    names = tree.endpoint_names
    return next((kind for s, t in flows if (kind := tree.peer_link(names[s], names[t])) is not None), None)


def links_carry(tree: PcieTree, flows: Sequence[tuple[int, int]], bytes_per_s: float) -> float:
    """Return the most that the links can carry of some copies, in bytes/s, with nothing else in the way.

    What a probe does not tell (the link between root complexes), what directions cost each other and slower turns at
    the root complex limit a forecast; that a measurement is faster than these refutes the forecast, not the
    measurement.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    flows : sequence of (int, int)
        Source and target of each copy as endpoint numbers.
    bytes_per_s : float
        Rate of a link of capacity 1.
    """
    wide = with_root_link_capacity(tree, UNLIMITED)
    found = total_rate(wide, flows, PROGRAMS["independent"], LinkRates(bytes_per_s, bytes_per_s))
    return float(found.flow_bytes_per_s.sum())


def calibrate_machine(
    tree: PcieTree, graphs: Iterable[MeasuredGraph], *, one_way_bytes_per_s: float | None = None,
    one_way_source: str = LINK_PAYLOAD,
) -> Calibration:  # fmt: skip
    """Take the parameters of a machine from copies alone, opposite pairs, and rows that the file marks.

    Parameters
    ----------
    tree : PcieTree
        With host memory.
    graphs : iterable of MeasuredGraph
        All of the machine.
    one_way_bytes_per_s : float, optional
        Rate of a copy alone where none was measured, such as the payload share of the links.
    one_way_source : str, optional
        Where that rate comes from.

    Returns
    -------
    Calibration
        Only flows that share no link in the same direction, or that are marked, are used.

    Raises
    ------
    InputError
        If nothing tells the rate of a copy alone.
    """
    alone: dict[Way, list[float]] = {way: [] for way in _WAYS}
    two_way: dict[Way, list[float]] = {way: [] for way in _WAYS}
    limits: dict[str, list[float]] = {name: [] for name in _PROBES}
    direct: dict[tuple[str, str], list[float]] = {}
    used = set()
    beyond: list[MeasuredGraph] = []
    memory_probes: list[tuple[str, MeasuredGraph]] = []
    for graph in graphs:
        flows = flows_of(tree, graph)
        each = graph.total_bytes_per_s / len(flows)
        if peer_link_of(tree, flows) is not None:
            # Such a copy says nothing of the tree.
            if len(flows) == 1 and graph.may_calibrate:
                direct.setdefault(ends_of(tree, graph.flows[0]), []).append(each)
                used.add(graph.name)
            continue
        raw = tree.link_bytes_per_s
        if raw is not None and graph.total_bytes_per_s > links_carry(tree, flows, raw) * (1 + BEYOND):
            # No rate of these links, whatever was measured.
            beyond.append(graph)
            continue
        marked = graph.role == CALIBRATION
        opposite = {(t, s) for s, t in flows} == set(flows) and len(flows) == 2
        probe = _probe_of(tree, graph, opposite) if marked else None
        if probe is not None:
            limits[probe[0]].append(graph.total_bytes_per_s / probe[1])
            memory_probes += [(probe[0], graph)] if probe[0].startswith("memory") else []
        elif is_host(tree, graph.flows) and ways_between_roots(tree, graph.flows):
            # Memory of another socket: neither a path of the tree alone nor what memory carries.
            continue
        elif (len(flows) == 1 and graph.may_calibrate) or (marked and not opposite and apart(tree, flows)):
            # Of several copies that share nothing, the slowest ends last.
            alone[max((way_of(tree, s, t) for s, t in flows), key=_WAYS.index)].append(each)
        elif opposite and graph.may_calibrate and not is_host(tree, graph.flows):
            two_way[way_of(tree, *flows[0])].append(each)
        else:
            continue
        used.add(graph.name)
    if beyond and one_way_bytes_per_s is None and not any(alone.values()):
        raise InputError(
            f"'{beyond[0].name}' reached {beyond[0].total_bytes_per_s / 1e9:.4g} GB/s, more than the links of "
            f"'{tree.name}' carry ({(tree.link_bytes_per_s or 0.0) / 1e9:.4g} GB/s each): the topology is not that of "
            "the machine, or the measurement is an artefact"
        )
    default = None if one_way_bytes_per_s is None else (one_way_bytes_per_s, one_way_source)
    faster = sum(len(graph.flows) == 1 for graph in beyond)
    found = _estimated(alone, two_way, limits, used, default, faster, local=has_local(tree))
    found = replace(found, told_copies=_told_copies(tree, memory_probes, found.rates))
    if not tree.peer_links:
        return found
    links = calibrated_links(tree.peer_links, direct)
    source = {**found.source}
    if direct:
        source["direct_link"] = f"{sum(map(len, direct.values()))} measured, copies alone over direct links"
    elif any(link.bytes_per_s is not None for link in links):
        source["direct_link"] = "told by the topology, headers included; no copy alone was measured"
    return replace(found, source=source, direct_links=links)


def _told_copies(tree: PcieTree, probes: list[tuple[str, MeasuredGraph]], rates: LinkRates) -> dict[str, int]:
    """Return up to how many copies of one memory limits are told that no probe has reached, by name."""
    most: dict[str, int] = {}
    reached: set[str] = set()
    for name, graph in probes:
        links = total_rate(tree, flows_of(tree, graph), PROGRAMS["independent"], rates)
        copies = max(map(len, memory_of_flows(tree, graph.flows).values()))
        if graph.total_bytes_per_s < links.flow_bytes_per_s.sum() * (1 - _HELD_BACK):
            reached.add(name)
        most[name] = max(most.get(name, 0), copies)
    return {name: copies for name, copies in most.items() if name not in reached}


def uncalibrated(machine: MachineParameters) -> Calibration:
    """Return the rates of a machine of which no copies together were measured.

    Parameters
    ----------
    machine : MachineParameters
        Bandwidth of a copy alone, and what bytes behind the root complex cost.

    Examples
    --------
    >>> from fabricast.pcie.machine_parameters import machine_parameters
    >>> from fabricast.pcie.regular_tree import regular_tree
    >>> machine = machine_parameters(regular_tree("flat4x2", (2, 4)), bandwidth_bytes_per_s=51.5e9)
    >>> round(uncalibrated(machine).rates.two_way_bytes_per_s / 1e9, 1)
    50.0
    """
    rate = machine.bandwidth_bytes_per_s
    crossing = rate / machine.crossing_cost if machine.crossing_cost > 1 else None
    known = {row.name: row.source for row in machine.rows}
    source = {"one_way": known["bandwidth"], "two_way": "duplex cost of other machines; no opposite pair was measured"}
    if crossing is not None:
        source["crossing"] = f"crossing cost {machine.crossing_cost:g}: {known['crossing_cost']}"
    return Calibration(LinkRates(rate, rate / (1 + DUPLEX_COST), crossing), {}, source, frozenset())


def _probe_of(tree: PcieTree, graph: MeasuredGraph, opposite: bool) -> tuple[str, float] | None:
    """Return the limit that a marked graph of several copies tells, and how many times it is in the total."""
    if len(graph.flows) < 2:
        return None
    ways = ways_between_roots(tree, graph.flows)
    used = memory_of_flows(tree, graph.flows)
    if sum(map(len, used.values())) == len(graph.flows) and not ways:
        if opposite:
            return "host_both_ways", 1
        names = {memory_limit(tree, memory, reads) for memory, reads in used.items()}
        counts = {len(reads) for reads in used.values()}
        # One copy of each memory tells no limit of it; of unequal numbers nobody knows which memory gave what.
        return (names.pop(), len(used)) if len(names) == len(counts) == 1 and counts != {1} else None
    if used:
        return None
    if len(ways) < len(graph.flows) or opposite or apart(tree, flows_of(tree, graph)):
        return None
    limit = root_link_limit(ways)
    # What one root complex sends; both ways, the links of two of them carry the total together.
    return limit, len({source for source, _ in ways}) / (2 if limit == "root_complex_link_both_ways" else 1)


def ways_between_roots(tree: PcieTree, flows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return from which root complex to which the copies between root complexes go."""
    crossing = [ends_of(tree, flow) for flow in flows if is_between_roots(tree, flow)]
    return [(root_complex_of(tree, source), root_complex_of(tree, target)) for source, target in crossing]


def root_link_limit(ways: Sequence[tuple[str, str]]) -> str:
    """Return the name of the limit of the link between root complexes for copies that go these ways."""
    return (
        "root_complex_link_both_ways"
        if any((target, source) in ways for source, target in ways)
        else "root_complex_link"
    )


def _estimated(
    alone: dict[Way, list[float]], two_way: dict[Way, list[float]], limits: dict[str, list[float]], used: set[str],
    default: tuple[float, str] | None, faster: int, *, local: bool,
) -> Calibration:  # fmt: skip
    source = {}
    pooled = {**alone, "host_in": [*alone["host_in"], *alone["host_out"]]}
    fastest = telling_way(pooled)
    both_way: Way | None = next((way for way in ONE_WAY if two_way[way]), None)
    untold = local and fastest in ("crossing", "between_roots")
    # A copy through the root complex may be slower than its links.
    measured = float(np.median(pooled[fastest])) if fastest is not None else 0.0
    slow = untold and default is not None and measured < default[0] * (1 - BEYOND)
    if fastest is not None and not slow:
        rate = measured
        source["one_way"] = f"{len(pooled[fastest])} measured, copies alone"
        if untold or fastest != "local":
            source["one_way"] += f", all {'from and to host memory' if fastest == 'host_in' else _WORDS[fastest]}"
    elif both_way is not None and fastest is None:
        rate = float(np.median(two_way[both_way])) * (1 + DUPLEX_COST)
        source["one_way"] = "opposite pairs and the duplex cost of other machines"
        source["one_way"] += "" if faster else "; no copy alone was measured"
    elif default is not None:
        rate = default[0]
        source["one_way"] = default[1]
        if not faster or fastest is not None:
            source["one_way"] += "; no copy alone was measured"
        if fastest is not None:
            source["one_way"] += f" but {_WORDS[fastest]}"
    else:
        raise InputError(
            "no copy alone was measured, and the topology has no link rate; measure one (fabricast probes)"
        )
    if faster:
        source["one_way"] += (
            f"; {faster} copies alone are left out, faster than the links of the topology: did these sleep when it was "
            "written?"
        )
    both = rate / (1 + DUPLEX_COST)
    source["two_way"] = "duplex cost of other machines; no opposite pair was measured"
    if both_way is not None:
        # What directions cost each other is told by copies of one kind, alone and both ways.
        one, two = float(np.median(alone[both_way] or [rate])), float(np.median(two_way[both_way]))
        both = min(max(two, one / 2), one) * (rate / one)
        source["two_way"] = f"{len(two_way[both_way])} measured, opposite pairs"
        if both_way != "local":
            source["two_way"] += f" {_WORDS[both_way]}"
        if two > one * (1 + BEYOND):
            source["two_way"] += "; faster than copies alone, so that one way counts"
    slower: dict[Way, float] = {}
    for way in ("crossing", "between_roots", "host_in", "host_out"):
        if alone[way] and (way != fastest or slow) and not (way == "host_out" and fastest == "host_in"):
            slower[way] = float(np.median(alone[way]))
            source[way] = f"{len(alone[way])} measured, copies alone {_WORDS[way]}"
    found = {name: float(np.median(values)) for name, values in limits.items() if values}
    source |= {name: f"{len(limits[name])} measured, {_PROBES[name]}" for name in found}
    rates = LinkRates(
        rate, both, slower.get("crossing"), slower.get("between_roots"), slower.get("host_in"),
        slower.get("host_out"),
    )  # fmt: skip
    ways = frozenset(way for way in _WAYS if alone[way])
    return Calibration(rates, found, source, frozenset(used), tells_links=not untold or slow, measured_ways=ways)
