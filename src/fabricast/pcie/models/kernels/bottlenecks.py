"""Bottleneck of each copy: the link of its route at which it waits longest, and the cause of the wait.

A full link limits a user that gets its full share there. A copy without such a link on its route waits behind another
copy on a shared link (head-of-line blocking): this shared link is its bottleneck, and the full link that limits the
other copy is the cause.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fabricast.pcie.models.kernels.working_memory import group_members
from fabricast.runtime.compilation import allocation_free

# Rule by which a model shares a full link; by default all users of the link are limited there.
BY_INPUT_PORT = 1
BY_COPY = 2


class Waits(NamedTuple):
    """Waiting times by copy and link of its route: in total, behind other copies, and the cause of the latter."""

    limited_s: Any
    blocked_s: Any
    cause: Any


#: A link is full when its load is this close to its capacity.
_FULL = 1e-6


@allocation_free(forceinline=True)
def _crossing_only(link, memory):
    """Return whether all users of a link cross the root complex."""
    only = 1
    for k in range(memory.links.user_count[link]):
        only = min(only, memory.copies.crossing[np.uint32(memory.users.member[link, k])])
    return only


@allocation_free(forceinline=True)
def _fill_links(active_count, network, memory):
    """Compute the load of each link relative to its capacity; list the full links and return their number."""
    link_count = network.capacity.size
    for link in range(link_count):
        memory.links.fullness[link] = 0.0
    for a in range(active_count):
        c = np.uint32(memory.copies.active[a])
        for hop in range(network.route_offset[memory.copies.pair[c]], network.route_offset[memory.copies.pair[c] + 1]):
            memory.links.fullness[np.uint32(network.route_link[hop])] += memory.copies.rho[c]
    for link in range(link_count):
        memory.links.fullness[link] /= memory.links.capacity[link]
    full = 0
    for link in range(link_count):
        memory.links.full[full] = link
        full += 1 if memory.links.fullness[link] >= 1.0 - _FULL else 0
    return full


@allocation_free(forceinline=True)
def _is_fuller(link, best, c, network, memory):
    """Return whether a link is fuller than the best link before it on the route of a copy, if any.

    Ties are resolved by the number of users, then in favour of the link of an endpoint.
    """
    if best < 0:
        return True
    known = np.uint32(best)
    more = memory.links.fullness[link] - memory.links.fullness[known]
    if more > _FULL or more <= -_FULL:
        return more > _FULL
    users_more = memory.links.user_count[link] - memory.links.user_count[known]
    # Of links with the same load, the link of the endpoint is the cause.
    first = network.route_link[network.route_offset[memory.copies.pair[c]]]
    last = network.route_link[network.route_offset[memory.copies.pair[c] + 1] - 1]
    return users_more > 0 or (users_more == 0 and link == last and best != first)


@allocation_free(forceinline=True)
def _limit(c, link, network, memory):
    """Record a link as the limit of a copy, unless another link limits the copy more."""
    if _is_fuller(link, memory.copies.limiting[c], c, network, memory):
        memory.copies.limiting[c] = link


@allocation_free(forceinline=True)
def _limit_by_ports(link, tau, network, memory):
    """Record the limit of users whose input port gets its share of a full link; others are limited elsewhere."""
    groups = group_members(link, memory, memory.copies.rho, False)
    # Crossing copies yield a part of their share to the others.
    penalty = 0.0 if _crossing_only(link, memory) else tau
    for k in range(memory.links.user_count[link]):
        g = np.uint32(memory.groups.group_of[k])
        least = memory.links.capacity[link] * (1.0 / groups - penalty * memory.groups.crosses[g])
        if memory.groups.demand[g] >= least - _FULL:
            _limit(np.uint32(memory.users.member[link, k]), link, network, memory)


@allocation_free(forceinline=True)
def _limit_users(link, sharing, tau, network, memory):
    """Record the limit of the users of a full link that get their share there."""
    # Upstream, all users of a full port are throttled in proportion to their demand.
    if sharing == BY_INPUT_PORT and link >= network.upstream_links:
        _limit_by_ports(link, tau, network, memory)
        return
    least = 0.0
    if sharing == BY_COPY:
        for k in range(memory.links.user_count[link]):
            least = max(least, memory.copies.rho[np.uint32(memory.users.member[link, k])])
        least -= _FULL
    for k in range(memory.links.user_count[link]):
        c = np.uint32(memory.users.member[link, k])
        if memory.copies.rho[c] >= least:
            _limit(c, link, network, memory)


@allocation_free(forceinline=True)
def _fullest(c, network, memory):
    """Return the fullest link of a route."""
    best = -1
    for hop in range(network.route_offset[memory.copies.pair[c]], network.route_offset[memory.copies.pair[c] + 1]):
        link = np.uint32(network.route_link[hop])
        if _is_fuller(link, best, c, network, memory):
            best = link
    return best


@allocation_free
def _is_on_route(link, c, network, memory):
    """Return whether a link is on the route of a copy."""
    for hop in range(network.route_offset[memory.copies.pair[c]], network.route_offset[memory.copies.pair[c] + 1]):
        if network.route_link[hop] == link:
            return True
    return False


@allocation_free
def _next_link(link, c, network, memory):
    """Return the link after a link of the route of a copy; -1 after the last one."""
    last = network.route_offset[memory.copies.pair[c] + 1] - 1
    for hop in range(network.route_offset[memory.copies.pair[c]], last):
        if network.route_link[hop] == link:
            return network.route_link[hop + 1]
    return -1


@allocation_free
def _find_blocking(c, diverging, network, memory):
    """Find the slowest copy with a common link and a known limit.

    If `diverging`, only copies count that continue to another link than `c`: packets of `c` wait behind theirs in one
    queue. Store the last common link as the place where `c` waits, and the limit of the other copy as the cause; -1 if
    no such copy exists.
    """
    cause = -1
    place = -1
    slowest = 0.0
    for hop in range(network.route_offset[memory.copies.pair[c]], network.route_offset[memory.copies.pair[c] + 1]):
        link = np.uint32(network.route_link[hop])
        onwards = _next_link(link, c, network, memory)
        for k in range(memory.links.user_count[link]):
            other = np.uint32(memory.users.member[link, k])
            known = memory.copies.limiting[other]
            if other == c or known < 0:
                continue
            other_onwards = _next_link(link, other, network, memory)
            if diverging and (other_onwards < 0 or other_onwards == onwards):
                continue
            if memory.copies.cause[other] >= 0:
                known = memory.copies.cause[other]
            rate = memory.copies.rho[other]
            if cause < 0 or rate < slowest - _FULL or (rate < slowest + _FULL and known <= cause):
                cause = known
                place = link
                slowest = rate
    if cause >= 0 and _is_on_route(cause, c, network, memory):
        place = cause
    memory.copies.waits_at[c] = place
    memory.copies.waits_for[c] = cause


@allocation_free
def _find_causes(active_count, diverging, network, memory):
    """Find the limits of copies that are blocked by other copies, starting from copies with a known limit."""
    left = 0
    for a in range(active_count):
        left += 1 if memory.copies.limiting[np.uint32(memory.copies.active[a])] < 0 else 0
    found = 1
    while left > 0 and found > 0:
        # Results of a round apply from the next round on, so that the order of copies does not matter.
        found = 0
        for a in range(active_count):
            c = np.uint32(memory.copies.active[a])
            if memory.copies.limiting[c] < 0:
                _find_blocking(c, diverging, network, memory)
        for a in range(active_count):
            c = np.uint32(memory.copies.active[a])
            if memory.copies.limiting[c] < 0 and memory.copies.waits_at[c] >= 0:
                memory.copies.limiting[c] = memory.copies.waits_at[c]
                memory.copies.cause[c] = memory.copies.waits_for[c]
                if memory.copies.waits_for[c] == memory.copies.waits_at[c]:
                    memory.copies.cause[c] = -1
                found += 1
        left -= found


@allocation_free
def find_bottlenecks(active_count, sharing, tau, network, memory):
    """Find the link of its route at which each running copy waits, and the cause of the wait; -1 for none."""
    for a in range(active_count):
        memory.copies.limiting[np.uint32(memory.copies.active[a])] = -1
        memory.copies.cause[np.uint32(memory.copies.active[a])] = -1
    # Links on a route have ascending numbers, so that each copy meets its full links in order.
    for place in range(_fill_links(active_count, network, memory)):
        _limit_users(np.uint32(memory.links.full[place]), sharing, tau, network, memory)
    for others in range(2):
        _find_causes(active_count, others == 0, network, memory)
    for a in range(active_count):
        c = np.uint32(memory.copies.active[a])
        if memory.copies.limiting[c] < 0:
            memory.copies.limiting[c] = _fullest(c, network, memory)


@allocation_free
def add_waits(active_count, step, memory, waits):
    """Add the time of a phase to the link at which each copy waits."""
    for a in range(active_count):
        c = np.uint32(memory.copies.active[a])
        link = np.uint32(memory.copies.limiting[c])
        if memory.copies.cause[c] >= 0:
            if waits.blocked_s[c, link] == 0.0:
                waits.cause[c, link] = memory.copies.cause[c]
            waits.blocked_s[c, link] += step
        longest = np.uint32(memory.copies.longest[c])
        waits.limited_s[c, link] += step
        if waits.limited_s[c, link] > waits.limited_s[c, longest] or (
            waits.limited_s[c, link] == waits.limited_s[c, longest] and link < longest
        ):
            memory.copies.longest[c] = link


@allocation_free(forceinline=True, from_python=True)
def cause_of(c, link, waits):
    """Return the cause of the first wait of a copy at a link, if that was most of its time there."""
    is_blocked = waits.blocked_s[c, link] > 0.5 * waits.limited_s[c, link]
    return waits.cause[c, link] if is_blocked else -1


@allocation_free(forceinline=True)
def store_bottlenecks(first, count, waits, bottleneck, caused_by, memory):
    """Store the link at which each copy waited longest and its cause, and reset the times."""
    for c in range(count):
        longest = np.uint32(memory.copies.longest[c])
        bottleneck[first + c] = longest if waits.limited_s[c, longest] > 0.0 else -1
        caused_by[first + c] = cause_of(c, longest, waits)
        for link in range(waits.limited_s.shape[1]):
            waits.limited_s[c, link] = 0.0
            waits.blocked_s[c, link] = 0.0
