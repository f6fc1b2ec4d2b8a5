"""Packet-level network: an independent reference for the time of the busiest link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.percs.loads import Routing
from fabricast.percs.network import TwoLevelNetwork
from fabricast.percs.workloads import Workload

__all__ = ["PacketRun", "Pairs", "router_pairs", "simulate_packets", "sum_pairs"]

#: Source, target and bytes of pairs.
Pairs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

_TICKS_PER_S = 1e12
_MOST_PACKETS = 2_000_000_000


@dataclass(frozen=True)
class PacketRun:
    """What a packet-level run gives.

    Parameters
    ----------
    elapsed_s : float
        When the last packet arrives.
    flow_end_s : ndarray of float64, shape (flows,)
        When each pair of routers has finished.
    link_busy_s : ndarray of float64, shape (links,)
        How long each link worked: those within groups, then between.
    packets, hops : int
        Packets and their hops.
    """

    elapsed_s: float
    flow_end_s: NDArray[np.float64]
    link_busy_s: NDArray[np.float64]
    packets: int
    hops: int


def router_pairs(workload: Workload, router: NDArray[np.int32], network: TwoLevelNetwork) -> Pairs:
    """Return the pairs of routers that communicate and the bytes of each.

    Parameters
    ----------
    workload : Workload
        Pattern with neighbours; random targets are not aggregated.
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
        raise InputError(f"'{workload.name}' has random targets, expected neighbours for single packets")
    owner = router.reshape(workload.grid).astype(np.int64)
    first, second = [], []
    for offset in workload.offsets:
        # np.roll brings the neighbour at +offset to the place of the task.
        other = np.roll(owner, [-step for step in offset], axis=tuple(range(owner.ndim)))
        sends = np.ones(owner.shape, dtype=bool)
        if not workload.wrap:
            for axis, step in enumerate(offset):
                edge = np.arange(owner.shape[axis]) + step
                inside = (edge >= 0) & (edge < owner.shape[axis])
                sends &= inside.reshape([-1 if d == axis else 1 for d in range(owner.ndim)])
        first.append(owner[sends])
        second.append(other[sends])
    sources = np.concatenate(first)
    return sum_pairs(sources, np.concatenate(second), np.full(sources.size, workload.size_bytes), network)


def sum_pairs(
    first: NDArray[np.int64], second: NDArray[np.int64], size_bytes: NDArray[np.float64], network: TwoLevelNetwork
) -> Pairs:
    """Sum the bytes between each two different routers.

    Parameters
    ----------
    first, second, size_bytes : ndarray, shape (messages,)
        Routers that send and receive, and how much.
    network : TwoLevelNetwork
        Network.

    Returns
    -------
    (ndarray of int64, ndarray of int64, ndarray of float64)
        Source, target and bytes, sorted by source and target.
    """
    apart = first != second
    # Faster than np.unique: few pairs are put in order, not all messages.
    place, every = pd.factorize(first[apart] * network.routers + second[apart], sort=True)
    total: NDArray[np.float64] = np.bincount(place, weights=size_bytes[apart]).astype(np.float64)
    return every // network.routers, every % network.routers, total


def simulate_packets(
    pairs: Pairs,
    network: TwoLevelNetwork,
    routing: Routing,
    *,
    packet_bytes: float,
    window: int = 256,
    seed: int = 0,
) -> PacketRun:
    """Send the bytes of every pair of routers packet by packet.

    Links are FIFO queues at their output with service times of packet size by capacity and a
    constant latency; a router injects the packets of its flows in turn and has at most `window`
    in flight. Buffers are not limited, so that nothing can deadlock.

    Parameters
    ----------
    pairs : tuple of ndarray
        Source, target and bytes of each pair, sorted by source.
    network : TwoLevelNetwork
        Network.
    routing : {'direct', 'indirect'}
        Shortest routes, or a random third group for each packet.
    packet_bytes : float
        Size of a packet; bytes of a pair are rounded up to whole packets.
    window : int, default 256
        Packets in flight of each router.
    seed : int, default 0
        Of the random groups.

    Returns
    -------
    PacketRun
        Times.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    from fabricast.percs.kernels.packets import Flows, Network, run_packets

    source, target, size = pairs
    if not 1 <= packet_bytes <= 1e12 or not 1 <= window <= 2**20:
        raise InputError(f"packet_bytes is {packet_bytes:g} and window {window}, expected positive numbers")
    if routing == "indirect" and network.groups < 3:
        raise InputError(f"{network.groups} groups have no third one, expected 3 or more for indirect routes")
    packets = np.ceil(np.asarray(size, dtype=np.float64) / packet_bytes).astype(np.int64)
    if packets.sum() > _MOST_PACKETS:
        raise InputError(f"{packets.sum():,} packets, expected at most {_MOST_PACKETS:,}; larger packet_bytes help")
    if (np.diff(source) < 0).any():
        raise InputError("pairs are not sorted by source")
    capacity = network.link_capacities(network.multiplicity)
    service = np.maximum(1, np.rint(packet_bytes / capacity * _TICKS_PER_S)).astype(np.int64)
    injection = max(1, round(packet_bytes / network.injection_bytes_per_s * _TICKS_PER_S))
    latency = max(1, round(network.hop_latency_s * _TICKS_PER_S))
    # Few links differ: what takes equally long stands in one ring.
    durations, ring_of = np.unique(np.append(service, injection), return_inverse=True)
    offset = np.searchsorted(source, np.arange(network.routers + 1)).astype(np.int64)
    done, busy = np.zeros(source.size, np.int64), np.zeros(service.size, np.int64)
    flows = Flows(source=source, target=target, packets=packets, offset=offset)
    ticks = Network(
        gateway=network.gateways, routers=network.group_routers, indirect=routing == "indirect", seed=seed,
        durations=durations, ring_of=ring_of, latency=latency, window=window,
    )  # fmt: skip
    last, hops = run_packets(flows, ticks, done, busy)
    return PacketRun(
        last / _TICKS_PER_S, done / _TICKS_PER_S, busy / _TICKS_PER_S, int(packets.sum()), int(hops)
    )  # fmt: skip
