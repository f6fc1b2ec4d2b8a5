"""Compiled code of max-min fair sharing: progressive filling with a heap of links."""

from __future__ import annotations

import numpy as np
from numba import njit

from fabricast.percs.kernels.common import pop, push

__all__ = ["fill"]


@njit(cache=True, nogil=True)
def fill(offset, link, capacity, weight, first, member, rate):
    """Give every flow its weighted max-min fair rate.

    The flows over link n are member[first[n]:first[n + 1]]. The link with the least capacity
    left for each unit of weight freezes its flows. Shares only grow as flows freeze, so that a
    stale heap entry is put back with its new share; each flow is frozen once.
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
            size = push(shares, items, size, left[n] / active[n], n)
    frozen = np.zeros(offset.size - 1, dtype=np.bool_)
    while size > 0:
        share, n = shares[0], items[0]
        size = pop(shares, items, size)
        # Summed anew: differences of the running sum would leave dust behind.
        waiting = 0.0
        for f in member[first[n] : first[n + 1]]:
            if not frozen[f]:
                waiting += weight[f]
        if waiting == 0.0:
            continue
        now = max(left[n], 0.0) / waiting
        if now > share * (1 + 1e-12) and size > 0 and now > shares[0] * (1 + 1e-12):
            size = push(shares, items, size, now, n)
            continue
        for f in member[first[n] : first[n + 1]]:
            if not frozen[f]:
                frozen[f] = True
                rate[f] = now * weight[f]
                for m in link[offset[f] : offset[f + 1]]:
                    left[m] -= rate[f]
