"""Hash function for uniform random draws, shared by the kernels of the study."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import allocation_free


@allocation_free(inline="always")
def mix(z):
    """Return the splitmix64 finaliser of `z`: a platform-independent 64-bit hash."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
