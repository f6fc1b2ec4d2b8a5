"""Max-min fair rates by progressive filling."""

from __future__ import annotations

import numpy as np

from fabricast.pcie.models.kernels.working_memory import TIE
from fabricast.runtime.compilation import allocation_free

__all__ = ["max_min"]


@allocation_free(forceinline=True)
def max_min(active_count, link_count, memory):
    """Compute max-min fair rates: raise all rates together, and fix those of each link that becomes full."""
    for link in range(link_count):
        memory.links.residual[link] = memory.links.capacity[link]
        memory.links.unfrozen[link] = memory.links.user_count[link]
    for a in range(active_count):
        memory.copies.is_frozen[memory.copies.active[a]] = 0
    left = active_count
    while left > 0:
        level = np.inf
        for link in range(link_count):
            if memory.links.unfrozen[link] > 0:
                level = min(level, memory.links.residual[link] / memory.links.unfrozen[link])
        limit = level * TIE
        for link in range(link_count):
            if memory.links.unfrozen[link] > 0 and memory.links.residual[link] / memory.links.unfrozen[link] <= limit:
                for k in range(memory.links.user_count[link]):
                    c = memory.users.member[link, k]
                    if not memory.copies.is_frozen[c]:
                        memory.copies.is_frozen[c] = 1
                        memory.copies.rho[c] = level
                        left -= 1
        for link in range(link_count):
            memory.links.residual[link] = memory.links.capacity[link]
            memory.links.unfrozen[link] = 0
            for k in range(memory.links.user_count[link]):
                c = memory.users.member[link, k]
                if memory.copies.is_frozen[c]:
                    memory.links.residual[link] -= memory.copies.rho[c]
                else:
                    memory.links.unfrozen[link] += 1
