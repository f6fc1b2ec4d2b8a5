"""NCCL's view of equal hosts whose GPUs are connected by NVLink: channels of its search, and its cost table.

NVIDIA/nccl 5067397c (v2.30.7), src/graph/search.cc and tuning.cc; differences of older versions since 2.12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from fabricast.nccl.costs import Algorithm, Cost, CostTable, Operation, Protocol, steps_of
from fabricast.nccl.search import Pattern, search_speeds
from fabricast.nccl.system import NEWEST, Cpu, PathType, Version

_PROTOCOLS = (Protocol.LL, Protocol.LL128, Protocol.SIMPLE)
#: Rate of one NVLink as NCCL counts it, in GB/s, by generation: Pascal, Volta, Ampere, Hopper, Blackwell.
_NVLINK_GB_PER_S = {6: 18.0, 7: 20.0, 8: 20.0, 9: 20.6, 10: 40.1}
#: Limits in GB/s for Volta, Ampere, Hopper and Blackwell: on one host, two hosts and more.
_LL_ONE_HOST = {7: 39.0, 8: 87.7, 9: 141.0, 10: 282.0}
_LL_SEVERAL_HOSTS = {True: (22.5, 19.0), False: (39.0, 20.4)}
_RING_LL128 = {7: 20.0, 8: 20.0, 9: 36.7, 10: 40.0}
_TREE_LL128 = {7: (20.0,) * 3, 8: (20.0,) * 3, 9: (36.7, 36.7, 29.0), 10: (55.6, 31.67, 20.0)}
_TREE_SIMPLE = {7: (26.5, 18.5, 10.0), 8: (24.0, 23.6, 17.8), 9: (38.7, 41.4, 36.0), 10: (70.0, 42.8, 24.0)}
_NVLS_TREE = {9: (57.7, 45.5), 10: (96.0, 80.0)}
_NVLS_EFFICIENCY = {9: 0.85, 10: 0.74}
_MOST_HEADS = 32
#: Latencies in us, in the order LL, LL128, Simple.
_BASE_US = {Algorithm.TREE: (6.8, 14.0, 8.4), Algorithm.RING: (6.6, 14.0, 8.4)}
_NVLINK_US = {Algorithm.TREE: (0.6, 1.25, 4.0), Algorithm.RING: (0.6, 1.9, 3.4)}
_NETWORK_US = {Algorithm.TREE: (5.0, 8.5, 14.0), Algorithm.RING: (2.7, 4.0, 14.0)}


@dataclass(frozen=True)
class Hosts:
    """Equal hosts with NVLink between their GPUs, as NCCL counts."""

    capability: float  # CUDA compute capability
    #: GPUs of a host, and number of hosts.
    gpus: int
    hosts: int = 1
    links: int = 0  # NVLinks of a GPU; 0 for one GPU in each host
    is_switched: bool = True  # Whether NVSwitch connects the GPUs; otherwise each pair has the same number of links
    cards: int = 0  # Network cards of a host
    card_gb_per_s: float = 0.0  # Rate of a card in GB/s
    card_path: PathType = PathType.PIX  # Path from a GPU to its card
    gpus_of_switch: int = 1  # GPUs below one PCIe switch
    cpu: Cpu = Cpu.UNKNOWN  # Processor family
    version: Version = NEWEST  # Version of NCCL

    @property
    def ranks(self) -> int:
        """Number of GPUs."""
        return self.gpus * self.hosts

    @property
    def generation(self) -> int:
        """Generation of the GPU: 7 Volta, 8 Ampere, 9 Hopper, 10 Blackwell."""
        return min(max(int(self.capability), 7), 10)

    @property
    def link_gb_per_s(self) -> float:
        """Rate of one NVLink as NCCL counts."""
        if self.generation == 9 and self.version < (2, 20, 0):
            return 20.0
        if self.generation == 10 and self.version < (2, 28, 0):
            return 40.0
        return _NVLINK_GB_PER_S[int(min(max(int(self.capability), 6), 10))]

    @property
    def nvlink_gb_per_s(self) -> float:
        """Rate of all NVLinks of a GPU in one direction, as NCCL counts."""
        return self.links * self.link_gb_per_s

    @property
    def most_channels(self) -> int:
        """Largest number of rings of the search."""
        return 32 if self.version >= (2, 27, 0) else 16

    @property
    def place(self) -> int:
        """Place in tables of limits: one host, two hosts, more."""
        return min(self.hosts, 3) - 1

    @property
    def ring_path(self) -> PathType:
        """Farthest path between a GPU at the end of a ring and the card by which the ring leaves the host."""
        if self.card_path > PathType.PXB and self.gpus > 1 and self.gpus_of_switch < 2:
            # The last GPU of the ring is not below the switch of the card where the ring began.
            return PathType.SYS if self.card_path >= PathType.PHB else self.card_path
        is_reached_over_nvlink = self.gpus > 1 and self.gpus_of_switch < 2 and self.generation < 9
        return PathType.PXN if is_reached_over_nvlink else self.card_path

    @property
    def uses_ll128(self) -> bool:
        """Whether NCCL uses the protocol LL128 by default."""
        if self.hosts == 1:
            return self.gpus > 1
        farthest = PathType.PXN if self.generation >= 9 and self.version >= (2, 27, 0) else PathType.PXB
        return self.ring_path <= farthest

    @property
    def has_nvls(self) -> bool:
        """Whether the GPUs and the version permit NVLS."""
        return self.is_switched and self.generation >= 9 and self.gpus > 1 and self.version >= (2, 18, 0)


@dataclass(frozen=True)
class Graph:
    """Channels of the search for one pattern; speeds of a channel within a host and between hosts in GB/s."""

    channels: int
    intra: float
    inter: float
    pattern: int = Pattern.RING

    def speed(self, hosts: int) -> float:
        """Speed of a channel in the cost table."""
        return self.intra if hosts <= 2 else self.inter


@dataclass(frozen=True)
class Graphs:
    """Rings, trees and, with NVSwitch, the graph of NVLS."""

    rings: Graph
    trees: Graph
    nvls: Graph | None


def _within_host(hosts: Hosts, speed: float) -> int:
    """Return the number of rings of a speed that NVLink permits within a host."""
    if hosts.gpus == 1:
        return hosts.most_channels
    if hosts.is_switched:
        # Over several hosts, the last GPU of a ring sends to the network instead of NVLink.
        share = 1.0 if hosts.hosts == 1 else (hosts.gpus - 1) / hosts.gpus
        return int(hosts.nvlink_gb_per_s / (speed * share) + 1e-9)
    rings_of_pair = int(hosts.nvlink_gb_per_s / (hosts.gpus - 1) / speed + 1e-9)
    if rings_of_pair == 1 and hosts.gpus in (4, 6) and hosts.hosts == 1:
        # The complete directed graphs of 4 and 6 vertices have no decomposition into Hamiltonian circles.
        return hosts.gpus - 2
    return rings_of_pair * (hosts.gpus - 1)


def _rings_that_fit(hosts: Hosts, speed: float) -> int:
    """Return the number of rings of a speed that links and network cards permit."""
    within = min(_within_host(hosts, speed), hosts.most_channels)
    if hosts.hosts == 1:
        return within
    if hosts.ring_path is PathType.SYS:
        # Each ring returns to the card where it began, over a link between processors.
        between = hosts.cpu.link_gb_per_s(hosts.version)
        by_cpu = int(between / speed + 1e-9) * max(hosts.cards - 1, 1)
        return min(within, hosts.cards * min(by_cpu, int(hosts.card_gb_per_s / speed + 1e-9)))
    return min(within, hosts.cards * int(hosts.card_gb_per_s / speed + 1e-9))


@lru_cache(maxsize=256)
def host_graphs(hosts: Hosts) -> Graphs:
    """Return the channels that NCCL's search finds.

    >>> graphs = host_graphs(Hosts(9.0, 8, links=18))
    >>> graphs.rings.channels, graphs.rings.intra, graphs.nvls.channels, graphs.nvls.intra, graphs.nvls.inter
    (12, 30.0, 8, 40.0, 60.0)
    """
    rings = _rings(hosts)
    return Graphs(rings, _trees(hosts, rings), _nvls(hosts) if hosts.has_nvls else None)


def _rings(hosts: Hosts) -> Graph:
    """Return the rings: most bandwidth over all speeds, then doubled at half the speed, then as fast as fits."""
    speeds = search_speeds(hosts.capability, hosts.version, several_hosts=hosts.hosts > 1)
    total = hosts.nvlink_gb_per_s if hosts.gpus > 1 else hosts.card_gb_per_s
    channels, speed = 0, speeds[-1]
    for place, one in enumerate(speeds):
        fitting = _rings_that_fit(hosts, one)
        if fitting * one > channels * speed:
            channels, speed = fitting, one
        following = speeds[place + 1] if place + 1 < len(speeds) else 0.0
        if channels * speed >= total or (channels and following / speed <= 0.49):
            break
    if not channels:
        return Graph(1, 0.1, 0.1)
    is_newer = hosts.capability > 8
    if speed >= 25 and not (is_newer and speed < 50 and channels > 4):
        doubled = min(2 * channels, hosts.most_channels)
        speed /= -(-doubled // channels)
        channels = doubled
    faster = [one for one in speeds if one > speed and _rings_that_fit(hosts, one) >= channels]
    speed = max([speed, *faster])
    return Graph(channels, speed, speed)


def _trees(hosts: Hosts, rings: Graph) -> Graph:
    """Return the trees: as many channels as the rings; over several hosts, the speed within a host is raised."""
    if hosts.hosts == 1:
        return Graph(rings.channels, rings.intra, rings.intra, Pattern.BALANCED_TREE)
    intra, pattern = rings.intra, Pattern.TREE if hosts.generation >= 9 else Pattern.BALANCED_TREE
    speeds = search_speeds(hosts.capability, hosts.version, several_hosts=True)
    for one in sorted(speed for speed in speeds if speed > intra):
        if intra >= 2 * rings.inter or _within_host(hosts, one) < rings.channels:
            break
        intra = one
    return Graph(rings.channels, intra, rings.inter, pattern)


def _nvls(hosts: Hosts) -> Graph:
    """Return the graph of NVLS: one head for each GPU, with a card if there are several hosts."""
    heads = min(hosts.gpus if hosts.hosts == 1 else min(hosts.gpus, hosts.cards), _MOST_HEADS)
    speeds = search_speeds(hosts.capability, hosts.version, several_hosts=hosts.hosts > 1)
    # The links of the head count twice.
    card = hosts.card_gb_per_s if hosts.hosts > 1 else math.inf
    most = min(hosts.nvlink_gb_per_s / (heads + 1), card)
    intra = next((speed for speed in speeds if speed <= most + 1e-9), speeds[-1])
    inter = intra
    for one in sorted(speed for speed in speeds if speed > intra):
        if inter >= 2 * intra or one > card + 1e-9:
            break
        inter = one
    return Graph(heads, intra, inter)


def channels_for_use(hosts: Hosts, algorithm: Algorithm, *, least: int | None = None, most: int | None = None) -> int:
    """Return the channels that kernels use (`ncclTopoPostset`).

    >>> channels_for_use(Hosts(9.0, 8, links=18), Algorithm.RING)
    24
    """
    if algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE):
        if hosts.generation < 10:
            return 16
        return 24 if hosts.hosts == 1 else 32
    rings = host_graphs(hosts).rings
    channels = 2 * rings.channels
    if hosts.hosts > 1 and 9 <= hosts.capability < 10 and rings.intra > 45 and channels < 16:
        channels *= 2
    return min(max(min(channels, 2 * hosts.most_channels), least or 1), most or 64)


def host_costs(hosts: Hosts, operation: Operation, *, card_latency_us: float = 0.0) -> CostTable:
    """Return NCCL's cost table of an operation."""
    graphs = host_graphs(hosts)
    costs = _ring_costs(hosts, operation, graphs, card_latency_us)
    if operation is Operation.ALL_REDUCE:
        costs |= _tree_costs(hosts, graphs, card_latency_us)
    if graphs.nvls is not None:
        costs |= _nvls_costs(hosts, operation, graphs.nvls, card_latency_us)
    return CostTable(operation, hosts.ranks, costs)


class Ll128Limits(NamedTuple):
    """Limits of one channel of LL128 in GB/s."""

    ring: float
    tree: float


def ll128_limits(hosts: Hosts) -> Ll128Limits:
    """Return the limits of LL128 of a ring and of a tree."""
    return Ll128Limits(_RING_LL128[hosts.generation], _TREE_LL128[hosts.generation][hosts.place])


def ll_limit(hosts: Hosts, *, several_hosts: bool) -> float:
    """Return the limit of LL in GB/s, within a host or between several."""
    if several_hosts:
        return _LL_SEVERAL_HOSTS[hosts.cpu is Cpu.AMD][min(hosts.hosts, 3) - 2]
    return 87.7 if hosts.generation == 9 and hosts.version < (2, 21, 0) else _LL_ONE_HOST[hosts.generation]


def _network_us(hosts: Hosts, algorithm: Algorithm, place: int, card_latency_us: float) -> float:
    """Return the latency of a step between hosts; that of the card counts twice for Simple."""
    by_tree = algorithm is Algorithm.TREE or (hosts.gpus == 1 and hosts.version >= (2, 23, 0))
    found = _NETWORK_US[Algorithm.TREE if by_tree else Algorithm.RING][place]
    if by_tree and place == 2 and _is_slow_tree(hosts.version):
        found = 28.0
    return found + card_latency_us * (2 if place == 2 else 1)


def _is_slow_tree(version: Version) -> bool:
    return version < (2, 18, 0) or (2, 19, 0) <= version < (2, 23, 0)


def _ring_costs(
    hosts: Hosts, operation: Operation, graphs: Graphs, card_latency_us: float
) -> dict[tuple[Algorithm, Protocol], Cost]:
    rings, ranks = graphs.rings, hosts.ranks
    total, steps = rings.channels * rings.speed(hosts.hosts), steps_of(operation, ranks)
    share = 0.92 if hosts.gpus > 1 or hosts.version >= (2, 23, 0) else 0.7
    ll_share = 2.0
    if hosts.version < (2, 21, 0):
        ll_share = 4.0 if hosts.hosts > 1 or operation is Operation.ALL_REDUCE else 3.0
    rates = (
        min(ll_limit(hosts, several_hosts=hosts.hosts > 1), total / ll_share),
        min(share * total, rings.channels * _RING_LL128[hosts.generation]) if hosts.uses_ll128 else 0.0,
        total,
    )
    is_chain = operation in (Operation.BROADCAST, Operation.REDUCE)
    network_steps = 0
    if hosts.hosts > 1 and not is_chain:
        count = hosts.hosts - 1 if hosts.version >= (2, 23, 0) else hosts.hosts
        network_steps = count * (2 if operation is Operation.ALL_REDUCE else 1)
    overhead = 2.0 if hosts.cpu is Cpu.AMD else 1.0
    costs = {}
    for place, (protocol, rate) in enumerate(zip(_PROTOCOLS, rates, strict=True)):
        inside = _NVLINK_US[Algorithm.RING][place]
        between = _network_us(hosts, Algorithm.RING, place, card_latency_us)
        if hosts.hosts > 1:
            inside = max(inside, overhead * (3 if protocol is Protocol.SIMPLE else 1))
        latency = _BASE_US[Algorithm.RING][place]
        if is_chain:
            latency += between if hosts.hosts > 1 else inside
        else:
            latency += (steps - network_steps) * inside + network_steps * between
        cost = Cost(latency, rate * ranks / steps)
        if protocol is Protocol.SIMPLE and hosts.hosts > 1 and operation is Operation.ALL_REDUCE:
            slow = 1.9 if hosts.capability < 8 else 1.4
            cost = cost._replace(slow_factor=slow, slow_from_bytes=64 * rings.channels * ranks)
        costs[Algorithm.RING, protocol] = cost
    return costs


def _tree_costs(hosts: Hosts, graphs: Graphs, card_latency_us: float) -> dict[tuple[Algorithm, Protocol], Cost]:
    trees, depth = graphs.trees, math.floor(math.log2(hosts.hosts))
    total = min(
        0.92 * trees.channels * trees.speed(hosts.hosts), trees.channels * _TREE_SIMPLE[hosts.generation][hosts.place]
    )
    per_channel = trees.channels * _TREE_LL128[hosts.generation][hosts.place]
    ll128 = min(total * (7 / 9 if hosts.hosts == 1 else 120 / 128), per_channel)
    rates = (
        min(total / 3.8, ll_limit(hosts, several_hosts=hosts.hosts > 1)),
        ll128 if hosts.uses_ll128 else 0.0,
        total,
    )
    costs = {}
    for place, (protocol, rate) in enumerate(zip(_PROTOCOLS, rates, strict=True)):
        inside, base = _NVLINK_US[Algorithm.TREE][place], _BASE_US[Algorithm.TREE][place]
        if protocol is Protocol.SIMPLE and hosts.version < (2, 23, 0):
            base, inside = 0.0, 28.0 if _is_slow_tree(hosts.version) else inside
        between = _network_us(hosts, Algorithm.TREE, place, card_latency_us)
        latency = base + 2 * ((hosts.gpus - 1) * inside + depth * between)
        costs[Algorithm.TREE, protocol] = Cost(latency, rate * (0.85 if trees.pattern == Pattern.TREE else 1.0) / 2)
    return costs


def _nvls_costs(
    hosts: Hosts, operation: Operation, graph: Graph, card_latency_us: float
) -> dict[tuple[Algorithm, Protocol], Cost]:
    """Return the costs of NVLS: all_reduce, and since 2.19 all_gather and reduce_scatter on one host."""
    ranks, heads = hosts.ranks, graph.channels
    is_reduce = operation is Operation.ALL_REDUCE
    is_new = hosts.version >= (2, 28, 0)
    latency = 25.0 if hosts.version >= (2, 21, 0) else 23.0
    if hosts.hosts == 1:
        if not (is_reduce or operation in (Operation.ALL_GATHER, Operation.REDUCE_SCATTER)):
            return {}
        if not is_reduce and hosts.version < (2, 19, 0):
            return {}
        if not is_new:
            is_whole = not is_reduce and hosts.version >= (2, 23, 0)
            rate = min(graph.intra, graph.inter) * heads * (1.0 if is_whole else 5 / 6)
            return {(Algorithm.NVLS, Protocol.SIMPLE): Cost(latency, rate)}
        inside = graph.intra * _NVLS_EFFICIENCY[hosts.generation] * (heads - 1) / heads
        speed = min(inside * (2.0 if is_reduce else (hosts.gpus - 1) / hosts.gpus), graph.inter)
        share = ranks / steps_of(operation, ranks) if is_reduce else 1.0
        return {(Algorithm.NVLS, Protocol.SIMPLE): Cost(latency, speed * heads * share)}
    if not is_reduce:
        return {}
    step = 20.9 if hosts.version >= (2, 29, 0) else 14.0
    latency += 2 * math.floor(math.log2(hosts.hosts)) * (step + 2 * card_latency_us)
    if not is_new:
        inter = graph.inter if hosts.hosts <= 2 else graph.inter / 2
        return {(Algorithm.NVLS_TREE, Protocol.SIMPLE): Cost(latency, heads * min(graph.intra, inter) * 5 / 6)}
    inside = graph.intra * _NVLS_EFFICIENCY[hosts.generation] * (heads - 1) / heads * 2
    per_channel = _NVLS_TREE[hosts.generation][min(hosts.hosts, 3) - 2]
    speed = min(inside, graph.inter * (2 if hosts.hosts == 2 else 1), per_channel)
    return {(Algorithm.NVLS_TREE, Protocol.SIMPLE): Cost(latency, speed * heads * ranks / steps_of(operation, ranks))}
