"""Who shares the bottleneck of each communication."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import allocation_free, njit

__all__ = ["digest_sharers", "write_sharers"]

# FNV-1a, 64 bits.
_BASIS, _PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)


@allocation_free(forceinline=True)
def _shares(c, other, word, bit, pair, start_s, end_s, uses):
    """Whether another communication uses a link, which is a bit of a word, while the first one runs."""
    if (uses[np.uint64(pair[other]), word] >> bit) & np.uint64(1) == 0:
        return False
    return other != c and start_s[c] < end_s[other] and start_s[other] < end_s[c]


@njit
def digest_sharers(first_of, end_of, pair, bottleneck, start_s, end_s, uses, digest, count):
    """Fill number and digest of the pairs that share the bottleneck of each communication; `uses` as of `links_in_use`.

    Communications of a graph stand from `first_of` to `end_of`.
    """
    for c in range(pair.size):
        found = 0
        value = _BASIS
        if bottleneck[c] >= 0:
            word, bit = np.uint64(bottleneck[c]) >> np.uint64(6), np.uint64(bottleneck[c]) & np.uint64(63)
            for other in range(first_of[c], end_of[c]):
                if _shares(c, other, word, bit, pair, start_s, end_s, uses):
                    value = (value ^ np.uint64(pair[other] + 1)) * _PRIME
                    found += 1
        digest[c] = value if found else np.uint64(0)
        count[c] = found


@njit
def write_sharers(rows, first_of, end_of, pair, bottleneck, start_s, end_s, uses, names, name_begin, text):
    """Write the names of the pairs that share the bottleneck of some communications; return how long the text is.

    `names` (bytes) holds those of all pairs, each from its `name_begin` to the next. A blank stands between two, a zero
    byte after each communication.
    """
    length = 0
    for place in range(rows.size):
        c = rows[place]
        begin = length
        if bottleneck[c] >= 0:
            word, bit = np.uint64(bottleneck[c]) >> np.uint64(6), np.uint64(bottleneck[c]) & np.uint64(63)
            for other in range(first_of[c], end_of[c]):
                if _shares(c, other, word, bit, pair, start_s, end_s, uses):
                    if length > begin:
                        text[length] = np.uint8(32)
                        length += 1
                    for letter in range(name_begin[pair[other]], name_begin[pair[other] + 1]):
                        text[length] = names[letter]
                        length += 1
        text[length] = np.uint8(0)
        length += 1
    return length
