"""Max-min fair rates of running copies, with traffic in both directions.

The capacity of a link is C - d * L, where L is the load of the reverse direction and d the cost `duplex_cost`.
Progressive filling (`fabricast.pcie.models.kernels.max_min`) is repeated `_SETTLE` times with a damped load: the new
load has the weight 1 / (1 + d), for which equal traffic in both directions converges after one round. A shared limit
with `needs` applies only while all links named there are in use.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.engines.kernels.links import Links
from fabricast.pcie.models.kernels.max_min import max_min
from fabricast.runtime.compilation import allocation_free, njit

#: Rounds of progressive filling for loads of both directions, if `duplex_cost` is positive.
_SETTLE = 5


class Sharing(NamedTuple):
    """Working memory, by link and by copy."""

    load: NDArray[np.float64]
    #: Capacity that the load of the reverse direction leaves, and what copies with a rate leave of it.
    capacity: NDArray[np.float64]
    spare: NDArray[np.float64]
    #: Number of copies without a rate on each link.
    users: NDArray[np.int64]
    #: Number of running copies on each link, and the copies, shape (links, copies).
    sharers: NDArray[np.int64]
    member: NDArray[np.int64]
    #: Used links in ascending order; only the first entries are valid.
    used: NDArray[np.int64]
    #: Number of the route of each copy, which is its number.
    route: NDArray[np.int64]
    frozen: NDArray[np.int64]
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
        np.empty((links, copies), np.int64),
        np.zeros(links, np.int64),
        np.arange(copies),
        np.zeros(copies, np.int64),
        np.zeros(copies, np.int64),
    )


@allocation_free
def _use(links: Links, sharing: Sharing, acting: NDArray[np.int64], count: int) -> int:
    """List the active copies of each link, and the used links; return the number of the latter."""
    sharing.sharers[:] = 0
    for active in range(count):
        flow = np.uint32(acting[active])
        for hop in range(links.offset[flow], links.offset[flow + 1]):
            number = np.uint32(links.link[hop])
            sharing.member[number, sharing.sharers[number]] = flow
            sharing.sharers[number] += 1
    used = 0
    for number in range(links.capacity.size):
        if sharing.sharers[number] > 0:
            sharing.used[used] = number
            used += 1
    return used


@allocation_free(inline="always")
def _set_capacities(links: Links, sharing: Sharing, used: int) -> None:
    """Compute the capacity of each used link, reduced by reverse traffic; unused limits do not limit."""
    for index in range(used):
        number = np.uint32(sharing.used[index])
        capacity = links.capacity[number] - links.duplex_cost * sharing.load[np.uint32(links.opposite[number])]
        for needed in links.needs[number]:
            if needed >= 0 and sharing.sharers[needed] == 0:
                capacity = np.inf
        sharing.capacity[number] = capacity


@allocation_free(from_python=True)
def max_min_rates(
    links: Links, sharing: Sharing, acting: NDArray[np.int64], count: int, rates: NDArray[np.float64]
) -> None:
    """Compute max-min fair rates of all active copies with bidirectional links."""
    # With this weight, equal traffic in both directions converges in one round for any cost.
    weight = 1.0 / (1.0 + links.duplex_cost)
    sharing.load[:] = 0.0
    used = _use(links, sharing, acting, count)
    for _ in range(_SETTLE if links.duplex_cost > 0.0 else 1):
        _set_capacities(links, sharing, used)
        for active in range(count):
            sharing.frozen[np.uint32(acting[active])] = 0
        max_min(
            used,
            count,
            sharing.route,
            links.offset,
            links.link,
            sharing.capacity,
            sharing.sharers,
            sharing.member,
            sharing.used,
            sharing.spare,
            sharing.users,
            sharing.frozen,
            rates,
            sharing.bottleneck,
        )
        for place in range(used):
            sharing.load[np.uint32(sharing.used[place])] *= 1.0 - weight
        for active in range(count):
            flow = np.uint32(acting[active])
            for place in range(links.offset[flow], links.offset[flow + 1]):
                sharing.load[np.uint32(links.link[place])] += weight * rates[flow]
