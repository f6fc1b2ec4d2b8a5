"""Rates of the steps of collective operations: each step is a congestion graph of the recommended PCIe model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fabricast.collectives.communicator import Communicator
from fabricast.pcie.graphs.congestion_graphs import from_pairs

#: Size in bytes of the copies of a step; rates do not depend on it.
_SIZE = 1e9
_NEAR = 1e-6


class Transport(StrEnum):
    """Transport of the data from one GPU to another."""

    P2P = "P2P"
    #: Through host memory: the sending GPU writes, the receiving GPU reads.
    SHM = "SHM"


@dataclass(frozen=True)
class Hop:
    """Data transfer from one rank to another in a step."""

    #: Ranks.
    source: int
    target: int
    transport: Transport  # Direct copy, or two copies through host memory next to the target
    #: Whether the GPUs of the hop also send and receive in the reverse direction of their links.
    is_both_ways: bool = True


@dataclass(frozen=True)
class StepRate:
    """Rate of a step, that of its slowest hop, before the efficiency of NCCL's kernels."""

    hops: tuple[Hop, ...]  # Hops of the step
    bytes_per_s: tuple[float, ...]  # Rate of each hop in bytes/s
    bottlenecks: tuple[str, ...]  # Directed link or resource that limits each hop
    sharers: tuple[tuple[str, ...], ...]  # Hops on that link, as ``source>target``, for each hop
    #: Bounds of the rate of the step if rates of host memory are unknown; otherwise the rate of the slowest hop.
    low_bytes_per_s: float
    high_bytes_per_s: float

    @property
    def slowest_bytes_per_s(self) -> float:
        """Rate of the slowest hop in bytes/s."""
        return min(self.bytes_per_s)

    def effective(self, efficiency: dict[tuple[Transport, bool], float]) -> NDArray[np.float64]:
        """Return the rate of each hop in bytes/s with the efficiency of its transport."""
        factors = np.array([efficiency[hop.transport, hop.is_both_ways] for hop in self.hops])
        effective: NDArray[np.float64] = np.array(self.bytes_per_s) * factors
        return effective


def hop_between(
    communicator: Communicator, source: int, target: int, transports: Mapping[tuple[int, int], Transport] | None = None
) -> Hop:
    """Return the hop between two ranks, with the transport of a log or that of NCCL's rule."""
    known = (transports or {}).get((source, target))
    if known is not None:
        return Hop(source, target, known)
    is_direct = communicator.is_bridged(source, target) or communicator.nccl.path(source, target).p2p
    return Hop(source, target, Transport.P2P if is_direct else Transport.SHM)


def copies_of(communicator: Communicator, hop: Hop) -> list[tuple[str, str]]:
    """Return the copies of a hop: one between GPUs, or two through host memory next to the target."""
    source, target = communicator.ranks[hop.source], communicator.ranks[hop.target]
    if hop.transport is Transport.P2P:
        return [(source, target)]
    memory = communicator.memory[hop.target]
    return [(source, memory), (memory, target)]


def ring_hops(
    communicator: Communicator, order: Sequence[int], transports: Mapping[tuple[int, int], Transport] | None = None
) -> tuple[Hop, ...]:
    """Return the hops of one step of a ring."""
    pairs = zip(order, [*order[1:], order[0]], strict=True)
    return tuple(hop_between(communicator, source, target, transports) for source, target in pairs)


def chain_hops(
    communicator: Communicator,
    order: Sequence[int],
    *,
    both_ways: bool = False,
    transports: Mapping[tuple[int, int], Transport] | None = None,
) -> tuple[Hop, ...]:
    """Return the hops of a chain: the ring without its last hop, or both directions of each hop for a tree."""
    hops = ring_hops(communicator, order, transports)[:-1]
    several = both_ways or len(hops) > 1
    forward = tuple(Hop(hop.source, hop.target, hop.transport, several) for hop in hops)
    if not both_ways:
        return forward
    return forward + tuple(hop_between(communicator, hop.target, hop.source, transports) for hop in hops)


def step_rate(communicator: Communicator, hops: Sequence[Hop]) -> StepRate:
    """Return the rate of a step whose hops run at the same time.

    A hop through host memory consists of two copies. Measured rates of bidirectional pairs bound a hop between GPUs
    whose links also transfer data in the reverse direction.
    """
    tree, names = communicator.tree, communicator.ranks
    names_of_copies: list[tuple[str, str]] = []
    hop_of: list[int] = []
    for number, hop in enumerate(hops):
        parts = copies_of(communicator, hop)
        names_of_copies += parts
        hop_of += [number] * len(parts)
    pairs = [(tree.endpoint_number[source], tree.endpoint_number[target]) for source, target in names_of_copies]
    uses_host = any(hop.transport is Transport.SHM for hop in hops)
    model = communicator.model_of_host_copies if uses_host else communicator.model
    found = model.times(from_pairs([pairs], size_bytes=_SIZE), explain=True).times
    of_copy = _SIZE / found.end_s
    rates = [float("inf")] * len(hops)
    slowest_copy = [0] * len(hops)
    for copy, number in enumerate(hop_of):
        if of_copy[copy] < rates[number] * (1 - _NEAR):
            rates[number], slowest_copy[number] = float(of_copy[copy]), copy
    bounded: dict[int, str] = {}
    if uses_host and not communicator.knows_host_memory:
        # Measured copies between sockets bound copies of remote memory.
        between = communicator.machine.rates.between_roots_bytes_per_s or float("inf")
        for number, hop in enumerate(hops):
            crosses = tree.path_class(names[hop.source], names[hop.target]) == "SYS"
            if hop.transport is Transport.SHM and crosses and between < rates[number]:
                rates[number], bounded[number] = between, "link between sockets"
    if uses_host:
        # Hops of pairs that were measured to be slow are slower in the same ratio.
        share = communicator.slow_shares
        for number, hop in enumerate(hops):
            if hop.transport is Transport.SHM and share[hop.source, hop.target] < 1:
                rates[number] *= float(share[hop.source, hop.target])
                bounded[number] = f"the slow pair {names[hop.source]}>{names[hop.target]}"
    measured = [
        communicator.machine.both_ways_bytes_per_s.get(names_of_copies[slowest_copy[number]], float("inf"))
        if hop.transport is Transport.P2P and hop.is_both_ways
        else float("inf")
        for number, hop in enumerate(hops)
    ]
    rates = [min(rate, bound) for rate, bound in zip(rates, measured, strict=True)]
    labels = [
        bounded.get(number) or found.bottleneck[copy] or found.caused_by[copy]
        for number, copy in enumerate(slowest_copy)
    ]
    hop_names = [f"{names[hop.source]}>{names[hop.target]}" for hop in hops]
    on_link: dict[str, dict[str, None]] = {}
    for copy, number in enumerate(hop_of):
        on_link.setdefault(found.bottleneck[copy] or found.caused_by[copy], {})[hop_names[number]] = None
    sharers = tuple(
        (hop_names[number],) if number in bounded else tuple(on_link[label]) for number, label in enumerate(labels)
    )
    low = high = min(rates)
    if uses_host and not communicator.knows_host_memory:
        # Nothing is known about host memory: from no limit to one link that all copies share.
        alone = float(np.max(of_copy))
        low = min(low, alone / len(pairs))
        high = high if bounded else max(high, min(alone, max(rates)))
    return StepRate(tuple(hops), tuple(rates), tuple(labels), sharers, low, high)
