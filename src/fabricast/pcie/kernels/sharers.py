"""Who shares the bottleneck of each communication."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import allocation_free, njit

__all__ = ["links_in_use", "list_sharers"]

# FNV-1a, 64 bits.
_BASIS, _PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)


@allocation_free()
def _shares(c, other, word, bit, pair, start_s, end_s, uses):
    """Whether another communication uses a link, which is a bit of a word, while the first one runs."""
    if (uses[np.uint64(pair[other]), word] >> bit) & np.uint64(1) == 0:
        return False
    return other != c and start_s[c] < end_s[other] and start_s[other] < end_s[c]


@njit(cache=True, nogil=True)
def links_in_use(links, route_offset, route_link):
    """Return which links the route of each pair uses, a bit each in words of 64."""
    uses = np.zeros((route_offset.size - 1, (links + 63) // 64), dtype=np.uint64)
    for pair in range(route_offset.size - 1):
        for hop in range(route_offset[pair], route_offset[pair + 1]):
            link = np.uint64(route_link[hop])
            uses[pair, link >> np.uint64(6)] |= np.uint64(1) << (link & np.uint64(63))
    return uses


@njit(cache=True, nogil=True)
def list_sharers(rows, first_of, end_of, pair, bottleneck, start_s, end_s, uses, digest, count, listed):
    """Fill number and digest of the pairs that share the bottleneck of each row; list them where there is room.

    `uses` is as `links_in_use` gives; `listed` (rows, most) takes the pairs themselves; without columns they are left
    out.
    """
    for place in range(rows.size):
        c = rows[place]
        found = 0
        value = _BASIS
        if bottleneck[c] >= 0:
            word, bit = np.uint64(bottleneck[c]) >> np.uint64(6), np.uint64(bottleneck[c]) & np.uint64(63)
            for other in range(first_of[place], end_of[place]):
                if _shares(c, other, word, bit, pair, start_s, end_s, uses):
                    value = (value ^ np.uint64(pair[other] + 1)) * _PRIME
                    if found < listed.shape[1]:
                        listed[place, found] = pair[other]
                    found += 1
        digest[place] = value if found else np.uint64(0)
        count[place] = found
