"""Compiled kernel that marks the links in use."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import njit

__all__ = ["links_in_use"]


@njit
def links_in_use(links, route_offset, route_link):
    """Return which links the route of each pair uses, a bit each in words of 64."""
    uses = np.zeros((route_offset.size - 1, (links + 63) // 64), dtype=np.uint64)
    for pair in range(route_offset.size - 1):
        for hop in range(route_offset[pair], route_offset[pair + 1]):
            link = np.uint64(route_link[hop])
            uses[pair, link >> np.uint64(6)] |= np.uint64(1) << (link & np.uint64(63))
    return uses
