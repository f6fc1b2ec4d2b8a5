"""Rates of running copies with arbitration at ports, back-pressure and traffic in both directions.

The rates are those of the back-pressure model (`fabricast.pcie.models.kernels.back_pressure`) on links whose capacity
depends on the reverse direction: a link loses `duplex_cost` bytes per byte of load of the reverse link. The model is
evaluated with a damped load of the reverse direction until the capacities settle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.engines.kernels.links import Links
from fabricast.pcie.models.kernels.back_pressure import back_pressure
from fabricast.pcie.models.kernels.bottlenecks import BY_INPUT_PORT, find_bottlenecks
from fabricast.pcie.models.kernels.known_sets import BOTTLENECKS, RATES, KnownSets, place_of_set
from fabricast.pcie.models.kernels.models import Network, find_users
from fabricast.pcie.models.kernels.working_memory import Memory, sort_copies
from fabricast.runtime.compilation import allocation_free

#: Most rounds of the back-pressure model for loads of both directions, if `duplex_cost` is positive, and the change of
#: relative capacities below which they end: times then differ by less than 3e-6 from those of 40 rounds.
_MOST_ROUNDS, _SETTLED = 12, 1e-6
#: Relative capacity of a link that limits no copy.
_UNLIMITED = 1000.0


class Ports(NamedTuple):
    """Arrays of the port model: network, reference rate in bytes/s, packets, working memory and known sets.

    The pair of each copy in `memory` is its number. Copies of one `kind` have the same route.
    """

    network: Network
    bytes_per_s: float
    piece_payload: float
    piece_cost: float
    memory: Memory
    load: NDArray[np.float64]
    kind: NDArray[np.int64]
    sets: KnownSets


@allocation_free
def _set_capacities(links: Links, ports: Ports, used: bool) -> float:
    """Set the capacities of links for a load of the reverse direction; return their largest change.

    Markers and unused limits do not limit.
    """
    memory, change = ports.memory, 0.0
    for link in range(links.capacity.size):
        capacity = links.capacity[link] / ports.bytes_per_s
        if used:
            capacity -= links.duplex_cost * ports.load[links.opposite[link]]
        for needed in links.needs[link]:
            if needed >= 0 and memory.links.user_count[needed] == 0:
                capacity = _UNLIMITED
        capacity = min(max(capacity, 1e-6), _UNLIMITED)
        change = max(change, abs(capacity - memory.links.capacity[link]))
        memory.links.capacity[link] = capacity
    return change


@allocation_free
def _has_reverse_traffic(links: Links, memory: Memory) -> bool:
    for link in range(links.capacity.size):
        if memory.links.user_count[link] > 0 and memory.links.user_count[links.opposite[link]] > 0:
            return True
    return False


@allocation_free
def _port_rates(count: int, links: Links, ports: Ports) -> None:
    """Compute the rates of the running copies in `memory.copies.rho`, relative to the reference rate."""
    memory = ports.memory
    find_users(count, ports.network, True, memory)
    weight = 1.0 / (1.0 + links.duplex_cost)
    ports.load[:] = 0.0
    both = links.duplex_cost > 0.0 and _has_reverse_traffic(links, memory)
    for rounds in range(_MOST_ROUNDS if both else 1):
        change = _set_capacities(links, ports, both)
        if rounds > 0 and change <= _SETTLED:
            break
        back_pressure(count, links.capacity.size, ports.piece_payload, ports.piece_cost, memory)
        for link in range(links.capacity.size):
            ports.load[link] *= 1.0 - weight
        for place in range(count):
            flow = memory.copies.active[place]
            for hop in range(links.offset[flow], links.offset[flow + 1]):
                ports.load[links.link[hop]] += weight * memory.copies.rho[flow]


@allocation_free
def shared_rates(
    acting: NDArray[np.int64], count: int, links: Links, ports: Ports, explains: bool, rate: NDArray[np.float64]
) -> None:
    """Fill the rates of the running copies in bytes/s and, if `explains`, their bottlenecks in the working memory."""
    copies, sets = ports.memory.copies, ports.sets
    for place in range(count):
        copies.active[place] = acting[place]
    sort_copies(copies.active, count, ports.kind)
    slot = place_of_set(copies.active, count, ports.kind, sets)
    needed = BOTTLENECKS if explains else RATES
    if slot >= 0 and sets.mark[slot] >= needed:
        for place in range(count):
            flow = copies.active[place]
            rate[flow] = sets.rho[slot, place] * ports.bytes_per_s
            copies.limiting[flow] = sets.limiting[slot, place]
            copies.cause[flow] = sets.cause[slot, place]
        return
    _port_rates(count, links, ports)
    if explains:
        find_bottlenecks(count, BY_INPUT_PORT, 0.0, ports.network, ports.memory)
    for place in range(count):
        flow = copies.active[place]
        rate[flow] = copies.rho[flow] * ports.bytes_per_s
        if slot >= 0:
            sets.rho[slot, place] = copies.rho[flow]
            sets.limiting[slot, place] = copies.limiting[flow]
            sets.cause[slot, place] = copies.cause[flow]
    if slot >= 0:
        sets.mark[slot] = needed
