"""Rates of running copies with arbitration at ports, back-pressure and traffic in both directions.

The rates are those of the back-pressure model (`fabricast.pcie.models.kernels.back_pressure`) on links whose capacity
depends on the reverse direction: a link loses `duplex_cost` bytes per byte of load of the reverse link. The model is
evaluated with a damped load of the reverse direction until the capacities settle.

Repeated programs run the same sets of copies again and again, so the rates of each set are kept in a table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.engines.kernels.links import Links
from fabricast.pcie.models.kernels.back_pressure import back_pressure
from fabricast.pcie.models.kernels.bottlenecks import BY_INPUT_PORT, Waits, record_bottlenecks
from fabricast.pcie.models.kernels.models import Network, find_users
from fabricast.pcie.models.kernels.working_memory import Memory
from fabricast.runtime.compilation import allocation_free

#: Most rounds of the back-pressure model for loads of both directions, if `duplex_cost` is positive, and the change of
#: relative capacities below which they end: times then differ by less than 3e-6 from those of 40 rounds.
_MOST_ROUNDS, _SETTLED = 12, 1e-6
#: Relative capacity of a link that limits no copy.
_UNLIMITED = 1000.0
#: Number of places in which the rates of a set of copies may be kept.
_PLACES = 8


class Ports(NamedTuple):
    """Arrays of the port model: network, reference rate in bytes/s, packets, working memory and known sets.

    The first axis of `keys` and `rates` is the place of a set: its copies as bits followed by a mark, and the rate of
    each copy. The last row of `keys` is working memory. The pair of each copy in `memory` is its number.
    """

    network: Network
    bytes_per_s: float
    piece_payload: float
    piece_cost: float
    memory: Memory
    load: NDArray[np.float64]
    keys: NDArray[np.uint64]
    rates: NDArray[np.float64]


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
def _port_rates(acting: NDArray[np.int64], count: int, links: Links, ports: Ports) -> None:
    """Compute the rates of the running copies in `memory.copies.rho`, relative to the reference rate."""
    memory = ports.memory
    for place in range(count):
        memory.copies.active[place] = acting[place]
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
            flow = acting[place]
            for hop in range(links.offset[flow], links.offset[flow + 1]):
                ports.load[links.link[hop]] += weight * memory.copies.rho[flow]


@allocation_free
def _place_of_set(acting: NDArray[np.int64], count: int, ports: Ports) -> int:
    """Return the place of the set of running copies, or the place to keep it; its last word marks a kept set.

    The set is stored there as bits unless it is kept already.
    """
    words = ports.keys.shape[1] - 1
    size = ports.keys.shape[0] - 1
    for word in range(words):
        ports.keys[size, word] = 0
    for place in range(count):
        ports.keys[size, acting[place] >> 6] |= np.uint64(1) << np.uint64(acting[place] & 63)
    mixed = np.uint64(1469598103934665603)
    for word in range(words):
        mixed = (mixed ^ ports.keys[size, word]) * np.uint64(1099511628211)
        mixed ^= mixed >> np.uint64(29)
    first = np.int64(mixed % np.uint64(size))
    slot = first
    for step in range(_PLACES):
        slot = (first + step) % size
        same = ports.keys[slot, words] == 1
        for word in range(words):
            same = same and ports.keys[slot, word] == ports.keys[size, word]
        if same:
            return slot
        if ports.keys[slot, words] == 0:
            break
    else:
        slot = first
    for word in range(words):
        ports.keys[slot, word] = ports.keys[size, word]
    ports.keys[slot, words] = 0
    return slot


@allocation_free
def shared_rates(acting: NDArray[np.int64], count: int, links: Links, ports: Ports, rate: NDArray[np.float64]) -> None:
    """Fill the rates of the running copies in bytes/s.

    The table provides the rates of known sets. A table with a single place is not used.
    """
    is_kept = ports.keys.shape[0] > 1
    slot = _place_of_set(acting, count, ports) if is_kept else 0
    words = ports.keys.shape[1] - 1
    if not is_kept or ports.keys[slot, words] == 0:
        _port_rates(acting, count, links, ports)
        for place in range(count):
            ports.rates[slot, acting[place]] = ports.memory.copies.rho[acting[place]] * ports.bytes_per_s
        if is_kept:
            ports.keys[slot, words] = 1
    for place in range(count):
        rate[acting[place]] = ports.rates[slot, acting[place]]


@allocation_free
def record_waits(count: int, step: float, links: Links, ports: Ports, waits: Waits) -> None:
    """Add the duration of an interval to the link at which each running copy waits; after `port_rates`."""
    record_bottlenecks(count, step, BY_INPUT_PORT, 0.0, ports.network, ports.memory, waits)
