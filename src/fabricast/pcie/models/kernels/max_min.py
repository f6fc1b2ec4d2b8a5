"""Max-min fair rates by progressive filling."""

from __future__ import annotations

import numpy as np

from fabricast.pcie.models.kernels.working_memory import TIE
from fabricast.runtime.compilation import allocation_free

__all__ = ["max_min"]


@allocation_free(forceinline=True)
def max_min(active_count, used_count, active, capacity, user_count, member, used, offer, is_frozen, rate, bottleneck):
    """Raise the rates of all active copies together; the users of each link that becomes full keep their rate.

    The first `used_count` numbers in `used` are the links that may limit a copy. Fills `rate` and `bottleneck` by copy;
    `offer` (share of each user of a link without a rate) and `is_frozen` are working memory.
    Shapes: member (links, copies).
    """
    open_count = used_count
    level = np.inf
    for place in range(used_count):
        link = np.uint32(used[place])
        offer[link] = capacity[link] / user_count[link]
        level = min(level, offer[link])
    for a in range(active_count):
        is_frozen[active[a]] = 0
    left = active_count
    while left > 0:
        limit = level * TIE
        for place in range(open_count):
            link = np.uint32(used[place])
            if offer[link] <= limit:
                for k in range(user_count[link]):
                    c = np.uint32(member[link, k])
                    if not is_frozen[c]:
                        is_frozen[c] = 1
                        rate[c] = level
                        bottleneck[c] = used[place]
                        left -= 1
        if left == 0:
            break
        kept = 0
        level = np.inf
        for place in range(open_count):
            link = np.uint32(used[place])
            residual = capacity[link]
            unfrozen = 0
            for k in range(user_count[link]):
                c = np.uint32(member[link, k])
                if is_frozen[c]:
                    residual -= rate[c]
                else:
                    unfrozen += 1
            if unfrozen > 0:
                offer[link] = residual / unfrozen
                level = min(level, offer[link])
                used[kept] = used[place]
                kept += 1
        open_count = kept
