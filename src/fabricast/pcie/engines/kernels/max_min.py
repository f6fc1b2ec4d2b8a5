"""Max-min fair rates of running copies, with traffic in both directions.

Progressive filling: the link that offers the least equal share to its copies without a rate is the bottleneck; these
copies get this share as their rate and reduce the capacity of their other links. This repeats until all running copies
have a rate.

The capacity of a link is C - d * L, where L is the load of the reverse direction and d the cost `duplex_cost`. Filling
is repeated `_SETTLE` times with a damped load: the new load has the weight 1 / (1 + d), for which equal traffic in both
directions converges after one round. A shared limit with `needs` applies only while all links named there are in use.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.engines.kernels.links import Links
from fabricast.runtime.compilation import allocation_free, njit

__all__ = ["Sharing", "max_min_rates", "new_sharing"]

#: Rounds of progressive filling for loads of both directions, if `duplex_cost` is positive.
_SETTLE = 5


class Sharing(NamedTuple):
    """Working memory, by link and by copy."""

    load: NDArray[np.float64]
    spare: NDArray[np.float64]
    #: Equal share that each link offers to its copies without a rate.
    offer: NDArray[np.float64]
    #: Number of running copies on each link, and number of those without a rate.
    sharers: NDArray[np.int64]
    users: NDArray[np.int64]
    #: Used links in ascending order; only the first entries are valid.
    used: NDArray[np.int64]
    frozen: NDArray[np.bool_]
    #: Link that determines the rate of each running copy.
    bottleneck: NDArray[np.int64]


@njit
def new_sharing(links: int, copies: int) -> Sharing:
    """Return working memory for a number of links and copies."""
    return Sharing(
        np.zeros(links),
        np.zeros(links),
        np.zeros(links),
        np.zeros(links, np.int64),
        np.zeros(links, np.int64),
        np.zeros(links, np.int64),
        np.zeros(copies, np.bool_),
        np.zeros(copies, np.int64),
    )


@allocation_free
def _use(links: Links, sharing: Sharing, acting: NDArray[np.int64], count: int) -> int:
    """Count the active flows on each link, list the used links, and return their number."""
    sharing.sharers[:] = 0
    for active in range(count):
        flow = np.uint32(acting[active])
        for hop in range(links.offset[flow], links.offset[flow + 1]):
            sharing.sharers[np.uint32(links.link[hop])] += 1
    used = 0
    for number in range(links.capacity.size):
        if sharing.sharers[number] > 0:
            sharing.used[used] = number
            used += 1
    return used


@allocation_free(inline="always")
def _offer_all(links: Links, sharing: Sharing, used: int) -> None:
    """Compute the equal share of each used link, reduced by reverse traffic."""
    for index in range(used):
        number = np.uint32(sharing.used[index])
        sharing.users[number] = sharing.sharers[number]
        spare = links.capacity[number] - links.duplex_cost * sharing.load[np.uint32(links.opposite[number])]
        for needed in links.needs[number]:
            if needed >= 0 and sharing.sharers[needed] == 0:
                spare = np.inf
        sharing.spare[number] = spare
        sharing.offer[number] = spare / sharing.users[number]


@allocation_free(inline="always")
def _freeze(flow: np.uint32, rate: float, links: Links, sharing: Sharing, rates: NDArray[np.float64]) -> None:
    """Fix the rate of a flow and subtract it from its links."""
    sharing.frozen[flow] = True
    rates[flow] = rate
    for hop in range(links.offset[flow], links.offset[flow + 1]):
        number = np.uint32(links.link[hop])
        sharing.spare[number] -= rate
        sharing.users[number] -= 1
        sharing.offer[number] = sharing.spare[number] / sharing.users[number] if sharing.users[number] > 0 else np.inf


@allocation_free
def max_min_rates(
    links: Links, sharing: Sharing, acting: NDArray[np.int64], count: int, rates: NDArray[np.float64]
) -> None:
    """Compute max-min fair rates of all active flows with bidirectional links."""
    # With this weight, equal traffic in both directions converges in one round for any cost.
    weight = 1.0 / (1.0 + links.duplex_cost)
    sharing.load[:] = 0.0
    used = _use(links, sharing, acting, count)
    for _ in range(_SETTLE if links.duplex_cost > 0.0 else 1):
        _offer_all(links, sharing, used)
        for active in range(count):
            sharing.frozen[np.uint32(acting[active])] = False
        left = count
        while left > 0:
            least, tightest = np.inf, np.uint64(0)
            for place in range(used):
                number = np.uint32(sharing.used[place])
                if sharing.offer[number] < least:
                    least, tightest = sharing.offer[number], np.uint64(number)
            word, bit = tightest >> np.uint64(6), tightest & np.uint64(63)
            for active in range(count):
                flow = np.uint32(acting[active])
                if not sharing.frozen[flow] and (links.crosses[flow, word] >> bit) & np.uint64(1) != 0:
                    _freeze(flow, least, links, sharing, rates)
                    sharing.bottleneck[flow] = np.int64(tightest)
                    left -= 1
        for place in range(used):
            sharing.load[np.uint32(sharing.used[place])] *= 1.0 - weight
        for active in range(count):
            flow = np.uint32(acting[active])
            for place in range(links.offset[flow], links.offset[flow + 1]):
                sharing.load[np.uint32(links.link[place])] += weight * rates[flow]
