"""Who shares the bottleneck of each communication."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import allocation_free, njit

__all__ = ["list_sharers"]

# FNV-1a, 64 bits.
_BASIS, _PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)


@allocation_free()
def _shares(c, other, link, pair, start_s, end_s, route_offset, route_link):
    """Whether another communication uses a link while the first one runs."""
    if other == c or start_s[c] >= end_s[other] or start_s[other] >= end_s[c]:
        return False
    used = False
    for hop in range(route_offset[pair[other]], route_offset[pair[other] + 1]):
        used = used or route_link[hop] == link
    return used


@njit(cache=True, nogil=True)
def list_sharers(
    rows, first_of, end_of, pair, bottleneck, start_s, end_s, route_offset, route_link, digest, count, listed
):
    """Fill number and digest of the pairs that share the bottleneck of each row; list them where there is room.

    `listed` (rows, most) takes the pairs themselves; without columns they are left out.
    """
    for place in range(rows.size):
        c = rows[place]
        found = 0
        value = _BASIS
        if bottleneck[c] >= 0:
            for other in range(first_of[place], end_of[place]):
                if _shares(c, other, bottleneck[c], pair, start_s, end_s, route_offset, route_link):
                    value = (value ^ np.uint64(pair[other] + 1)) * _PRIME
                    if found < listed.shape[1]:
                        listed[place, found] = pair[other]
                    found += 1
        digest[place] = value if found else np.uint64(0)
        count[place] = found
