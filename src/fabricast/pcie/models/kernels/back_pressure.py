"""Rates of a phase under back-pressure: every full buffer drains as fast as it fills.

Fixed point of two sweeps. The forward sweep arbitrates each link among the packets that arrive at it, round robin by
input port. The backward sweep limits each link to the rate at which its next ports accept packets: a port that accepts
less fills the buffer before it and throttles the link that feeds it, for all copies on that link (head-of-line
blocking). The sweeps alternate until no limit changes.
"""

from __future__ import annotations

from fabricast.pcie.models.kernels.working_memory import TINY
from fabricast.runtime.compilation import allocation_free

# Fixed-point rounds of the back-pressure model, and those before changes are halved.
_MOST_ROUNDS = 100
_UNDAMPED_ROUNDS = 10
_SETTLED = 1e-10


@allocation_free(forceinline=True)
def _share_round_robin(link, count, asking, capacity, by_cost, memory):
    """Share a link: backlogged groups send equally many packets, other groups their demand.

    Fill the shares of the groups and return their sum. The group `asking`, if any, has unlimited demand. The unit of
    the capacity is cost, or payload if not `by_cost`.
    """
    for g in range(count):
        memory.groups.share[g] = -1.0
    left = capacity
    open_groups = count
    while open_groups > 0:
        weight = 0.0
        for g in range(count):
            if memory.groups.share[g] < 0.0:
                weight += memory.flows.cost[link, g] if by_cost else memory.flows.payload[link, g]
        turns = max(left, 0.0) / weight
        served = 0
        for g in range(count):
            if memory.groups.share[g] < 0.0 and g != asking:
                demand = memory.flows.demand[link, g]
                payload = memory.flows.payload[link, g]
                if demand <= turns * payload * (1.0 + TINY):
                    memory.groups.share[g] = demand
                    left -= demand / payload * memory.flows.cost[link, g] if by_cost else demand
                    served += 1
        if served == 0:
            for g in range(count):
                if memory.groups.share[g] < 0.0:
                    memory.groups.share[g] = turns * memory.flows.payload[link, g]
            break
        open_groups -= served
    total = 0.0
    for g in range(count):
        total += memory.groups.share[g]
    return total


@allocation_free(forceinline=True)
def _share_link(link, asking, memory):
    """Share a link round robin within its capacity, and within its limit if the limit is lower."""
    count = memory.links.group_count[link]
    total = _share_round_robin(link, count, asking, memory.links.capacity[link], True, memory)
    if total > memory.links.limit[link]:
        _share_round_robin(link, count, asking, memory.links.limit[link], False, memory)


@allocation_free(forceinline=True)
def _push_single(link, backlog, piece_payload, piece_cost, memory):
    """Push the packets of the only user of a link forward: `_push_forward` without arbitration."""
    entry = memory.users.entry[link, 0]
    rate = backlog if entry < 0 else memory.flows.rate[entry, memory.users.place[link, 0]]
    pieces = memory.users.in_pieces[link, 0] == 1
    packets = rate / piece_payload if pieces else rate
    payload = rate / packets
    cost = (rate * piece_cost if pieces else rate) / packets
    # In the order of operations of `_share_round_robin`, so that the last digits are equal.
    most = max(memory.links.capacity[link], 0.0) / cost * payload
    share = rate if rate <= most * (1.0 + TINY) else most
    if share > memory.links.limit[link]:
        most = max(memory.links.limit[link], 0.0) / payload * payload
        share = rate if rate <= most * (1.0 + TINY) else most
    memory.groups.port[0] = entry
    memory.users.group[link, 0] = 0
    memory.flows.demand[link, 0] = rate
    memory.flows.payload[link, 0] = payload
    memory.flows.cost[link, 0] = cost
    memory.flows.rate[link, 0] = rate * (share / rate)
    memory.links.group_count[link] = 1


@allocation_free(forceinline=True)
def _push_forward(link, backlog, piece_payload, piece_cost, memory):
    """Arbitrate a link among the packets that arrive at it; fill the rates behind it."""
    count = 0
    user_count = memory.links.user_count[link]
    for k in range(user_count):
        entry = memory.users.entry[link, k]
        rate = backlog if entry < 0 else memory.flows.rate[entry, memory.users.place[link, k]]
        g = count
        if entry >= 0:
            for other in range(count):
                if memory.groups.port[other] == entry:
                    g = other
                    break
        if g == count:
            memory.groups.port[g] = entry
            memory.flows.demand[link, g] = 0.0
            memory.flows.payload[link, g] = 0.0
            memory.flows.cost[link, g] = 0.0
            count += 1
        pieces = memory.users.in_pieces[link, k] == 1
        memory.flows.rate[link, k] = rate
        memory.users.group[link, k] = g
        memory.flows.demand[link, g] += rate
        memory.flows.payload[link, g] += rate / piece_payload if pieces else rate
        memory.flows.cost[link, g] += rate * piece_cost if pieces else rate
    for g in range(count):
        packets = memory.flows.payload[link, g]
        memory.flows.payload[link, g] = memory.flows.demand[link, g] / packets
        memory.flows.cost[link, g] /= packets
    memory.links.group_count[link] = count
    _share_link(link, -1, memory)
    for k in range(user_count):
        g = memory.users.group[link, k]
        memory.flows.rate[link, k] *= memory.groups.share[g] / memory.flows.demand[link, g]


@allocation_free(forceinline=True)
def _accepted_rate(link, memory):
    """Return the rate at which the outputs of a buffer accept packets in the mix that arrives."""
    total = 0.0
    for k in range(memory.links.user_count[link]):
        total += memory.flows.rate[link, k]
    limit = memory.links.capacity[link]
    for k in range(memory.links.user_count[link]):
        output = memory.users.next_link[link, k]
        known = output < 0
        for other in range(k):
            known = known or memory.users.next_link[link, other] == output
        if known:
            continue
        part = 0.0
        for other in range(k, memory.links.user_count[link]):
            if memory.users.next_link[link, other] == output:
                part += memory.flows.rate[link, other]
        group = 0
        for other in range(memory.links.user_count[output]):
            if memory.users.entry[output, other] == link:
                group = memory.users.group[output, other]
                break
        _share_link(output, group, memory)
        limit = min(limit, memory.groups.share[group] * total / part)
    return limit


@allocation_free(forceinline=True)
def back_pressure(active_count, link_count, piece_payload, piece_cost, memory):
    """Compute the rates of a phase under back-pressure.

    A switch port serves its full input buffers packet by packet in round-robin order, whatever the size of the packets:
    each input sends equally many packets. Behind the root complex packets are split into smaller packets of
    `piece_payload` (a fraction of a whole packet) that cost `piece_cost` of link time per byte.
    """
    backlog = 1.0
    for link in range(link_count):
        memory.links.limit[link] = memory.links.capacity[link]
        backlog = max(backlog, memory.links.capacity[link])
    for rounds in range(_MOST_ROUNDS):
        for link in range(link_count):
            if memory.links.user_count[link] == 1:
                _push_single(link, backlog, piece_payload, piece_cost, memory)
            elif memory.links.user_count[link] > 1:
                _push_forward(link, backlog, piece_payload, piece_cost, memory)
        change = 0.0
        for link in range(link_count - 1, -1, -1):
            if memory.links.user_count[link] == 0:
                continue
            step = _accepted_rate(link, memory) - memory.links.limit[link]
            if rounds >= _UNDAMPED_ROUNDS:
                step *= 0.5
            memory.links.limit[link] += step
            change = max(change, abs(step))
        if change <= _SETTLED:
            break
    for link in range(link_count):
        for k in range(memory.links.user_count[link]):
            if memory.users.next_link[link, k] < 0:
                memory.copies.rho[memory.users.member[link, k]] = memory.flows.rate[link, k]
