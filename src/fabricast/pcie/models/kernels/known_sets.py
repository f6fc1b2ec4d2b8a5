"""Rates of sets of copies that were computed before.

The graphs of an exhaustive set, the phases of one graph and repeated programs run the same few copies again and again.
The rates of a set depend on its copies only, if they are computed in one order: that of `sort_copies` (working_memory).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fabricast.runtime.compilation import allocation_free, njit

#: Number of places in which the rates of a set of copies may be kept.
_PLACES = 8
#: Values of `mark`: a set has its rates, or its rates and bottlenecks.
RATES, BOTTLENECKS = 1, 2


class KnownSets(NamedTuple):
    """Rates and bottlenecks by place: mark, number of copies, and each copy in ascending order of its kind.

    Shapes: mark and count (places,), a power of 2; kind, rho, limiting and cause (places, copies).
    """

    mark: Any
    count: Any
    kind: Any
    rho: Any
    limiting: Any
    cause: Any


@njit
def new_known_sets(most_sets, most_copies):
    """Return memory for up to `most_sets` sets of up to `most_copies` copies."""
    places = 1
    while 2 * places <= most_sets:
        places *= 2
    return KnownSets(
        np.zeros(places, dtype=np.int8),
        np.zeros(places, dtype=np.int32),
        np.empty((places, most_copies), dtype=np.int32),
        np.empty((places, most_copies), dtype=np.float64),
        np.empty((places, most_copies), dtype=np.int32),
        np.empty((places, most_copies), dtype=np.int32),
    )


@allocation_free(forceinline=True)
def place_of_set(active, count, kind, sets):
    """Return the place of the set of the sorted active copies, or the place to keep it; -1 if it has too many copies.

    The set is stored there with the mark 0 unless it is kept already.
    """
    if count > sets.kind.shape[1]:
        return -1
    mixed = np.uint64(1469598103934665603)
    for place in range(count):
        mixed = (mixed ^ np.uint64(kind[active[place]])) * np.uint64(18397679294719823053)
        mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(14181476777654086739)
    last = sets.mark.size - 1
    first = np.int64(mixed >> np.uint64(33)) & last
    slot = first
    for step in range(_PLACES):
        slot = (first + step) & last
        if sets.mark[slot] == 0:
            break
        same = sets.count[slot] == count
        for place in range(count):
            same = same and sets.kind[slot, place] == kind[active[place]]
        if same:
            return slot
    else:
        slot = first
    sets.mark[slot] = 0
    sets.count[slot] = count
    for place in range(count):
        sets.kind[slot, place] = kind[active[place]]
    return slot
