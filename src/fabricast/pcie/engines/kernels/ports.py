"""Rates of running copies with arbitration at ports, back-pressure and traffic in both directions.

The rates are those of the back-pressure model (`fabricast.pcie.models.kernels.back_pressure`) on links whose capacity
depends on the reverse direction: a link loses `duplex_cost` bytes per byte of load of the reverse link. The model is
evaluated with a damped load of the reverse direction until the capacities settle.

Repeated programs, and many graphs on one tree, run the same sets of copies again and again, so the rates and
bottlenecks of each set are kept in a table. They depend on the set only: its copies are sorted before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.engines.kernels.links import Links
from fabricast.pcie.models.kernels.back_pressure import back_pressure
from fabricast.pcie.models.kernels.bottlenecks import BY_INPUT_PORT, find_bottlenecks
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
#: Last word of a kept set: its rates are known, or its rates and bottlenecks.
_RATES, _BOTTLENECKS = 1, 2


class KnownSets(NamedTuple):
    """Rates and bottlenecks of sets of copies that were computed before.

    The first axis is the place of a set: its copies as bits followed by a mark in `keys`, whose last row is working
    memory; rate relative to the reference rate, link and cause of each copy in ascending order of bits.
    """

    keys: NDArray[np.uint64]
    rho: NDArray[np.float64]
    limiting: NDArray[np.int32]
    cause: NDArray[np.int32]


class Ports(NamedTuple):
    """Arrays of the port model: network, reference rate in bytes/s, packets, working memory and known sets.

    The pair of each copy in `memory` is its number. Copies with equal `bit` have the same route.
    """

    network: Network
    bytes_per_s: float
    piece_payload: float
    piece_cost: float
    memory: Memory
    load: NDArray[np.float64]
    bit: NDArray[np.int64]
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
def _sort_copies(acting: NDArray[np.int64], count: int, ports: Ports) -> None:
    """Fill the running copies of the working memory in ascending order of their bits."""
    active = ports.memory.copies.active
    for place in range(count):
        flow, before = acting[place], place
        while before > 0 and ports.bit[active[before - 1]] > ports.bit[flow]:
            active[before] = active[before - 1]
            before -= 1
        active[before] = flow


@allocation_free
def _place_of_set(count: int, ports: Ports) -> int:
    """Return the place of the set of running copies, or the place to keep it; -1 if it cannot be kept.

    The set is stored there as bits unless it is kept already.
    """
    keys = ports.sets.keys
    words, size = keys.shape[1] - 1, keys.shape[0] - 1
    if count > ports.sets.rho.shape[1]:
        return -1
    for word in range(words):
        keys[size, word] = 0
    for place in range(count):
        bit = ports.bit[ports.memory.copies.active[place]]
        if place > 0 and bit == ports.bit[ports.memory.copies.active[place - 1]]:
            return -1
        keys[size, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
    mixed = np.uint64(1469598103934665603)
    for word in range(words):
        # Every bit of a word affects the low bits, which select the place.
        mixed = (mixed ^ keys[size, word]) * np.uint64(18397679294719823053)
        mixed ^= mixed >> np.uint64(33)
        mixed *= np.uint64(14181476777654086739)
        mixed ^= mixed >> np.uint64(33)
    first = np.int64(mixed % np.uint64(size))
    slot = first
    for step in range(_PLACES):
        slot = (first + step) % size
        same = keys[slot, words] > 0
        for word in range(words):
            same = same and keys[slot, word] == keys[size, word]
        if same:
            return slot
        if keys[slot, words] == 0:
            break
    else:
        slot = first
    for word in range(words):
        keys[slot, word] = keys[size, word]
    keys[slot, words] = 0
    return slot


@allocation_free
def shared_rates(
    acting: NDArray[np.int64], count: int, links: Links, ports: Ports, explains: bool, rate: NDArray[np.float64]
) -> None:
    """Fill the rates of the running copies in bytes/s and, if `explains`, their bottlenecks in the working memory."""
    copies, sets = ports.memory.copies, ports.sets
    _sort_copies(acting, count, ports)
    slot = _place_of_set(count, ports)
    mark = sets.keys.shape[1] - 1
    needed = _BOTTLENECKS if explains else _RATES
    if slot >= 0 and sets.keys[slot, mark] >= needed:
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
        sets.keys[slot, mark] = needed
