"""Percentiles of many numbers of which few differ, as loads of links are."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import njit

__all__ = ["order_statistics"]

#: Bins of equal width: some hold a few numbers that are put in order, others many that are equal.
_BINS = 1024
#: Tables that count numbers in turn, and room between them: a processor takes places 4 KiB apart for the same one.
_TABLES, _APART = 4, 8


@njit
def _first_of_bin(values, low, scale, bin_number):
    """Return the first number of a bin that holds some."""
    place = np.uint64(0)
    while np.uint64((values[place] - low) * scale) != bin_number:
        place += np.uint64(1)
    return values[place]


@njit
def _others_of_bin(values, low, scale, bin_number, first):
    """Return how many numbers of a bin are not its first; without a branch, so that many are compared at once."""
    begin, end = float(bin_number), float(bin_number + np.uint64(1))
    others = 0
    for number in range(values.size):
        value = values[number]
        place = (value - low) * scale
        others += np.int64((place >= begin) & (place < end) & (value != first))
    return others


@njit
def order_statistics(values, low, high, ranks, found):
    """Fill the numbers that would stand at some ranks, ascending, if values from `low` to `high` were in order."""
    found[:] = low
    # Numbers so close that their distance underflows are as good as equal bins apart.
    scale = (_BINS - 1) / (high - low) if high > low else 0.0
    if not 0.0 < scale < np.inf:
        if high > low:
            found[:] = np.sort(values)[ranks]
        return
    # Neighbours are often equal: each counts in a table of its own, so that none waits for the one before.
    tables = np.zeros((_TABLES, _BINS + _APART), dtype=np.uint32)
    for place in range(values.size):
        tables[np.uint64(place % _TABLES), np.uint64((values[np.uint64(place)] - low) * scale)] += 1
    counts = tables.sum(axis=0).astype(np.int64)
    members = np.empty(0)
    searched, before, known = np.int64(0), np.int64(0), np.int64(-1)
    for place in range(ranks.size):
        while before + counts[searched] <= ranks[place]:
            before += counts[searched]
            searched += 1
        if searched != known:
            first = _first_of_bin(values, low, scale, np.uint64(searched))
            members = np.full(counts[searched] + 1, first)
            if _others_of_bin(values, low, scale, np.uint64(searched), first) > 0:
                # Each is written, to be overwritten if it is none: guesses of the processor would be wrong too often.
                kept = np.uint64(0)
                for value in values:
                    members[kept] = value
                    kept += np.uint64(np.uint64((value - low) * scale) == np.uint64(searched))
                members = members[: counts[searched]]
                members.sort()
            known = searched
        found[place] = members[ranks[place] - before]
