"""Bandwidth limits that several copies share, and the probes that measure them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache

from fabricast.pcie.engines.forecast import total_rate
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.rates import Limit, Rates, Statistic
from fabricast.pcie.measurements.measured_graph import MeasuredGraph, flows_of
from fabricast.pcie.topology.memory import (
    UNLIMITED,
    ends_of,
    is_host,
    is_inter_socket,
    memory_of,
    memory_of_flows,
    root_complex_of,
    socket_of,
)
from fabricast.pcie.topology.paths import are_disjoint, child_above, copy_class_of
from fabricast.pcie.topology.tree import PcieTree

_MEMORY_PROBE, _NODE_PROBE = "all GPUs of a root complex", "several GPUs, one NUMA node"
_CROSSING_PROBE = "several copies between GPUs across the root complex"
_INTER_SOCKET_PROBE, _REMOTE_PROBE = "several copies between two root complexes", "several copies of remote memory"
#: Copies that are slower than their links by this share are limited by something else.
THROTTLED = 0.05
#: Copies that measure each limit.
PROBES = {
    Limit.MEMORY_READ: _MEMORY_PROBE,
    Limit.MEMORY_WRITE: _MEMORY_PROBE,
    Limit.MEMORY_BOTH_WAYS: _MEMORY_PROBE,
    Limit.MEMORY_READ_OF_A_NODE: _NODE_PROBE,
    Limit.MEMORY_WRITE_OF_A_NODE: _NODE_PROBE,
    Limit.MEMORY_BOTH_WAYS_OF_A_NODE: _NODE_PROBE,
    Limit.HOST_BOTH_WAYS: "one GPU",
    Limit.ROOT_COMPLEX: _CROSSING_PROBE,
    Limit.ROOT_COMPLEX_BOTH_WAYS: _CROSSING_PROBE,
    Limit.ROOT_COMPLEX_LINK: _INTER_SOCKET_PROBE,
    Limit.ROOT_COMPLEX_LINK_BOTH_WAYS: _INTER_SOCKET_PROBE,
    Limit.REMOTE_MEMORY: _REMOTE_PROBE,
    Limit.REMOTE_MEMORY_BOTH_WAYS: _REMOTE_PROBE,
}

#: Limits of the link between two root complexes, and whether each applies to copies of host memory.
INTER_SOCKET_LIMITS = {Limit.ROOT_COMPLEX_LINK: False, Limit.REMOTE_MEMORY: True}


def memory_limit(tree: PcieTree, memory: str, reads: Sequence[bool]) -> Limit:
    """Return the host-memory limit of some copies: of reads, of writes, or of both.

    >>> from fabricast.pcie.topology.memory import with_host_memory
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> memory_limit(with_host_memory(regular_tree("flat4x2", (2, 4))), "H@RC", [True, True])
    <Limit.MEMORY_READ: 'memory_read'>
    """
    direction = "both_ways" if len(set(reads)) == 2 else "read" if reads[0] else "write"
    whole = memory_of(tree, root_complex_of(tree, memory)) == memory
    return Limit(f"memory_{direction}" if whole else f"memory_{direction}_of_a_node")


@lru_cache(maxsize=64)  # forecasts of one machine share the tree and its routes
def with_inter_socket_capacity(tree: PcieTree, capacity: float) -> PcieTree:
    """Return a tree with another capacity of the links between root complexes, if any."""
    below = {one.name for one in tree.vertices if one.parent is not None and tree.vertex(one.parent).kind == "system"}
    return _with_capacity(tree, below, capacity)


def with_host_bridge_capacity(tree: PcieTree, capacity: float) -> PcieTree:
    """Return a tree with another capacity of the links above root complexes."""
    bridges = {one.name for one in tree.vertices if one.kind == "root_complex" and one.parent is not None}
    return _with_capacity(tree, bridges, capacity)


def _with_capacity(tree: PcieTree, names: Collection[str], capacity: float) -> PcieTree:
    """Return a tree with another capacity of the links above some vertices."""
    vertices = tuple(replace(one, capacity=capacity) if one.name in names else one for one in tree.vertices)
    return replace(tree, vertices=vertices)


def inter_socket_routes(
    tree: PcieTree, flows: Sequence[tuple[str, str]], *, of_memory: bool | None = None
) -> list[tuple[str, str]]:
    """Return source and target socket of each copy between sockets, as names of vertices below the system.

    Copies within one socket and copies over direct links are omitted.
    """
    chosen = [flow for flow in flows if of_memory is None or is_host(tree, [flow]) is of_memory]
    crossing = [ends_of(tree, flow) for flow in chosen if is_inter_socket(tree, flow)]
    crossing = [ends for ends in crossing if tree.peer_link(*ends) is None]
    return [(socket_of(tree, source), socket_of(tree, target)) for source, target in crossing]


def inter_socket_limits(tree: PcieTree, flows: Sequence[tuple[str, str]]) -> dict[Limit, list[tuple[str, str]]]:
    """Return the inter-socket limits of some copies.

    Each limit has the source and target root complex of each copy to which it applies. Copies between GPUs and copies
    of memory use the same link but have different limits.
    """
    limits = {}
    for name, of_memory in INTER_SOCKET_LIMITS.items():
        ways = inter_socket_routes(tree, flows, of_memory=of_memory)
        if ways:
            both = any((target, source) in ways for source, target in ways)
            limits[Limit(f"{name}_both_ways") if both else name] = ways
    return limits


def inter_socket_link_count(limit: Limit, ways: Sequence[tuple[str, str]]) -> float:
    """Return the factor by which a limit of `inter_socket_limits` contributes to the total rate."""
    # A limit applies to each sending root complex; a bidirectional limit, to each pair of them.
    return len({source for source, _ in ways}) / (2 if limit.is_bidirectional else 1)


def root_complex_limits(tree: PcieTree, flows: Sequence[tuple[str, str]]) -> dict[str, tuple[Limit, list[int]]]:
    """Return the limit of several copies across each root complex, and their numbers."""
    crossing: dict[str, list[int]] = {}
    ends = [ends_of(tree, flow) for flow in flows]
    for number, (source, target) in enumerate(ends):
        pair = tree.endpoint_number[source], tree.endpoint_number[target]
        if copy_class_of(tree, *pair) == "crossing" and tree.peer_link(source, target) is None:
            crossing.setdefault(tree.turn(source, target), []).append(number)
    limits = {}
    for root, numbers in crossing.items():
        if len(numbers) > 1:
            left = {child_above(tree, root, ends[number][0]) for number in numbers}
            entered = {child_above(tree, root, ends[number][1]) for number in numbers}
            limits[root] = (Limit.ROOT_COMPLEX_BOTH_WAYS if left & entered else Limit.ROOT_COMPLEX, numbers)
    return limits


def host_link_capacity(tree: PcieTree, flow: tuple[str, str]) -> float:
    """Return the smallest capacity of the links between a GPU and the root complex, for a copy of host memory.

    The limit of both directions of one GPU is that of its link, so it scales with the width of the link.
    """
    gpu = next(end for end in ends_of(tree, flow) if not tree.vertex(end).host_memory)
    top = root_complex_of(tree, gpu)
    below = itertools.takewhile(lambda name: name != top, tree.ancestors(gpu))
    return min(tree.vertex(name).capacity for name in below)


def limit_of_probe(tree: PcieTree, graph: MeasuredGraph, *, opposite: bool) -> tuple[Limit, float] | None:
    """Return the limit that a calibration graph measures, and its factor in the total rate."""
    if len(graph.flows) < 2:
        return None
    between = inter_socket_limits(tree, graph.flows)
    used = memory_of_flows(tree, graph.flows)
    if sum(map(len, used.values())) == len(graph.flows) and not between:
        if opposite:
            return Limit.HOST_BOTH_WAYS, host_link_capacity(tree, graph.flows[0])
        names = {memory_limit(tree, memory, reads) for memory, reads in used.items()}
        counts = {len(reads) for reads in used.values()}
        # One copy per memory does not reach its limit; with unequal numbers, the share of each memory is unknown.
        return (names.pop(), len(used)) if len(names) == len(counts) == 1 and counts != {1} else None
    if len(between) == 1:
        (limit, ways), *_ = between.items()
        if len(ways) < len(graph.flows) or (not used and (opposite or are_disjoint(tree, flows_of(tree, graph)))):
            return None
        return limit, inter_socket_link_count(limit, ways)
    crossing = root_complex_limits(tree, graph.flows)
    if used or opposite or len({name for name, _ in crossing.values()}) != 1:
        return None
    if sum(len(numbers) for _, numbers in crossing.values()) < len(graph.flows):
        return None
    return next(iter(crossing.values()))[0], len(crossing)


def by_links(
    tree: PcieTree, flows: Sequence[tuple[str, str]], rates: Rates, *, statistic: Statistic = "sum_of_copies"
) -> float:
    """Return the total rate of some copies in bytes/s if only links limit them.

    `statistic` is the rate that the benchmark prints.
    """
    pairs = [(tree.endpoint_number[s], tree.endpoint_number[t]) for s, t in (ends_of(tree, flow) for flow in flows)]
    wide = with_inter_socket_capacity(tree, UNLIMITED)
    return total_rate(wide, pairs, PROGRAMS["independent"], rates, statistic=statistic).bytes_per_s
