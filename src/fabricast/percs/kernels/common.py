"""A compiled piece that several kernels of the study share: a hash for even draws."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import allocation_free

__all__ = ["mix"]


@allocation_free(inline="always")
def mix(z):
    """Return the finaliser of splitmix64: a hash of 64 bits, the same on every machine."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
