"""Packet-level network simulation, the reference for bottleneck times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.percs.loads import Routing
from fabricast.percs.network import TwoLevelNetwork
from fabricast.percs.workloads import Workload

__all__ = ["PacketRun", "Pairs", "Routes", "router_pairs", "simulate_packets", "simulate_routes", "sum_pairs"]

#: Source, target and bytes of each pair.
Pairs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

_TICKS_PER_S = 1e12
_MOST_PACKETS = 2_000_000_000


@dataclass(frozen=True)
class PacketRun:
    """Result of a packet-level simulation.

    Parameters
    ----------
    elapsed_s : float
        Arrival time of the last packet.
    flow_end_s : ndarray of float64, shape (flows,)
        Completion time of each pair of routers.
    link_busy_s : ndarray of float64, shape (links,)
        Busy time of each link: links within groups first, then links between groups.
    packets, hops : int
        Number of packets, and of link traversals of all packets.
    """

    elapsed_s: float
    flow_end_s: NDArray[np.float64]
    link_busy_s: NDArray[np.float64]
    packets: int
    hops: int


def router_pairs(workload: Workload, router: NDArray[np.int32], network: TwoLevelNetwork) -> Pairs:
    """Return the router pairs that communicate and the bytes of each pair.

    Messages between tasks of one router use no link and are omitted.

    Parameters
    ----------
    workload : Workload
        Communication pattern with neighbours. Patterns with random targets are not supported.
    router : ndarray of int32, shape (tasks,)
        Router of each task.
    network : TwoLevelNetwork
        Network.

    Returns
    -------
    (ndarray of int64, ndarray of int64, ndarray of float64)
        Source, target and bytes, sorted by source and target.
    """
    if workload.random_targets:
        raise InputError(f"'{workload.name}' has random targets, expected a pattern with neighbours")
    owner = router.reshape(workload.grid).astype(np.int64)
    first, second = [], []
    for offset in workload.offsets:
        # np.roll moves the router of the neighbour at +offset to the task's position.
        neighbour = np.roll(owner, [-step for step in offset], axis=tuple(range(owner.ndim)))
        sends = np.ones(owner.shape, dtype=bool)
        if not workload.wrap:
            for axis, step in enumerate(offset):
                edge = np.arange(owner.shape[axis]) + step
                inside = (edge >= 0) & (edge < owner.shape[axis])
                sends &= inside.reshape([-1 if d == axis else 1 for d in range(owner.ndim)])
        first.append(owner[sends])
        second.append(neighbour[sends])
    sources = np.concatenate(first)
    return sum_pairs(sources, np.concatenate(second), np.full(sources.size, workload.size_bytes), network)


def sum_pairs(
    first: NDArray[np.int64], second: NDArray[np.int64], size_bytes: NDArray[np.float64], network: TwoLevelNetwork
) -> Pairs:
    """Sum the bytes between each pair of different routers.

    Parameters
    ----------
    first, second, size_bytes : ndarray, shape (messages,)
        Sending router, receiving router and bytes of each message.
    network : TwoLevelNetwork
        Network.

    Returns
    -------
    (ndarray of int64, ndarray of int64, ndarray of float64)
        Source, target and bytes, sorted by source and target.
    """
    different = first != second
    # pd.factorize sorts only the unique pairs; np.unique would sort all messages.
    pair_code, unique_pairs = pd.factorize(first[different] * network.routers + second[different], sort=True)
    total: NDArray[np.float64] = np.bincount(pair_code, weights=size_bytes[different]).astype(np.float64)
    return unique_pairs // network.routers, unique_pairs % network.routers, total


def simulate_packets(
    pairs: Pairs, network: TwoLevelNetwork, routing: Routing, *, packet_bytes: float, window: int = 256, seed: int = 0
) -> PacketRun:
    """Simulate the traffic between routers packet by packet.

    Each link is an output-queued FIFO whose service time is packet size divided by capacity, followed
    by a constant latency. A router injects the packets of its flows in round-robin order and has at
    most `window` packets in flight. Buffers are unlimited, so deadlock is impossible.

    Parameters
    ----------
    pairs : tuple of ndarray
        Source, target and bytes of each pair, sorted by source.
    network : TwoLevelNetwork
        Network.
    routing : {'direct', 'indirect'}
        Shortest routes, or routes through a random third group for each packet.
    packet_bytes : float
        Packet size in bytes. The bytes of a pair are rounded up to whole packets.
    window : int, default 256
        Largest number of packets in flight per router.
    seed : int, default 0
        Seed of the random groups.

    Returns
    -------
    PacketRun
        Completion times, link busy times and packet counts.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    if routing == "indirect" and network.groups < 3:
        raise InputError(f"groups is {network.groups}, expected 3 or more for indirect routes")
    capacity = network.link_capacities(network.multiplicity)
    rules = _Rules(network.gateways, network.group_routers, routing == "indirect", seed)
    return _run(
        pairs, network.routers, _NO_ROUTES, capacity, network.injection_bytes_per_s, network.hop_latency_s,
        packet_bytes, window, rules,
    )  # fmt: skip


class Routes(NamedTuple):
    """Links of each pair: ``link[offset[pair] : offset[pair + 1]]``. Shapes: offset (pairs + 1,)."""

    offset: NDArray[np.int64]
    link: NDArray[np.int64]


class _Rules(NamedTuple):
    """Routes of a two-level direct network; unused if each pair has a route."""

    gateway: NDArray[np.int64]
    routers: int
    indirect: bool
    seed: int


_NO_ROUTES = Routes(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
_NO_RULES = _Rules(np.zeros((1, 1, 1), dtype=np.int64), 1, indirect=False, seed=0)


def simulate_routes(
    pairs: Pairs,
    routes: Routes,
    capacity_bytes_per_s: NDArray[np.float64],
    *,
    sources: int,
    injection_bytes_per_s: float,
    hop_latency_s: float,
    packet_bytes: float,
    window: int = 256,
) -> PacketRun:
    """Simulate pairs along a route each packet by packet, with the rules of `simulate_packets`.

    The pairs are sorted by source, and a route has at most five links after the injection.
    """
    from fabricast.percs.kernels.packets import MOST_HOPS

    longest = int(np.diff(routes.offset).max(initial=0))
    if longest > MOST_HOPS:
        raise InputError(f"routes have up to {longest} links, expected at most {MOST_HOPS} for a simulation")
    return _run(
        pairs, sources, routes, capacity_bytes_per_s, injection_bytes_per_s, hop_latency_s, packet_bytes, window,
        _NO_RULES,
    )  # fmt: skip


def _run(
    pairs: Pairs,
    sources: int,
    routes: Routes,
    capacity: NDArray[np.float64],
    injection_bytes_per_s: float,
    hop_latency_s: float,
    packet_bytes: float,
    window: int,
    rules: _Rules,
) -> PacketRun:
    """Run the event loop."""
    from fabricast.percs.kernels.packets import Flows, Network, run_packets

    source, target, size = pairs
    if not 1 <= packet_bytes <= 1e12 or not 1 <= window <= 2**20:
        raise InputError(f"packet_bytes is {packet_bytes:g} and window is {window}, expected 1 to 1e12 and 1 to 2^20")
    packets = np.ceil(np.asarray(size, dtype=np.float64) / packet_bytes).astype(np.int64)
    if packets.sum() > _MOST_PACKETS:
        raise InputError(f"{packets.sum():,} packets, expected at most {_MOST_PACKETS:,}; increase packet_bytes")
    if (np.diff(source) < 0).any():
        raise InputError("pairs are unsorted, expected pairs sorted by source")
    service = np.maximum(1, np.rint(packet_bytes / capacity * _TICKS_PER_S)).astype(np.int64)
    injection = max(1, round(packet_bytes / injection_bytes_per_s * _TICKS_PER_S))
    latency = max(1, round(hop_latency_s * _TICKS_PER_S))
    # Links with the same service time share one ring buffer; there are few distinct service times.
    durations, ring_of = np.unique(np.append(service, injection), return_inverse=True)
    offset = np.searchsorted(source, np.arange(sources + 1)).astype(np.int64)
    done, busy = np.zeros(source.size, np.int64), np.zeros(service.size, np.int64)
    flows = Flows(source, target, packets, offset, routes.offset, routes.link)
    ticks = Network(
        gateway=rules.gateway,
        routers=rules.routers,
        indirect=rules.indirect,
        seed=rules.seed,
        durations=durations,
        ring_of=ring_of,
        latency=latency,
        window=window,
    )
    last, hops = run_packets(flows, ticks, done, busy)
    return PacketRun(last / _TICKS_PER_S, done / _TICKS_PER_S, busy / _TICKS_PER_S, int(packets.sum()), int(hops))
