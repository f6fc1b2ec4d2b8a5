"""Kernel for the canonical form of pair sets under the symmetries of a tree."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import njit


@njit
def canonical_masks(masks, pair_images):
    """Return the smallest image of each pair set under all symmetries.

    Exhaustive search: the set bits of a mask are listed once, then every symmetry maps them to an image, and the
    numerically smallest image is kept. The cost is O(masks * symmetries * pairs per mask).

    Shapes: masks (masks,); pair_images (symmetries, pairs); result (masks,).
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
        for a in range(pair_images.shape[0]):
            image = np.uint64(0)
            for b in range(count):
                image |= one << np.uint64(pair_images[a, bits[b]])
            if image < best:
                best = image
        result[m] = best
    return result
