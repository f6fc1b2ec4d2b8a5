"""Compiled kernel of max-min fair sharing: progressive filling with a heap of links."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["fill"]


@njit(cache=True, nogil=True)
def _push(keys, items, size, key, item):
    """Push an item onto a binary min-heap, ties ordered by item; return the new size."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if keys[parent] < key or (keys[parent] == key and items[parent] < item):
            break
        keys[child], items[child] = keys[parent], items[parent]
        child = parent
    keys[child], items[child] = key, item
    return size + 1


@njit(cache=True, nogil=True)
def _pop(keys, items, size):
    """Remove the first item (index 0) from a heap; return the new size."""
    size -= 1
    key, item = keys[size], items[size]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (keys[other] < keys[child] or (keys[other] == keys[child] and items[other] < items[child])):
            child = other
        if key < keys[child] or (key == keys[child] and item < items[child]):
            break
        keys[parent], items[parent] = keys[child], items[child]
        parent = child
    keys[parent], items[parent] = key, item
    return size


@njit(cache=True, nogil=True)
def fill(offset, link, capacity, weight, first, member, rate):
    """Compute the weighted max-min fair rate of every flow.

    The flows over link n are member[first[n]:first[n + 1]]. The link with the least remaining capacity per unit of
    weight freezes its flows. Shares only grow as flows freeze, so a stale heap entry is pushed again with its new
    share; each flow is frozen once.
    """
    links = capacity.size
    left = capacity.copy()
    active = np.zeros(links)
    for f in range(offset.size - 1):
        for n in link[offset[f] : offset[f + 1]]:
            active[n] += weight[f]
    shares = np.zeros(links)
    items = np.zeros(links, dtype=np.int64)
    size = 0
    for n in range(links):
        if active[n] > 0:
            size = _push(shares, items, size, left[n] / active[n], n)
    frozen = np.zeros(offset.size - 1, dtype=np.bool_)
    while size > 0:
        share, n = shares[0], items[0]
        size = _pop(shares, items, size)
        # Recomputed, because a running difference accumulates rounding errors.
        waiting = 0.0
        for f in member[first[n] : first[n + 1]]:
            if not frozen[f]:
                waiting += weight[f]
        if waiting == 0.0:
            continue
        now = max(left[n], 0.0) / waiting
        if now > share * (1 + 1e-12) and size > 0 and now > shares[0] * (1 + 1e-12):
            size = _push(shares, items, size, now, n)
            continue
        for f in member[first[n] : first[n + 1]]:
            if not frozen[f]:
                frozen[f] = True
                rate[f] = now * weight[f]
                for m in link[offset[f] : offset[f + 1]]:
                    left[m] -= rate[f]
