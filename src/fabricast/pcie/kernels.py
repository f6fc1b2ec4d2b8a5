"""Compiled kernels of the PCIe study: congestion factors and the event loop around them.

All compiled code of the model stands in this file (see `fabricast.compilation`).
The rule is studied in Martinasso et al., SC16; sections below name its steps A-D.
Kernels take numpy arrays and know nothing of files, frames or topologies.
"""

from __future__ import annotations

import numpy as np

from fabricast.compilation import njit

__all__ = [
    "BACK_PRESSURE",
    "BUSIEST_LINK",
    "CONGESTION_FACTOR",
    "MAX_MIN",
    "NO_CONTENTION",
    "canonical_masks",
    "evaluate_graphs",
]

# Methods, and the positions of the switches in the option vector.
CONGESTION_FACTOR, NO_CONTENTION, BUSIEST_LINK, MAX_MIN, BACK_PRESSURE = range(5)
(
    UPSTREAM_ROUND_ROBIN,
    SOLO_CROSSING_PENALTY,
    COUPLING_MINIMUM,
    GROUP_DEMAND_MAXIMUM,
    GROUP_SPLIT_EQUAL,
    CROSSING_BONUS_LITERAL,
    ALL_CROSSING_PENALISED,
    ROOT_COMPLEX_IGNORED,
    NOT_WORK_CONSERVING,
    HEAD_OF_LINE,
) = range(10)
# Values of HEAD_OF_LINE.
FREEZE, TWO_ROUNDS, OFF = range(3)
OPTION_COUNT = 10

_TINY = 1e-12

# All working memory of one thread stands in two arrays, so that the small functions below are
# passed few arrays: numba counts references to every array argument of every call, atomically.
# Rows of `values` (float64): by communication, by group, by link.
RHO, DEMAND_UP, FROZEN, WORST, LOWEST, REMAINING, DEMAND, FIXED, SHARE, CAPACITY, RESIDUAL, LIMIT = range(12)
# Rows of `marks` (int64): by communication, by group, by link.
(
    ACTIVE,
    PAIR,
    STATE,
    CROSSING,
    COMPONENT,
    IS_FROZEN,
    GROUP_OF,
    PORT,
    CROSSES,
    CHOSEN,
    BUSY_UP,
    BUSY_DOWN,
    USERS,
    UNFROZEN,
    GROUPS,
    FRESH,
) = range(16)
# Planes of `users`: which communications use a link, by which input port each enters it and where
# it stands among the users of that port, where it goes next, whether it comes in pieces, its group.
MEMBER, INPUT, PLACE, NEXT, IN_PIECES, GROUP = range(6)
# Planes of `flows`: the rate of each user behind the link; demand, payload and cost of a packet, by group.
RATE, GROUP_DEMAND, GROUP_PAYLOAD, GROUP_COST = range(4)


@njit(cache=True, error_model="numpy")
def _fill(values, marks, spare, count):
    """Raise SHARE towards DEMAND for the chosen groups in equal steps; return what is left."""
    for _ in range(count):
        if spare <= _TINY:
            break
        needy = 0
        step = np.inf
        for g in range(count):
            if marks[CHOSEN, g] and values[DEMAND, g] - values[SHARE, g] > _TINY:
                needy += 1
                step = min(step, values[DEMAND, g] - values[SHARE, g])
        if needy == 0:
            break
        step = min(step, spare / needy)
        for g in range(count):
            if marks[CHOSEN, g] and values[DEMAND, g] - values[SHARE, g] > _TINY:
                values[SHARE, g] += step
        spare -= step * needy
    return spare


@njit(cache=True, error_model="numpy")
def _arbitrate(values, marks, count, capacity, tau, options):
    """Share a saturated downstream port among groups (step C)."""
    crossing = 0
    for g in range(count):
        if marks[CROSSES, g]:
            crossing += 1
    conserving = options[NOT_WORK_CONSERVING] == 0
    spare = capacity
    if crossing == 0 or (crossing == count and options[ALL_CROSSING_PENALISED] == 0):
        for g in range(count):
            values[SHARE, g] = 0.0 if conserving else min(values[DEMAND, g], capacity / count)
            marks[CHOSEN, g] = 1
        if conserving:
            _fill(values, marks, spare, count)
    else:
        fair = capacity / count
        bonus = tau * capacity
        if options[CROSSING_BONUS_LITERAL] == 0 and crossing < count:
            bonus = bonus * crossing / (count - crossing)
        for g in range(count):
            if marks[CROSSES, g]:
                values[SHARE, g] = min(max(fair - tau * capacity, 0.0), values[DEMAND, g])
            else:
                values[SHARE, g] = min(fair + bonus, values[DEMAND, g])
            spare -= values[SHARE, g]
            marks[CHOSEN, g] = 1 - marks[CROSSES, g]
        if conserving and crossing < count:
            spare = _fill(values, marks, spare, count)
            for g in range(count):
                marks[CHOSEN, g] = marks[CROSSES, g]
            _fill(values, marks, spare, count)
    # A group keeps at least what is already frozen; the others share the rest.
    pinned_any = False
    for g in range(count):
        pinned = values[FIXED, g] > values[SHARE, g] + _TINY
        marks[CHOSEN, g] = pinned
        pinned_any = pinned_any or pinned
    while pinned_any:
        rest = capacity
        for g in range(count):
            if marks[CHOSEN, g]:
                values[SHARE, g] = values[FIXED, g]
                rest -= values[FIXED, g]
            else:
                values[SHARE, g] = 0.0
        for g in range(count):
            marks[CHOSEN, g] = 1 - marks[CHOSEN, g]
        _fill(values, marks, max(rest, 0.0), count)
        pinned_any = False
        for g in range(count):
            late = marks[CHOSEN, g] == 1 and values[FIXED, g] > values[SHARE, g] + _TINY
            pinned_any = pinned_any or late
            marks[CHOSEN, g] = marks[CHOSEN, g] == 0 or late


@njit(cache=True, error_model="numpy")
def _group_members(link, users, values, marks, rate, demand_maximum):
    """Group the communications on a link by input port; return how many groups there are."""
    count = 0
    for k in range(marks[USERS, link]):
        c = users[MEMBER, link, k]
        entry = users[INPUT, link, k]
        g = count
        if entry >= 0:
            for other in range(count):
                if marks[PORT, other] == entry:
                    g = other
                    break
        if g == count:
            marks[PORT, g] = entry
            values[DEMAND, g] = 0.0
            values[FIXED, g] = 0.0
            marks[CROSSES, g] = 0
            count += 1
        marks[GROUP_OF, k] = g
        if demand_maximum:
            values[DEMAND, g] = max(values[DEMAND, g], values[rate, c])
        else:
            values[DEMAND, g] += values[rate, c]
        if marks[IS_FROZEN, c]:
            values[FIXED, g] += values[FROZEN, c]
        marks[CROSSES, g] |= marks[CROSSING, c]
    return count


@njit(cache=True, error_model="numpy")
def _split_equally(link, users, values, marks, group, budget):
    """Give each member of a group at most an equal part of its budget, work-conserving."""
    level = 0.0
    left = budget
    while left > _TINY:
        needy = 0
        step = np.inf
        for k in range(marks[USERS, link]):
            over = values[RHO, users[MEMBER, link, k]] - level
            if marks[GROUP_OF, k] == group and over > _TINY:
                needy += 1
                step = min(step, over)
        if needy == 0:
            break
        step = min(step, left / needy)
        level += step
        left -= step * needy
    for k in range(marks[USERS, link]):
        if marks[GROUP_OF, k] == group:
            c = users[MEMBER, link, k]
            values[RHO, c] = min(values[RHO, c], level)


@njit(cache=True, error_model="numpy")
def _load(link, users, values, marks, rate):
    """Sum of the rates on a link."""
    total = 0.0
    for k in range(marks[USERS, link]):
        total += values[rate, users[MEMBER, link, k]]
    return total


@njit(cache=True, error_model="numpy")
def _sweep_down(down, users, values, marks, tau, options):
    """Arbitrate all downstream ports, shallowest first (step C); return whether a rate changed."""
    changed = False
    demand_maximum = options[GROUP_DEMAND_MAXIMUM] != 0
    for position in range(down):
        link = marks[BUSY_DOWN, position]
        capacity = values[CAPACITY, link]
        # Most ports are not saturated: see that before any grouping.
        if _load(link, users, values, marks, RHO) <= capacity + _TINY:
            continue
        count = _group_members(link, users, values, marks, RHO, demand_maximum)
        if demand_maximum:
            total = 0.0
            for g in range(count):
                total += values[DEMAND, g]
            if total <= capacity + _TINY:
                continue
        _arbitrate(values, marks, count, capacity, tau, options)
        for g in range(count):
            demand = values[DEMAND, g]
            share = values[SHARE, g]
            fixed = values[FIXED, g]
            if demand - share <= _TINY:
                continue
            changed = True
            if options[GROUP_SPLIT_EQUAL] != 0 and fixed == 0.0:
                _split_equally(link, users, values, marks, g, share)
                continue
            scale = (share - fixed) / (demand - fixed) if demand > fixed else 1.0
            scale = min(1.0, max(0.0, scale))
            for k in range(marks[USERS, link]):
                c = users[MEMBER, link, k]
                if marks[GROUP_OF, k] == g and not marks[IS_FROZEN, c]:
                    values[RHO, c] *= scale
    return changed


@njit(cache=True, error_model="numpy")
def _root(marks, c):
    while marks[COMPONENT, c] != c:
        c = marks[COMPONENT, c]
    return c


@njit(cache=True, error_model="numpy")
def _sweep_up(up, users, values, marks, options):
    """Share saturated upstream ports, deepest first, and couple who shares one (step B)."""
    for position in range(up):
        link = marks[BUSY_UP, position]
        capacity = values[CAPACITY, link]
        total = _load(link, users, values, marks, DEMAND_UP)
        if total <= capacity + _TINY:
            continue
        if options[UPSTREAM_ROUND_ROBIN] == 0:
            for k in range(marks[USERS, link]):
                values[DEMAND_UP, users[MEMBER, link, k]] *= capacity / total
        else:
            count = _group_members(link, users, values, marks, DEMAND_UP, False)
            for g in range(count):
                values[SHARE, g] = 0.0
                marks[CHOSEN, g] = 1
            _fill(values, marks, capacity, count)
            for k in range(marks[USERS, link]):
                g = marks[GROUP_OF, k]
                values[DEMAND_UP, users[MEMBER, link, k]] *= values[SHARE, g] / values[DEMAND, g]
        first = _root(marks, users[MEMBER, link, 0])
        for k in range(1, marks[USERS, link]):
            other = _root(marks, users[MEMBER, link, k])
            if other != first:
                marks[COMPONENT, max(first, other)] = min(first, other)
                first = min(first, other)


@njit(cache=True, error_model="numpy")
def _hold_back_in_rounds(active_count, down, users, values, marks, tau, options):
    """Head-of-line coupling without freezing: none at all, or one repetition with capped demands."""
    rounds = 2 if options[HEAD_OF_LINE] == TWO_ROUNDS else 1
    for _ in range(rounds):
        for a in range(active_count):
            c = marks[ACTIVE, a]
            values[RHO, c] = values[DEMAND_UP, c]
        _sweep_down(down, users, values, marks, tau, options)
        if options[HEAD_OF_LINE] == OFF:
            return
        # Cap the members of a component at its slowest member, then sweep again.
        for a in range(active_count):
            c = marks[ACTIVE, a]
            values[WORST, c] = 1.0
            values[LOWEST, c] = 0.0
        for a in range(active_count):
            c = marks[ACTIVE, a]
            component = marks[COMPONENT, c]
            values[LOWEST, component] += 1.0
            if values[DEMAND_UP, c] > 0.0:
                values[WORST, component] = min(values[WORST, component], values[RHO, c] / values[DEMAND_UP, c])
        for a in range(active_count):
            c = marks[ACTIVE, a]
            component = marks[COMPONENT, c]
            if values[LOWEST, component] > 1.0:
                values[DEMAND_UP, c] *= values[WORST, component]
                values[RHO, c] = values[DEMAND_UP, c]


@njit(cache=True, error_model="numpy")
def _congestion_factors(active_count, up, down, users, values, marks, tau, options):
    """Congestion factors of one phase (steps A-D)."""
    for a in range(active_count):
        c = marks[ACTIVE, a]
        penalised = options[SOLO_CROSSING_PENALTY] != 0 and marks[CROSSING, c] != 0
        # Sources send as fast as their own link: `_find_users` has set the demand to its capacity.
        if penalised:
            values[DEMAND_UP, c] *= 1.0 - tau
        values[FROZEN, c] = 0.0
        marks[COMPONENT, c] = c
        marks[IS_FROZEN, c] = 0
    _sweep_up(up, users, values, marks, options)
    for a in range(active_count):
        c = marks[ACTIVE, a]
        marks[COMPONENT, c] = _root(marks, c)
        values[RHO, c] = values[DEMAND_UP, c]
    if options[HEAD_OF_LINE] != FREEZE:
        _hold_back_in_rounds(active_count, down, users, values, marks, tau, options)
        return

    left = active_count
    while left > 0:
        for a in range(active_count):
            c = marks[ACTIVE, a]
            values[RHO, c] = values[FROZEN, c] if marks[IS_FROZEN, c] else values[DEMAND_UP, c]
        changed = _sweep_down(down, users, values, marks, tau, options)
        if not changed and options[COUPLING_MINIMUM] == 0:
            # Nobody is held back further: all factors are final.
            return
        slowest = np.inf
        for a in range(active_count):
            c = marks[ACTIVE, a]
            values[WORST, c] = np.inf
            values[LOWEST, c] = np.inf
        for a in range(active_count):
            c = marks[ACTIVE, a]
            if not marks[IS_FROZEN, c]:
                rho = values[RHO, c]
                component = marks[COMPONENT, c]
                ratio = rho / values[DEMAND_UP, c] if values[DEMAND_UP, c] > 0.0 else 0.0
                values[WORST, component] = min(values[WORST, component], ratio)
                values[LOWEST, component] = min(values[LOWEST, component], rho)
                slowest = min(slowest, rho)
        limit = slowest * (1.0 + 1e-9)
        for a in range(active_count):
            c = marks[ACTIVE, a]
            component = marks[COMPONENT, c]
            if not marks[IS_FROZEN, c] and values[LOWEST, component] <= limit:
                if options[COUPLING_MINIMUM] != 0:
                    values[FROZEN, c] = min(values[LOWEST, component], values[DEMAND_UP, c])
                else:
                    values[FROZEN, c] = values[DEMAND_UP, c] * values[WORST, component]
                marks[IS_FROZEN, c] = 1
                values[RHO, c] = values[FROZEN, c]
                left -= 1


@njit(cache=True, error_model="numpy")
def _max_min(active_count, link_count, users, values, marks):
    """Per-flow max-min fair rates by progressive filling."""
    for link in range(link_count):
        values[RESIDUAL, link] = values[CAPACITY, link]
        marks[UNFROZEN, link] = marks[USERS, link]
    for a in range(active_count):
        marks[IS_FROZEN, marks[ACTIVE, a]] = 0
    left = active_count
    while left > 0:
        level = np.inf
        for link in range(link_count):
            if marks[UNFROZEN, link] > 0:
                level = min(level, values[RESIDUAL, link] / marks[UNFROZEN, link])
        limit = level * (1.0 + 1e-12)
        for link in range(link_count):
            if marks[UNFROZEN, link] > 0 and values[RESIDUAL, link] / marks[UNFROZEN, link] <= limit:
                for k in range(marks[USERS, link]):
                    c = users[MEMBER, link, k]
                    if not marks[IS_FROZEN, c]:
                        marks[IS_FROZEN, c] = 1
                        values[RHO, c] = level
                        left -= 1
        for link in range(link_count):
            values[RESIDUAL, link] = values[CAPACITY, link]
            marks[UNFROZEN, link] = 0
            for k in range(marks[USERS, link]):
                c = users[MEMBER, link, k]
                if marks[IS_FROZEN, c]:
                    values[RESIDUAL, link] -= values[RHO, c]
                else:
                    marks[UNFROZEN, link] += 1


# Fixed-point rounds of the back-pressure model, and those before changes are halved.
_MOST_ROUNDS = 100
_UNDAMPED_ROUNDS = 10
_SETTLED = 1e-10


@njit(cache=True, error_model="numpy")
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
                if demand <= turns * payload * (1.0 + _TINY):
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


@njit(cache=True, error_model="numpy")
def _share_link(link, asking, values, marks, flows):
    """Share a link by turns within its capacity, and within its limit if that is tighter."""
    count = marks[GROUPS, link]
    total = _share_turns(link, count, asking, values[CAPACITY, link], True, values, marks, flows)
    if total > values[LIMIT, link]:
        _share_turns(link, count, asking, values[LIMIT, link], False, values, marks, flows)


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def _back_pressure(active_count, link_count, piece_payload, piece_cost, users, values, marks, flows):
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


@njit(cache=True, error_model="numpy")
def _link_shares(active_count, route_offset, route_link, values, marks, shared):
    """Smallest capacity on the route, divided by its users if `shared`."""
    for a in range(active_count):
        c = marks[ACTIVE, a]
        rho = np.inf
        for hop in range(route_offset[marks[PAIR, c]], route_offset[marks[PAIR, c] + 1]):
            link = route_link[hop]
            sharing = marks[USERS, link] if shared else 1
            rho = min(rho, values[CAPACITY, link] / sharing)
        values[RHO, c] = rho


@njit(cache=True, error_model="numpy")
def _find_users(
    active_count, link_count, upstream_links, route_offset, route_link, behind_root_complex, users, values, marks
):
    """List who uses each link, by which input port, and the links that may saturate."""
    for link in range(link_count):
        marks[USERS, link] = 0
    for a in range(active_count):
        c = marks[ACTIVE, a]
        previous = -1
        place = -1
        in_pieces = 0
        values[DEMAND_UP, c] = values[CAPACITY, route_link[route_offset[marks[PAIR, c]]]]
        for hop in range(route_offset[marks[PAIR, c]], route_offset[marks[PAIR, c] + 1]):
            link = route_link[hop]
            k = marks[USERS, link]
            if behind_root_complex[link]:
                in_pieces = 1
            users[MEMBER, link, k] = c
            users[INPUT, link, k] = previous
            users[PLACE, link, k] = place
            users[NEXT, link, k] = -1
            users[IN_PIECES, link, k] = in_pieces
            if previous >= 0:
                users[NEXT, previous, place] = link
            marks[USERS, link] = k + 1
            previous = link
            place = k
    up = 0
    down = 0
    for link in range(link_count):
        narrow = False
        if marks[USERS, link] == 1:
            # Who sends alone through a link slower than its own is held back there.
            first = route_link[route_offset[marks[PAIR, users[MEMBER, link, 0]]]]
            narrow = values[CAPACITY, link] < values[CAPACITY, first]
        if marks[USERS, link] > 1 or narrow:
            if link < upstream_links:
                marks[BUSY_UP, up] = link
                up += 1
            else:
                marks[BUSY_DOWN, down] = link
                down += 1
    return up, down


@njit(cache=True, error_model="numpy", nogil=True)
def evaluate_graphs(
    first_graph,
    last_graph,
    graph_offset,
    source,
    target,
    size_bytes,
    start_s,
    after,
    latency_s,
    first_phase_only,
    endpoints,
    route_offset,
    route_link,
    crossing_pair,
    capacity,
    leaves_root_complex,
    behind_root_complex,
    upstream_links,
    method,
    options,
    tau,
    piece_payload,
    piece_cost,
    bandwidth_bytes_per_s,
    end_s,
    initial_rho,
    phases,
):
    """Evaluate consecutive graphs; fills their part of `end_s`, `initial_rho` and `phases`.

    The event loop recomputes the factors whenever a communication starts or ends. A
    communication with a predecessor `after` in its graph (-1: none) starts `latency_s` later.
    Graphs are independent and the lock is released, so threads may each take a range.
    """
    widest = capacity.size
    for graph in range(first_graph, last_graph):
        widest = max(widest, graph_offset[graph + 1] - graph_offset[graph])
    link_count = capacity.size
    values = np.empty((12, widest), dtype=np.float64)
    marks = np.empty((16, widest), dtype=np.int64)
    users = np.empty((6, link_count, widest), dtype=np.int64)
    flows = np.empty((4 if method == BACK_PRESSURE else 0, link_count, widest), dtype=np.float64)
    for link in range(link_count):
        values[CAPACITY, link] = capacity[link]
        if method == CONGESTION_FACTOR and options[ROOT_COMPLEX_IGNORED] != 0 and leaves_root_complex[link]:
            values[CAPACITY, link] = np.inf
    for graph in range(first_graph, last_graph):
        first = graph_offset[graph]
        count = graph_offset[graph + 1] - first
        now = np.inf
        for c in range(count):
            pair = source[first + c] * endpoints + target[first + c]
            marks[PAIR, c] = pair
            marks[CROSSING, c] = crossing_pair[pair]
            marks[STATE, c] = 0
            values[REMAINING, c] = size_bytes[first + c]
            now = min(now, start_s[first + c])
        unfinished = count
        phase = 0
        while unfinished > 0:
            active_count = 0
            next_start = np.inf
            for c in range(count):
                if marks[STATE, c] == 0:
                    begin = start_s[first + c]
                    before = after[first + c]
                    if before >= 0:
                        begin = end_s[first + before] + latency_s if marks[STATE, before] == 2 else np.inf
                    if begin <= now:
                        marks[STATE, c] = 1
                        marks[FRESH, c] = 1
                    else:
                        next_start = min(next_start, begin)
                if marks[STATE, c] == 1:
                    marks[ACTIVE, active_count] = c
                    active_count += 1
            if active_count == 0:
                if next_start == np.inf:
                    # What is left waits for a communication that never ends.
                    for c in range(count):
                        if marks[STATE, c] == 0:
                            end_s[first + c] = np.inf
                            initial_rho[first + c] = 0.0
                    break
                now = next_start
                continue
            up, down = _find_users(
                active_count,
                link_count,
                upstream_links,
                route_offset,
                route_link,
                behind_root_complex,
                users,
                values,
                marks,
            )
            if method == CONGESTION_FACTOR:
                _congestion_factors(active_count, up, down, users, values, marks, tau, options)
            elif method == BACK_PRESSURE:
                _back_pressure(active_count, link_count, piece_payload, piece_cost, users, values, marks, flows)
            elif method == MAX_MIN:
                _max_min(active_count, link_count, users, values, marks)
            else:
                _link_shares(active_count, route_offset, route_link, values, marks, method == BUSIEST_LINK)
            step = next_start - now
            for a in range(active_count):
                c = marks[ACTIVE, a]
                rho = values[RHO, c]
                if marks[FRESH, c]:
                    marks[FRESH, c] = 0
                    initial_rho[first + c] = rho
                if rho > 0.0:
                    step = min(step, values[REMAINING, c] / (bandwidth_bytes_per_s * rho))
            phase += 1
            if first_phase_only:
                break
            if step == np.inf:
                # Only literal readings can starve a communication for ever.
                for a in range(active_count):
                    end_s[first + marks[ACTIVE, a]] = np.inf
                    marks[STATE, marks[ACTIVE, a]] = 2
                    unfinished -= 1
                continue
            now = next_start if step == next_start - now else now + step
            for a in range(active_count):
                c = marks[ACTIVE, a]
                values[REMAINING, c] -= bandwidth_bytes_per_s * values[RHO, c] * step
                if values[REMAINING, c] <= 1e-9 * size_bytes[first + c]:
                    end_s[first + c] = now
                    marks[STATE, c] = 2
                    unfinished -= 1
        phases[graph] = phase


@njit(cache=True, error_model="numpy")
def canonical_masks(masks, arc_images):
    """Return the smallest image of each arc set under all symmetries.

    `masks` is uint64 with one bit an arc, `arc_images[a, b]` the bit that symmetry `a`
    maps bit `b` to.
    """
    result = np.empty_like(masks)
    bits = np.empty(64, dtype=np.int64)
    one = np.uint64(1)
    for m in range(masks.size):
        mask = masks[m]
        count = 0
        bit = 0
        while mask:
            if mask & one:
                bits[count] = bit
                count += 1
            mask >>= one
            bit += 1
        best = masks[m]
        for a in range(arc_images.shape[0]):
            image = np.uint64(0)
            for b in range(count):
                image |= one << np.uint64(arc_images[a, bits[b]])
            if image < best:
                best = image
        result[m] = best
    return result
