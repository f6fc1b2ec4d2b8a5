"""Percentiles of many numbers of which few differ, as loads of links are."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import njit

__all__ = ["order_statistics"]

#: Bins of equal width: some hold a few numbers that are put in order, others many that are equal.
_BINS = 1024


@njit(cache=True, nogil=True)
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
    tables = np.zeros((2, _BINS), dtype=np.int64)
    for place in range(values.size):
        tables[np.uint64(place & 1), np.uint64((values[np.uint64(place)] - low) * scale)] += 1
    counts = tables[0] + tables[1]
    members = np.empty(0)
    searched, before, known = np.int64(0), np.int64(0), np.int64(-1)
    for place in range(ranks.size):
        while before + counts[searched] <= ranks[place]:
            before += counts[searched]
            searched += 1
        if searched != known:
            # Each is written, to be overwritten if it is none: guesses of the processor would be wrong too often.
            members = np.empty(counts[searched] + 1)
            kept = np.uint64(0)
            for value in values:
                members[kept] = value
                kept += np.uint64(np.uint64((value - low) * scale) == np.uint64(searched))
            members = members[: counts[searched]]
            if members.min() < members.max():
                members.sort()
            known = searched
        found[place] = members[ranks[place] - before]
