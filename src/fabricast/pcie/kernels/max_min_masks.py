"""Compiled kernel of max-min fair rates of few communications, a bit for each: the same rates, faster."""

from __future__ import annotations

import numpy as np

from fabricast.pcie.kernels.bit_masks import bits, lowest, without_lowest
from fabricast.pcie.kernels.working_memory import ACTIVE, CAPACITY, PAIR, RESIDUAL, RHO, SHARE, TIE
from fabricast.runtime.compilation import allocation_free

__all__ = ["MOST_IN_A_MASK", "max_min_by_masks", "users_as_masks"]

#: Communications that bits of a positive number can stand for.
MOST_IN_A_MASK = 62
#: Rows of `masks`, by link: the bits of its users; by place: the links that any communication uses.
_USERS, _USED = range(2)


@allocation_free()
def users_as_masks(count, network, marks, masks):
    """Set a bit for each communication of a graph that uses a link; list the links that any uses, return how many."""
    for link in range(masks.shape[1]):
        masks[_USERS, link] = 0
    links = 0
    for c in range(count):
        bit = 1 << c
        for hop in range(network.route_offset[marks[PAIR, c]], network.route_offset[marks[PAIR, c] + 1]):
            link = network.route_link[hop]
            if masks[_USERS, link] == 0:
                masks[_USED, links] = link
                links += 1
            masks[_USERS, link] |= bit
    return links


@allocation_free()
def max_min_by_masks(active_count, links, masks, values, marks):
    """Compute the rates of `max_min`, to the last bit, with a bit for each communication."""
    active = np.int64(0)
    for a in range(active_count):
        active |= 1 << marks[ACTIVE, a]
    for place in range(links):
        values[RESIDUAL, place] = values[CAPACITY, masks[_USED, place]]
    rising = active
    while rising != 0:
        level = np.inf
        for place in range(links):
            sharing = bits(masks[_USERS, masks[_USED, place]] & rising)
            values[SHARE, place] = values[RESIDUAL, place] / sharing if sharing > 0 else np.inf
            level = min(level, values[SHARE, place])
        limit = level * TIE
        full = np.int64(0)
        for place in range(links):
            if values[SHARE, place] <= limit:
                full |= masks[_USERS, masks[_USED, place]]
        full &= rising
        rising ^= full
        while full != 0:
            values[RHO, lowest(full)] = level
            full = without_lowest(full)
        if rising == 0:
            return
        for place in range(links):
            mask = masks[_USERS, masks[_USED, place]]
            if mask & rising == 0:
                continue
            settled = mask & (active ^ rising)
            values[RESIDUAL, place] = values[CAPACITY, masks[_USED, place]]
            while settled != 0:
                values[RESIDUAL, place] -= values[RHO, lowest(settled)]
                settled = without_lowest(settled)
