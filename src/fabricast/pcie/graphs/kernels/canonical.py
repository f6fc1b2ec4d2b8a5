"""The smallest image of arc sets under the symmetries of a tree."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import njit

__all__ = ["canonical_masks"]


@njit
def canonical_masks(masks, arc_images):
    """Return the smallest image of each arc set under all symmetries.

    `masks` is uint64 with one bit an arc, `arc_images[a, b]` the bit that symmetry `a`
    maps bit `b` to.
    """
    result = np.empty_like(masks)
    bits = np.empty(64, dtype=np.int64)
    one = np.uint64(1)
    for m in range(masks.size):
        mask = masks[m]
        count = 0
        bit = 0
        while mask:
            if mask & one:
                bits[count] = bit
                count += 1
            mask >>= one
            bit += 1
        best = masks[m]
        for a in range(arc_images.shape[0]):
            image = np.uint64(0)
            for b in range(count):
                image |= one << np.uint64(arc_images[a, bits[b]])
            if image < best:
                best = image
        result[m] = best
    return result
