"""Rates at which every full buffer drains as fast as it fills."""

from __future__ import annotations

from fabricast.pcie.models.kernels.working_memory import (
    CAPACITY,
    GROUP,
    GROUP_COST,
    GROUP_DEMAND,
    GROUP_PAYLOAD,
    GROUPS,
    IN_PIECES,
    INPUT,
    LIMIT,
    MEMBER,
    NEXT,
    PLACE,
    PORT,
    RATE,
    RHO,
    SHARE,
    TINY,
    USERS,
)
from fabricast.runtime.compilation import allocation_free

__all__ = ["back_pressure"]

# Fixed-point rounds of the back-pressure model, and those before changes are halved.
_MOST_ROUNDS = 100
_UNDAMPED_ROUNDS = 10
_SETTLED = 1e-10


@allocation_free
def _share_turns(link, count, asking, capacity, by_cost, values, marks, flows):
    """Give every backlogged group of a link equally many packets; the others get what they ask for.

    Fills SHARE. The group `asking`, if any, asks without end. The capacity is one of cost,
    or of payload if not `by_cost`. Returns the sum of the shares.
    """
    for g in range(count):
        values[SHARE, g] = -1.0
    left = capacity
    open_groups = count
    while open_groups > 0:
        weight = 0.0
        for g in range(count):
            if values[SHARE, g] < 0.0:
                weight += flows[GROUP_COST if by_cost else GROUP_PAYLOAD, link, g]
        turns = max(left, 0.0) / weight
        served = 0
        for g in range(count):
            if values[SHARE, g] < 0.0 and g != asking:
                demand = flows[GROUP_DEMAND, link, g]
                payload = flows[GROUP_PAYLOAD, link, g]
                if demand <= turns * payload * (1.0 + TINY):
                    values[SHARE, g] = demand
                    left -= demand / payload * flows[GROUP_COST, link, g] if by_cost else demand
                    served += 1
        if served == 0:
            for g in range(count):
                if values[SHARE, g] < 0.0:
                    values[SHARE, g] = turns * flows[GROUP_PAYLOAD, link, g]
            break
        open_groups -= served
    total = 0.0
    for g in range(count):
        total += values[SHARE, g]
    return total


@allocation_free
def _share_link(link, asking, values, marks, flows):
    """Share a link by turns within its capacity, and within its limit if that is tighter."""
    count = marks[GROUPS, link]
    total = _share_turns(link, count, asking, values[CAPACITY, link], True, values, marks, flows)
    if total > values[LIMIT, link]:
        _share_turns(link, count, asking, values[LIMIT, link], False, values, marks, flows)


@allocation_free
def _push_forward(link, backlog, piece_payload, piece_cost, users, values, marks, flows):
    """Arbitrate one link among what arrives at it; fills the rates behind it."""
    count = 0
    user_count = marks[USERS, link]
    for k in range(user_count):
        entry = users[INPUT, link, k]
        rate = backlog if entry < 0 else flows[RATE, entry, users[PLACE, link, k]]
        g = count
        if entry >= 0:
            for other in range(count):
                if marks[PORT, other] == entry:
                    g = other
                    break
        if g == count:
            marks[PORT, g] = entry
            flows[GROUP_DEMAND, link, g] = 0.0
            flows[GROUP_PAYLOAD, link, g] = 0.0
            flows[GROUP_COST, link, g] = 0.0
            count += 1
        pieces = users[IN_PIECES, link, k] == 1
        flows[RATE, link, k] = rate
        users[GROUP, link, k] = g
        flows[GROUP_DEMAND, link, g] += rate
        flows[GROUP_PAYLOAD, link, g] += rate / piece_payload if pieces else rate
        flows[GROUP_COST, link, g] += rate * piece_cost if pieces else rate
    for g in range(count):
        packets = flows[GROUP_PAYLOAD, link, g]
        flows[GROUP_PAYLOAD, link, g] = flows[GROUP_DEMAND, link, g] / packets
        flows[GROUP_COST, link, g] /= packets
    marks[GROUPS, link] = count
    _share_link(link, -1, values, marks, flows)
    for k in range(user_count):
        g = users[GROUP, link, k]
        flows[RATE, link, k] *= values[SHARE, g] / flows[GROUP_DEMAND, link, g]


@allocation_free
def _pushed_back(link, users, values, marks, flows):
    """Return the rate at which the outputs of a link's buffer take packets in the mix that arrives."""
    total = 0.0
    for k in range(marks[USERS, link]):
        total += flows[RATE, link, k]
    limit = values[CAPACITY, link]
    for k in range(marks[USERS, link]):
        output = users[NEXT, link, k]
        known = output < 0
        for other in range(k):
            known = known or users[NEXT, link, other] == output
        if known:
            continue
        part = 0.0
        for other in range(k, marks[USERS, link]):
            if users[NEXT, link, other] == output:
                part += flows[RATE, link, other]
        group = 0
        for other in range(marks[USERS, output]):
            if users[INPUT, output, other] == link:
                group = users[GROUP, output, other]
                break
        _share_link(output, group, values, marks, flows)
        limit = min(limit, values[SHARE, group] * total / part)
    return limit


@allocation_free
def back_pressure(active_count, link_count, piece_payload, piece_cost, users, values, marks, flows):
    """Rates at which every full buffer drains as fast as it fills.

    A switch port serves its full input buffers packet by packet in turn, whatever the size
    of the packets, so each gets equally many. A buffer whose next port takes fewer packets
    than arrive fills up and throttles the link that feeds it, for all communications on
    that link and in the mix in which they arrive: head-of-line blocking, link by link
    towards the sources. Forward sweeps share every link by turns within its limit; backward
    sweeps set each limit to what the next ports take; both repeat until no limit moves.
    Behind the root complex packets are cut into pieces of `piece_payload` (a part of a whole
    packet) that cost `piece_cost` of link time per byte.
    """
    backlog = 1.0
    for link in range(link_count):
        values[LIMIT, link] = values[CAPACITY, link]
        backlog = max(backlog, values[CAPACITY, link])
    for rounds in range(_MOST_ROUNDS):
        for link in range(link_count):
            if marks[USERS, link] > 0:
                _push_forward(link, backlog, piece_payload, piece_cost, users, values, marks, flows)
        change = 0.0
        for link in range(link_count - 1, -1, -1):
            if marks[USERS, link] == 0:
                continue
            step = _pushed_back(link, users, values, marks, flows) - values[LIMIT, link]
            if rounds >= _UNDAMPED_ROUNDS:
                step *= 0.5
            values[LIMIT, link] += step
            change = max(change, abs(step))
        if change <= _SETTLED:
            break
    for link in range(link_count):
        for k in range(marks[USERS, link]):
            if users[NEXT, link, k] < 0:
                values[RHO, users[MEMBER, link, k]] = flows[RATE, link, k]
