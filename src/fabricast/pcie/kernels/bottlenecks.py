"""Which link limits each communication."""

from __future__ import annotations

from fabricast.pcie.kernels.working_memory import ACTIVE, CAPACITY, FULLNESS, LIMITING, MEMBER, PAIR, RHO, USERS, load
from fabricast.runtime.compilation import allocation_free

__all__ = ["longest_held", "note_bottlenecks"]

#: A link is full when its load is this close to its capacity.
_FULL = 1e-6


@allocation_free()
def _utilisation(link, users, values, marks):
    """Load of a link by all its users, relative to its capacity."""
    return load(link, users, values, marks, RHO) / values[CAPACITY, link]


@allocation_free()
def note_bottlenecks(active_count, step, network, users, values, marks, held_s):
    """Add the time of a phase to the link that limits each communication.

    That is the fullest link of its route; of equally full ones that with most users, and then that
    of an endpoint. Where none is full, others hold it back at a port that they share (head-of-line blocking): it is
    then their full link.
    """
    for link in range(network.capacity.size):
        values[FULLNESS, link] = _utilisation(link, users, values, marks) if marks[USERS, link] else 0.0
    for a in range(active_count):
        c = marks[ACTIVE, a]
        first, end = network.route_offset[marks[PAIR, c]], network.route_offset[marks[PAIR, c] + 1]
        best = network.route_link[first]
        for hop in range(first + 1, end):
            link = network.route_link[hop]
            more = values[FULLNESS, link] - values[FULLNESS, best]
            users_more = marks[USERS, link] - marks[USERS, best]
            # Of links that carry the same, the endpoint's is the cause.
            last = hop + 1 == end and best != network.route_link[first]
            if more > _FULL or (more > -_FULL and (users_more > 0 or (users_more == 0 and last))):
                best = link
        marks[LIMITING, c] = best
    for a in range(active_count):
        c = marks[ACTIVE, a]
        limiting = marks[LIMITING, c]
        for hop in range(network.route_offset[marks[PAIR, c]], network.route_offset[marks[PAIR, c] + 1]):
            if values[FULLNESS, limiting] >= 1.0 - _FULL:
                break
            link = network.route_link[hop]
            for k in range(marks[USERS, link]):
                other = marks[LIMITING, users[MEMBER, link, k]]
                if values[FULLNESS, other] > values[FULLNESS, limiting] + _FULL:
                    limiting = other
        held_s[c, limiting] += step


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
