"""Compiled kernels of the PCIe study: congestion factors and the event loop around them.

All compiled code of the model stands in this file (see `fabricast.compilation`).
The rule is studied in Martinasso et al., SC16; sections below name its steps A-D.
Kernels take numpy arrays and know nothing of files, frames or topologies.
"""

from __future__ import annotations

import numpy as np

from fabricast.compilation import njit

__all__ = [
    "BUSIEST_LINK",
    "CONGESTION_FACTOR",
    "MAX_MIN",
    "NO_CONTENTION",
    "canonical_masks",
    "evaluate_graphs",
]

# Methods, and the positions of the switches in the option vector.
CONGESTION_FACTOR, NO_CONTENTION, BUSIEST_LINK, MAX_MIN = range(4)
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


@njit(cache=True, error_model="numpy", inline="always")
def _fill(demand, floor, chosen, spare, count):
    """Raise `floor` towards `demand` for the chosen groups in equal steps; return what is left."""
    for _ in range(count):
        if spare <= _TINY:
            break
        needy = 0
        step = np.inf
        for g in range(count):
            if chosen[g] and demand[g] - floor[g] > _TINY:
                needy += 1
                step = min(step, demand[g] - floor[g])
        if needy == 0:
            break
        step = min(step, spare / needy)
        for g in range(count):
            if chosen[g] and demand[g] - floor[g] > _TINY:
                floor[g] += step
        spare -= step * needy
    return spare


@njit(cache=True, error_model="numpy")
def _arbitrate(demand, frozen, crosses, count, capacity, tau, options, share, chosen):
    """Share a saturated downstream port among groups (step C)."""
    crossing = 0
    for g in range(count):
        if crosses[g]:
            crossing += 1
    conserving = options[NOT_WORK_CONSERVING] == 0
    spare = capacity
    if crossing == 0 or (crossing == count and options[ALL_CROSSING_PENALISED] == 0):
        for g in range(count):
            share[g] = 0.0 if conserving else min(demand[g], capacity / count)
            chosen[g] = True
        if conserving:
            _fill(demand, share, chosen, spare, count)
    else:
        fair = capacity / count
        bonus = tau * capacity
        if options[CROSSING_BONUS_LITERAL] == 0 and crossing < count:
            bonus = bonus * crossing / (count - crossing)
        for g in range(count):
            if crosses[g]:
                share[g] = min(max(fair - tau * capacity, 0.0), demand[g])
            else:
                share[g] = min(fair + bonus, demand[g])
            spare -= share[g]
            chosen[g] = not crosses[g]
        if conserving and crossing < count:
            spare = _fill(demand, share, chosen, spare, count)
            for g in range(count):
                chosen[g] = crosses[g]
            _fill(demand, share, chosen, spare, count)
    # A group keeps at least what is already frozen; the others share the rest.
    pinned_any = False
    for g in range(count):
        chosen[g] = frozen[g] > share[g] + _TINY
        pinned_any = pinned_any or chosen[g]
    while pinned_any:
        rest = capacity
        for g in range(count):
            if chosen[g]:
                share[g] = frozen[g]
                rest -= frozen[g]
            else:
                share[g] = 0.0
        for g in range(count):
            chosen[g] = not chosen[g]
        _fill(demand, share, chosen, max(rest, 0.0), count)
        pinned_any = False
        for g in range(count):
            late = chosen[g] and frozen[g] > share[g] + _TINY
            pinned_any = pinned_any or late
            chosen[g] = (not chosen[g]) or late


@njit(cache=True, error_model="numpy")
def _group_members(
    link,
    members,
    inputs,
    member_count,
    rate,
    frozen,
    is_frozen,
    crossing,
    group_of,
    port,
    demand,
    fixed,
    crosses,
    demand_maximum,
):
    """Group the communications on a link by input port; return how many groups there are."""
    count = 0
    for k in range(member_count[link]):
        c = members[link, k]
        g = count
        if inputs[link, k] >= 0:
            for other in range(count):
                if port[other] == inputs[link, k]:
                    g = other
                    break
        if g == count:
            port[g] = inputs[link, k]
            demand[g] = 0.0
            fixed[g] = 0.0
            crosses[g] = False
            count += 1
        group_of[k] = g
        if demand_maximum:
            demand[g] = max(demand[g], rate[c])
        else:
            demand[g] += rate[c]
        if is_frozen[c]:
            fixed[g] += frozen[c]
        crosses[g] = crosses[g] or crossing[c]
    return count


@njit(cache=True, error_model="numpy")
def _split_equally(link, members, member_count, rate, group_of, group, budget):
    """Give each member of a group at most an equal part of its budget, work-conserving."""
    level = 0.0
    left = budget
    while left > _TINY:
        needy = 0
        step = np.inf
        for k in range(member_count[link]):
            if group_of[k] == group and rate[members[link, k]] - level > _TINY:
                needy += 1
                step = min(step, rate[members[link, k]] - level)
        if needy == 0:
            break
        step = min(step, left / needy)
        level += step
        left -= step * needy
    for k in range(member_count[link]):
        if group_of[k] == group:
            rate[members[link, k]] = min(rate[members[link, k]], level)


@njit(cache=True, error_model="numpy")
def _sweep_down(
    busy_down,
    busy_down_count,
    members,
    inputs,
    member_count,
    capacity,
    leaves_root_complex,
    crossing,
    tau,
    options,
    rate,
    frozen,
    is_frozen,
    group_of,
    port,
    demand,
    fixed,
    crosses,
    share,
    chosen,
):
    """Arbitrate all downstream ports, shallowest first (step C); return whether a rate changed."""
    changed = False
    demand_maximum = options[GROUP_DEMAND_MAXIMUM] != 0
    for position in range(busy_down_count):
        link = busy_down[position]
        if options[ROOT_COMPLEX_IGNORED] != 0 and leaves_root_complex[link]:
            continue
        # Most ports are not saturated: see that before any grouping.
        total = 0.0
        for k in range(member_count[link]):
            total += rate[members[link, k]]
        if total <= capacity[link] + _TINY:
            continue
        count = _group_members(
            link,
            members,
            inputs,
            member_count,
            rate,
            frozen,
            is_frozen,
            crossing,
            group_of,
            port,
            demand,
            fixed,
            crosses,
            demand_maximum,
        )
        if demand_maximum:
            total = 0.0
            for g in range(count):
                total += demand[g]
            if total <= capacity[link] + _TINY:
                continue
        _arbitrate(demand, fixed, crosses, count, capacity[link], tau, options, share, chosen)
        for g in range(count):
            if demand[g] - share[g] <= _TINY:
                continue
            changed = True
            if options[GROUP_SPLIT_EQUAL] != 0 and fixed[g] == 0.0:
                _split_equally(link, members, member_count, rate, group_of, g, share[g])
                continue
            scale = (share[g] - fixed[g]) / (demand[g] - fixed[g]) if demand[g] > fixed[g] else 1.0
            scale = min(1.0, max(0.0, scale))
            for k in range(member_count[link]):
                c = members[link, k]
                if group_of[k] == g and not is_frozen[c]:
                    rate[c] *= scale
    return changed


@njit(cache=True, error_model="numpy")
def _root(component, c):
    while component[c] != c:
        c = component[c]
    return c


@njit(cache=True, error_model="numpy")
def _sweep_up(
    busy_up,
    busy_up_count,
    members,
    inputs,
    member_count,
    capacity,
    options,
    rate,
    component,
    frozen,
    is_frozen,
    crossing,
    group_of,
    port,
    demand,
    fixed,
    crosses,
    share,
    chosen,
):
    """Share saturated upstream ports, deepest first, and couple who shares one (step B)."""
    for position in range(busy_up_count):
        link = busy_up[position]
        total = 0.0
        for k in range(member_count[link]):
            total += rate[members[link, k]]
        if total <= capacity[link] + _TINY:
            continue
        if options[UPSTREAM_ROUND_ROBIN] == 0:
            scale = capacity[link] / total
            for k in range(member_count[link]):
                rate[members[link, k]] *= scale
        else:
            count = _group_members(
                link,
                members,
                inputs,
                member_count,
                rate,
                frozen,
                is_frozen,
                crossing,
                group_of,
                port,
                demand,
                fixed,
                crosses,
                False,
            )
            for g in range(count):
                share[g] = 0.0
                chosen[g] = True
            _fill(demand, share, chosen, capacity[link], count)
            for k in range(member_count[link]):
                g = group_of[k]
                rate[members[link, k]] *= share[g] / demand[g]
        first = _root(component, members[link, 0])
        for k in range(1, member_count[link]):
            other = _root(component, members[link, k])
            if other != first:
                component[max(first, other)] = min(first, other)
                first = min(first, other)


@njit(cache=True, error_model="numpy")
def _congestion_factors(
    active,
    active_count,
    crossing,
    tau,
    options,
    capacity,
    leaves_root_complex,
    members,
    inputs,
    member_count,
    busy_up,
    busy_up_count,
    busy_down,
    busy_down_count,
    rho,
    demand_up,
    component,
    frozen,
    is_frozen,
    worst,
    lowest,
    group_of,
    port,
    demand,
    fixed,
    crosses,
    share,
    chosen,
):
    """Congestion factors of one phase (steps A-D)."""
    for a in range(active_count):
        c = active[a]
        penalised = options[SOLO_CROSSING_PENALTY] != 0 and crossing[c]
        demand_up[c] = 1.0 - tau if penalised else 1.0
        component[c] = c
        is_frozen[c] = False
        frozen[c] = 0.0
    _sweep_up(
        busy_up,
        busy_up_count,
        members,
        inputs,
        member_count,
        capacity,
        options,
        demand_up,
        component,
        frozen,
        is_frozen,
        crossing,
        group_of,
        port,
        demand,
        fixed,
        crosses,
        share,
        chosen,
    )
    for a in range(active_count):
        c = active[a]
        component[c] = _root(component, c)
        rho[c] = demand_up[c]

    if options[HEAD_OF_LINE] != FREEZE:
        rounds = 2 if options[HEAD_OF_LINE] == TWO_ROUNDS else 1
        for _ in range(rounds):
            for a in range(active_count):
                rho[active[a]] = demand_up[active[a]]
            _sweep_down(
                busy_down,
                busy_down_count,
                members,
                inputs,
                member_count,
                capacity,
                leaves_root_complex,
                crossing,
                tau,
                options,
                rho,
                frozen,
                is_frozen,
                group_of,
                port,
                demand,
                fixed,
                crosses,
                share,
                chosen,
            )
            if options[HEAD_OF_LINE] == OFF:
                return
            # Cap the members of a component at its slowest member, then sweep again.
            for a in range(active_count):
                worst[active[a]] = 1.0
                lowest[active[a]] = 0.0
            for a in range(active_count):
                c = active[a]
                lowest[component[c]] += 1.0
                if demand_up[c] > 0.0:
                    worst[component[c]] = min(worst[component[c]], rho[c] / demand_up[c])
            for a in range(active_count):
                c = active[a]
                if lowest[component[c]] > 1.0:
                    demand_up[c] *= worst[component[c]]
                    rho[c] = demand_up[c]
        return

    left = active_count
    while left > 0:
        for a in range(active_count):
            c = active[a]
            rho[c] = frozen[c] if is_frozen[c] else demand_up[c]
        changed = _sweep_down(
            busy_down,
            busy_down_count,
            members,
            inputs,
            member_count,
            capacity,
            leaves_root_complex,
            crossing,
            tau,
            options,
            rho,
            frozen,
            is_frozen,
            group_of,
            port,
            demand,
            fixed,
            crosses,
            share,
            chosen,
        )
        if not changed and options[COUPLING_MINIMUM] == 0:
            # Nobody is held back further: all factors are final.
            return
        slowest = np.inf
        for a in range(active_count):
            c = active[a]
            worst[c] = np.inf
            lowest[c] = np.inf
        for a in range(active_count):
            c = active[a]
            if not is_frozen[c]:
                ratio = rho[c] / demand_up[c] if demand_up[c] > 0.0 else 0.0
                worst[component[c]] = min(worst[component[c]], ratio)
                lowest[component[c]] = min(lowest[component[c]], rho[c])
                slowest = min(slowest, rho[c])
        limit = slowest * (1.0 + 1e-9)
        for a in range(active_count):
            c = active[a]
            if not is_frozen[c] and lowest[component[c]] <= limit:
                if options[COUPLING_MINIMUM] != 0:
                    frozen[c] = min(lowest[component[c]], demand_up[c])
                else:
                    frozen[c] = demand_up[c] * worst[component[c]]
                is_frozen[c] = True
                rho[c] = frozen[c]
                left -= 1


@njit(cache=True, error_model="numpy")
def _max_min(active, active_count, members, member_count, capacity, link_count, rho, is_frozen, residual, unfrozen):
    """Per-flow max-min fair rates by progressive filling."""
    for link in range(link_count):
        residual[link] = capacity[link]
        unfrozen[link] = member_count[link]
    for a in range(active_count):
        is_frozen[active[a]] = False
    left = active_count
    while left > 0:
        level = np.inf
        for link in range(link_count):
            if unfrozen[link] > 0:
                level = min(level, residual[link] / unfrozen[link])
        limit = level * (1.0 + 1e-12)
        for link in range(link_count):
            if unfrozen[link] > 0 and residual[link] / unfrozen[link] <= limit:
                for k in range(member_count[link]):
                    c = members[link, k]
                    if not is_frozen[c]:
                        is_frozen[c] = True
                        rho[c] = level
                        left -= 1
        for link in range(link_count):
            residual[link] = capacity[link]
            unfrozen[link] = 0
            for k in range(member_count[link]):
                c = members[link, k]
                if is_frozen[c]:
                    residual[link] -= rho[c]
                else:
                    unfrozen[link] += 1


@njit(cache=True, error_model="numpy")
def _link_shares(active, active_count, pair, route_offset, route_link, capacity, member_count, rho, shared):
    """Smallest capacity on the route, divided by its users if `shared`."""
    for a in range(active_count):
        c = active[a]
        rho[c] = np.inf
        for hop in range(route_offset[pair[c]], route_offset[pair[c] + 1]):
            link = route_link[hop]
            users = member_count[link] if shared else 1
            rho[c] = min(rho[c], capacity[link] / users)
        rho[c] = min(rho[c], 1.0)


@njit(cache=True, error_model="numpy")
def _find_members(
    active,
    active_count,
    pair,
    route_offset,
    route_link,
    capacity,
    upstream_links,
    members,
    inputs,
    member_count,
    busy_up,
    busy_down,
):
    """List who uses each link, by which input port, and the links that may saturate."""
    link_count = capacity.size
    for link in range(link_count):
        member_count[link] = 0
    for a in range(active_count):
        c = active[a]
        previous = -1
        for hop in range(route_offset[pair[c]], route_offset[pair[c] + 1]):
            link = route_link[hop]
            k = member_count[link]
            members[link, k] = c
            inputs[link, k] = previous
            member_count[link] = k + 1
            previous = link
    up = 0
    down = 0
    for link in range(link_count):
        if member_count[link] > 1 or (member_count[link] == 1 and capacity[link] < 1.0):
            if link < upstream_links:
                busy_up[up] = link
                up += 1
            else:
                busy_down[down] = link
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
    endpoints,
    route_offset,
    route_link,
    crossing_pair,
    capacity,
    leaves_root_complex,
    upstream_links,
    method,
    options,
    tau,
    bandwidth_bytes_per_s,
    end_s,
    initial_rho,
    phases,
):
    """Evaluate consecutive graphs; fills their part of `end_s`, `initial_rho` and `phases`.

    The event loop recomputes the factors whenever a communication starts or ends.
    Graphs are independent and the lock is released, so threads may each take a range.
    """
    widest = 0
    for graph in range(first_graph, last_graph):
        widest = max(widest, graph_offset[graph + 1] - graph_offset[graph])
    link_count = capacity.size
    active = np.empty(widest, dtype=np.int64)
    pair = np.empty(widest, dtype=np.int64)
    crossing = np.empty(widest, dtype=np.bool_)
    remaining = np.empty(widest, dtype=np.float64)
    state = np.empty(widest, dtype=np.int64)
    rho = np.empty(widest, dtype=np.float64)
    demand_up = np.empty(widest, dtype=np.float64)
    component = np.empty(widest, dtype=np.int64)
    frozen = np.empty(widest, dtype=np.float64)
    is_frozen = np.empty(widest, dtype=np.bool_)
    worst = np.empty(widest, dtype=np.float64)
    lowest = np.empty(widest, dtype=np.float64)
    group_of = np.empty(widest, dtype=np.int64)
    port = np.empty(widest, dtype=np.int64)
    demand = np.empty(widest, dtype=np.float64)
    fixed = np.empty(widest, dtype=np.float64)
    crosses = np.empty(widest, dtype=np.bool_)
    share = np.empty(widest, dtype=np.float64)
    chosen = np.empty(widest, dtype=np.bool_)
    members = np.empty((link_count, widest), dtype=np.int32)
    inputs = np.empty((link_count, widest), dtype=np.int32)
    member_count = np.empty(link_count, dtype=np.int64)
    busy_up = np.empty(link_count, dtype=np.int64)
    busy_down = np.empty(link_count, dtype=np.int64)
    residual = np.empty(link_count, dtype=np.float64)
    unfrozen = np.empty(link_count, dtype=np.int64)
    for graph in range(first_graph, last_graph):
        first = graph_offset[graph]
        count = graph_offset[graph + 1] - first
        now = np.inf
        for c in range(count):
            pair[c] = source[first + c] * endpoints + target[first + c]
            crossing[c] = crossing_pair[pair[c]]
            remaining[c] = size_bytes[first + c]
            state[c] = 0
            now = min(now, start_s[first + c])
        unfinished = count
        phase = 0
        while unfinished > 0:
            active_count = 0
            next_start = np.inf
            for c in range(count):
                if state[c] == 0 and start_s[first + c] <= now:
                    state[c] = 1
                if state[c] == 1:
                    active[active_count] = c
                    active_count += 1
                elif state[c] == 0:
                    next_start = min(next_start, start_s[first + c])
            if active_count == 0:
                now = next_start
                continue
            up, down = _find_members(
                active,
                active_count,
                pair,
                route_offset,
                route_link,
                capacity,
                upstream_links,
                members,
                inputs,
                member_count,
                busy_up,
                busy_down,
            )
            if method == CONGESTION_FACTOR:
                _congestion_factors(
                    active,
                    active_count,
                    crossing,
                    tau,
                    options,
                    capacity,
                    leaves_root_complex,
                    members,
                    inputs,
                    member_count,
                    busy_up,
                    up,
                    busy_down,
                    down,
                    rho,
                    demand_up,
                    component,
                    frozen,
                    is_frozen,
                    worst,
                    lowest,
                    group_of,
                    port,
                    demand,
                    fixed,
                    crosses,
                    share,
                    chosen,
                )
            elif method == MAX_MIN:
                _max_min(
                    active,
                    active_count,
                    members,
                    member_count,
                    capacity,
                    link_count,
                    rho,
                    is_frozen,
                    residual,
                    unfrozen,
                )
            else:
                _link_shares(
                    active,
                    active_count,
                    pair,
                    route_offset,
                    route_link,
                    capacity,
                    member_count,
                    rho,
                    method == BUSIEST_LINK,
                )
            step = next_start - now
            for a in range(active_count):
                c = active[a]
                if phase == 0 or start_s[first + c] == now:
                    initial_rho[first + c] = rho[c]
                if rho[c] > 0.0:
                    step = min(step, remaining[c] / (bandwidth_bytes_per_s * rho[c]))
            phase += 1
            if step == np.inf:
                # Only literal readings can starve a communication for ever.
                for a in range(active_count):
                    end_s[first + active[a]] = np.inf
                    state[active[a]] = 2
                    unfinished -= 1
                continue
            now = next_start if step == next_start - now else now + step
            for a in range(active_count):
                c = active[a]
                remaining[c] -= bandwidth_bytes_per_s * rho[c] * step
                if remaining[c] <= 1e-9 * size_bytes[first + c]:
                    end_s[first + c] = now
                    state[c] = 2
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
