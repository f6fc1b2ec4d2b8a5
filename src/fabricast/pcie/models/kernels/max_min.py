"""Compiled kernel of max-min fair rates by progressive filling."""

from __future__ import annotations

import numpy as np

from fabricast.pcie.models.kernels.working_memory import (
    ACTIVE,
    CAPACITY,
    IS_FROZEN,
    MEMBER,
    RESIDUAL,
    RHO,
    TIE,
    UNFROZEN,
    USERS,
)
from fabricast.runtime.compilation import allocation_free

__all__ = ["max_min"]


@allocation_free
def max_min(active_count, link_count, users, values, marks):
    """Per-flow max-min fair rates by progressive filling."""
    for link in range(link_count):
        values[RESIDUAL, link] = values[CAPACITY, link]
        marks[UNFROZEN, link] = marks[USERS, link]
    for a in range(active_count):
        marks[IS_FROZEN, marks[ACTIVE, a]] = 0
    left = active_count
    while left > 0:
        level = np.inf
        for link in range(link_count):
            if marks[UNFROZEN, link] > 0:
                level = min(level, values[RESIDUAL, link] / marks[UNFROZEN, link])
        limit = level * TIE
        for link in range(link_count):
            if marks[UNFROZEN, link] > 0 and values[RESIDUAL, link] / marks[UNFROZEN, link] <= limit:
                for k in range(marks[USERS, link]):
                    c = users[MEMBER, link, k]
                    if not marks[IS_FROZEN, c]:
                        marks[IS_FROZEN, c] = 1
                        values[RHO, c] = level
                        left -= 1
        for link in range(link_count):
            values[RESIDUAL, link] = values[CAPACITY, link]
            marks[UNFROZEN, link] = 0
            for k in range(marks[USERS, link]):
                c = users[MEMBER, link, k]
                if marks[IS_FROZEN, c]:
                    values[RESIDUAL, link] -= values[RHO, c]
                else:
                    marks[UNFROZEN, link] += 1
