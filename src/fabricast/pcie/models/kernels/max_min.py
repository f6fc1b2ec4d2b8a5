"""Max-min fair rates by progressive filling."""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import allocation_free


@allocation_free(forceinline=True)
def max_min(
    used_count,
    copies,
    route,
    route_offset,
    route_link,
    capacity,
    sharers,
    member,
    used,
    spare,
    users,
    is_frozen,
    rate,
    bottleneck,
):
    """Fix the rates of the users of the link that offers the least share, until all copies have a rate.

    The first `used_count` numbers in `used` are the links that may limit one of the `copies` active copies; `sharers`
    and `member` are the number and the list of the copies on each. Fills `rate` and `bottleneck` by copy; `spare` and
    `users` (capacity and copies without a rate) are working memory, and `is_frozen` is 0 for active copies.
    Shapes: route (copies,), member (links, copies).
    """
    for place in range(used_count):
        link = np.uint32(used[place])
        spare[link] = capacity[link]
        users[link] = sharers[link]
    left = copies
    while left > 0:
        least = np.inf
        tightest = np.uint32(0)
        for place in range(used_count):
            link = np.uint32(used[place])
            offer = spare[link] / users[link] if users[link] > 0 else np.inf
            if offer < least:
                least = offer
                tightest = link
        left -= users[tightest]
        for k in range(sharers[tightest]):
            c = np.uint32(member[tightest, k])
            if not is_frozen[c]:
                is_frozen[c] = 1
                rate[c] = least
                bottleneck[c] = tightest
                # Nothing reads what the last copies leave of their links.
                if left > 0:
                    for hop in range(route_offset[route[c]], route_offset[route[c] + 1]):
                        link = np.uint32(route_link[hop])
                        spare[link] -= least
                        users[link] -= 1
