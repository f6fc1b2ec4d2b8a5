"""Which link limits each communication."""

from __future__ import annotations

from fabricast.pcie.kernels.working_memory import (
    ACTIVE,
    CAPACITY,
    CROSSES,
    CROSSING,
    DEMAND,
    FULLNESS,
    GROUP_OF,
    HELD_BY,
    LIMITED,
    LIMITING,
    MEMBER,
    PAIR,
    RHO,
    USERS,
    group_members,
    load,
)
from fabricast.runtime.compilation import allocation_free

__all__ = ["BY_COPY", "BY_INPUT_PORT", "longest_held", "note_bottlenecks"]

# How a model shares a full link; else all its users are limited there.
BY_INPUT_PORT = 1
BY_COPY = 2

#: A link is full when its load is this close to its capacity.
_FULL = 1e-6


@allocation_free(inline="always")
def _utilisation(link, users, values, marks):
    """Load of a link by all its users, relative to its capacity."""
    return load(link, users, values, marks, RHO) / values[CAPACITY, link]


@allocation_free(inline="always")
def _crossing_only(link, users, marks):
    """Whether all users of a link cross the root complex."""
    only = 1
    for k in range(marks[USERS, link]):
        only = min(only, marks[CROSSING, users[MEMBER, link, k]])
    return only


@allocation_free()
def _mark_limited_groups(link, tau, users, values, marks):
    """Mark the users whose input port gets its part of a link: who gets less is held back elsewhere."""
    groups = group_members(link, users, values, marks, RHO, False)
    # Who crosses the root complex gives up a part to those beside it.
    penalty = 0.0 if _crossing_only(link, users, marks) else tau
    for k in range(marks[USERS, link]):
        g = marks[GROUP_OF, k]
        least = values[CAPACITY, link] * (1.0 / groups - penalty * marks[CROSSES, g])
        users[LIMITED, link, users[MEMBER, link, k]] = 1 if values[DEMAND, g] >= least - _FULL else 0


@allocation_free(inline="always")
def _mark_limited(link, sharing, tau, upstream_links, users, values, marks):
    """Mark the users that a link limits: those of a full one that do not merely get what others leave."""
    count = marks[USERS, link]
    full = values[FULLNESS, link] >= 1.0 - _FULL
    # Upstream all that leave by a full port are held to the ratio of what they ask for.
    if full and sharing == BY_INPUT_PORT and link >= upstream_links:
        _mark_limited_groups(link, tau, users, values, marks)
        return
    least = 0.0
    if full and sharing == BY_COPY:
        for k in range(count):
            least = max(least, values[RHO, users[MEMBER, link, k]])
        least -= _FULL
    for k in range(count):
        c = users[MEMBER, link, k]
        users[LIMITED, link, c] = 1 if full and values[RHO, c] >= least else 0


@allocation_free(inline="always")
def _fullest(c, limited_only, network, users, values, marks):
    """Return the fullest link of a route, or of those that limit the communication; -1 if none does.

    Of equally full ones it is that with most users, and then that of an endpoint.
    """
    first, end = network.route_offset[marks[PAIR, c]], network.route_offset[marks[PAIR, c] + 1]
    best = -1
    for hop in range(first, end):
        link = network.route_link[hop]
        if limited_only and users[LIMITED, link, c] == 0:
            continue
        if best < 0:
            best = link
            continue
        more = values[FULLNESS, link] - values[FULLNESS, best]
        users_more = marks[USERS, link] - marks[USERS, best]
        # Of links that carry the same, the endpoint's is the cause.
        last = hop + 1 == end and best != network.route_link[first]
        if more > _FULL or (more > -_FULL and (users_more > 0 or (users_more == 0 and last))):
            best = link
    return best


@allocation_free(inline="always")
def _of_those_that_hold_back(c, network, users, values, marks):
    """Return the link that limits the slowest of those that share a link with a communication; -1 if none is known."""
    limiting = -1
    slowest = 0.0
    for hop in range(network.route_offset[marks[PAIR, c]], network.route_offset[marks[PAIR, c] + 1]):
        link = network.route_link[hop]
        for k in range(marks[USERS, link]):
            other = users[MEMBER, link, k]
            known = marks[LIMITING, other]
            if other == c or known < 0:
                continue
            rate = values[RHO, other]
            if limiting < 0 or rate < slowest - _FULL or (rate < slowest + _FULL and known < limiting):
                limiting = known
                slowest = rate
    return limiting


@allocation_free()
def note_bottlenecks(active_count, step, sharing, tau, network, users, values, marks, held_s):
    """Add the time of a phase to the link that limits each communication.

    That is a full link of its route at which it gets its part, and not only what others leave. Where there is none,
    others hold it back at a port that they share (head-of-line blocking): it is then the link that limits them.
    """
    for link in range(network.capacity.size):
        values[FULLNESS, link] = 0.0
        if marks[USERS, link] == 0:
            continue
        values[FULLNESS, link] = _utilisation(link, users, values, marks)
        _mark_limited(link, sharing, tau, network.upstream_links, users, values, marks)
    left = 0
    for a in range(active_count):
        c = marks[ACTIVE, a]
        marks[LIMITING, c] = _fullest(c, True, network, users, values, marks)
        left += 1 if marks[LIMITING, c] < 0 else 0
    found = 1
    while left > 0 and found > 0:
        # What a round finds counts from the next one on: the order of communications must not.
        found = 0
        for a in range(active_count):
            c = marks[ACTIVE, a]
            if marks[LIMITING, c] < 0:
                marks[HELD_BY, c] = _of_those_that_hold_back(c, network, users, values, marks)
        for a in range(active_count):
            c = marks[ACTIVE, a]
            if marks[LIMITING, c] < 0 and marks[HELD_BY, c] >= 0:
                marks[LIMITING, c] = marks[HELD_BY, c]
                found += 1
        left -= found
    for a in range(active_count):
        c = marks[ACTIVE, a]
        if marks[LIMITING, c] < 0:
            marks[LIMITING, c] = _fullest(c, False, network, users, values, marks)
        held_s[c, marks[LIMITING, c]] += step


@allocation_free()
def longest_held(first, count, held_s, bottleneck):
    """Name the link that limited each communication for the longest time, and forget the times."""
    for c in range(count):
        best = 0
        for link in range(held_s.shape[1]):
            if held_s[c, link] > held_s[c, best]:
                best = link
        bottleneck[first + c] = best if held_s[c, best] > 0.0 else -1
        for link in range(held_s.shape[1]):
            held_s[c, link] = 0.0
