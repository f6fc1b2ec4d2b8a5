"""Random streams that depend on the seed and their purpose, but not on the order of jobs."""

from __future__ import annotations

import hashlib

import numpy as np

from fabricast.core.errors import InputError


def random_generator(seed: int, purpose: str, index: int = 0) -> np.random.Generator:
    """Return the random generator for a purpose.

    >>> bool(random_generator(1, "bootstrap").random() == random_generator(1, "bootstrap").random())
    True
    >>> bool(random_generator(1, "bootstrap").random() == random_generator(1, "jitter").random())
    False
    """
    if seed < 0:
        raise InputError(f"seed is {seed}, expected 0 or more")
    purpose_key = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=4).digest(), "big")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose_key, index)))
