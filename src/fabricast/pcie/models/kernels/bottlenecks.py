"""Which link limits each communication."""

from __future__ import annotations

import numpy as np

from fabricast.pcie.models.kernels.working_memory import (
    ACTIVE,
    CAPACITY,
    CROSSES,
    CROSSING,
    DEMAND,
    FULL,
    FULLNESS,
    GROUP_OF,
    HELD_BY,
    LIMITING,
    LONGEST,
    MEMBER,
    PAIR,
    RHO,
    USERS,
    group_members,
)
from fabricast.runtime.compilation import allocation_free

__all__ = ["BY_COPY", "BY_INPUT_PORT", "longest_held", "note_bottlenecks"]

# How a model shares a full link; else all its users are limited there.
BY_INPUT_PORT = 1
BY_COPY = 2

#: A link is full when its load is this close to its capacity.
_FULL = 1e-6


@allocation_free(inline="always")
def _crossing_only(link, users, marks):
    """Whether all users of a link cross the root complex."""
    only = 1
    for k in range(marks[USERS, link]):
        only = min(only, marks[CROSSING, np.uint32(users[MEMBER, link, k])])
    return only


@allocation_free
def _fill_links(active_count, network, values, marks):
    """Fill FULLNESS, the load of each link relative to its capacity; list the full links and return how many are."""
    link_count = network.capacity.size
    for link in range(link_count):
        values[FULLNESS, link] = 0.0
    for a in range(active_count):
        c = np.uint32(marks[ACTIVE, a])
        for hop in range(network.route_offset[marks[PAIR, c]], network.route_offset[marks[PAIR, c] + 1]):
            values[FULLNESS, np.uint32(network.route_link[hop])] += values[RHO, c]
    for link in range(link_count):
        values[FULLNESS, link] /= values[CAPACITY, link]
    full = 0
    for link in range(link_count):
        marks[FULL, full] = link
        full += 1 if values[FULLNESS, link] >= 1.0 - _FULL else 0
    return full


@allocation_free(inline="always")
def _is_fuller(link, best, c, network, values, marks):
    """Whether a link is fuller than the best one before it on the route of a communication, if there is any.

    Of equally full ones it is that with most users, and then that of an endpoint.
    """
    if best < 0:
        return True
    known = np.uint32(best)
    more = values[FULLNESS, link] - values[FULLNESS, known]
    if more > _FULL or more <= -_FULL:
        return more > _FULL
    users_more = marks[USERS, link] - marks[USERS, known]
    # Of links that carry the same, the endpoint's is the cause.
    first = network.route_link[network.route_offset[marks[PAIR, c]]]
    last = network.route_link[network.route_offset[marks[PAIR, c] + 1] - 1]
    return users_more > 0 or (users_more == 0 and link == last and best != first)


@allocation_free(inline="always")
def _limit(c, link, network, values, marks):
    """Let a link limit a communication, unless it is limited more before."""
    if _is_fuller(link, marks[LIMITING, c], c, network, values, marks):
        marks[LIMITING, c] = link


@allocation_free
def _limit_by_ports(link, tau, network, users, values, marks):
    """Limit the users whose input port gets its part of a full link: who gets less is held back elsewhere."""
    groups = group_members(link, users, values, marks, RHO, False)
    # Who crosses the root complex gives up a part to those beside it.
    penalty = 0.0 if _crossing_only(link, users, marks) else tau
    for k in range(marks[USERS, link]):
        g = np.uint32(marks[GROUP_OF, k])
        least = values[CAPACITY, link] * (1.0 / groups - penalty * marks[CROSSES, g])
        if values[DEMAND, g] >= least - _FULL:
            _limit(np.uint32(users[MEMBER, link, k]), link, network, values, marks)


@allocation_free(inline="always")
def _limit_users(link, sharing, tau, network, users, values, marks):
    """Limit the users of a full link that do not merely get what others leave."""
    # Upstream all that leave by a full port are held to the ratio of what they ask for.
    if sharing == BY_INPUT_PORT and link >= network.upstream_links:
        _limit_by_ports(link, tau, network, users, values, marks)
        return
    least = 0.0
    if sharing == BY_COPY:
        for k in range(marks[USERS, link]):
            least = max(least, values[RHO, np.uint32(users[MEMBER, link, k])])
        least -= _FULL
    for k in range(marks[USERS, link]):
        c = np.uint32(users[MEMBER, link, k])
        if values[RHO, c] >= least:
            _limit(c, link, network, values, marks)


@allocation_free(inline="always")
def _fullest(c, network, values, marks):
    """Return the fullest link of a route."""
    best = -1
    for hop in range(network.route_offset[marks[PAIR, c]], network.route_offset[marks[PAIR, c] + 1]):
        link = np.uint32(network.route_link[hop])
        if _is_fuller(link, best, c, network, values, marks):
            best = link
    return best


@allocation_free(inline="always")
def _of_those_that_hold_back(c, network, users, values, marks):
    """Return the link that limits the slowest of those that share a link with a communication; -1 if none is known."""
    limiting = -1
    slowest = 0.0
    for hop in range(network.route_offset[marks[PAIR, c]], network.route_offset[marks[PAIR, c] + 1]):
        link = np.uint32(network.route_link[hop])
        for k in range(marks[USERS, link]):
            other = np.uint32(users[MEMBER, link, k])
            known = marks[LIMITING, other]
            if other == c or known < 0:
                continue
            rate = values[RHO, other]
            if limiting < 0 or rate < slowest - _FULL or (rate < slowest + _FULL and known < limiting):
                limiting = known
                slowest = rate
    return limiting


@allocation_free
def note_bottlenecks(active_count, step, sharing, tau, network, users, values, marks, held_s):
    """Add the time of a phase to the link that limits each communication.

    That is a full link of its route at which it gets its part, and not only what others leave. Where there is none,
    others hold it back at a port that they share (head-of-line blocking): it is then the link that limits them.
    """
    for a in range(active_count):
        marks[LIMITING, np.uint32(marks[ACTIVE, a])] = -1
    # Links on a route have ascending numbers: each communication meets its full ones in the order of its way.
    for place in range(_fill_links(active_count, network, values, marks)):
        _limit_users(np.uint32(marks[FULL, place]), sharing, tau, network, users, values, marks)
    left = 0
    for a in range(active_count):
        left += 1 if marks[LIMITING, np.uint32(marks[ACTIVE, a])] < 0 else 0
    found = 1
    while left > 0 and found > 0:
        # What a round finds counts from the next one on: the order of communications must not.
        found = 0
        for a in range(active_count):
            c = np.uint32(marks[ACTIVE, a])
            if marks[LIMITING, c] < 0:
                marks[HELD_BY, c] = _of_those_that_hold_back(c, network, users, values, marks)
        for a in range(active_count):
            c = np.uint32(marks[ACTIVE, a])
            if marks[LIMITING, c] < 0 and marks[HELD_BY, c] >= 0:
                marks[LIMITING, c] = marks[HELD_BY, c]
                found += 1
        left -= found
    for a in range(active_count):
        c = np.uint32(marks[ACTIVE, a])
        if marks[LIMITING, c] < 0:
            marks[LIMITING, c] = _fullest(c, network, values, marks)
        link = np.uint32(marks[LIMITING, c])
        longest = np.uint32(marks[LONGEST, c])
        held_s[c, link] += step
        if held_s[c, link] > held_s[c, longest] or (held_s[c, link] == held_s[c, longest] and link < longest):
            marks[LONGEST, c] = link


@allocation_free
def longest_held(first, count, held_s, bottleneck, marks):
    """Name the link that limited each communication for the longest time, and forget the times."""
    for c in range(count):
        longest = np.uint32(marks[LONGEST, c])
        bottleneck[first + c] = longest if held_s[c, longest] > 0.0 else -1
        for link in range(held_s.shape[1]):
            held_s[c, link] = 0.0
