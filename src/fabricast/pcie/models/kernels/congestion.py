"""Congestion factors of one phase: steps A to D of Martinasso et al., SC16."""

from __future__ import annotations

import numpy as np

from fabricast.pcie.models.kernels.working_memory import (
    ACTIVE,
    ALL_CROSSING_PENALISED,
    BUSY_DOWN,
    BUSY_UP,
    CAPACITY,
    CHOSEN,
    COMPONENT,
    COUPLING_MINIMUM,
    CROSSES,
    CROSSING,
    CROSSING_BONUS_LITERAL,
    DEMAND,
    DEMAND_UP,
    FIXED,
    FREEZE,
    FROZEN,
    GROUP_DEMAND_MAXIMUM,
    GROUP_OF,
    GROUP_SPLIT_EQUAL,
    HEAD_OF_LINE,
    IS_FROZEN,
    LOWEST,
    MEMBER,
    NOT_WORK_CONSERVING,
    OFF,
    RHO,
    SHARE,
    SOLO_CROSSING_PENALTY,
    TINY,
    TWO_ROUNDS,
    UPSTREAM_ROUND_ROBIN,
    USERS,
    WORST,
    fill,
    group_members,
    load,
)
from fabricast.runtime.compilation import allocation_free

__all__ = ["congestion_factors"]


@allocation_free
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
            fill(values, marks, spare, count)
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
            spare = fill(values, marks, spare, count)
            for g in range(count):
                marks[CHOSEN, g] = marks[CROSSES, g]
            fill(values, marks, spare, count)
    # A group keeps at least what is already frozen; the others share the rest.
    pinned_any = False
    for g in range(count):
        pinned = values[FIXED, g] > values[SHARE, g] + TINY
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
        fill(values, marks, max(rest, 0.0), count)
        pinned_any = False
        for g in range(count):
            late = marks[CHOSEN, g] == 1 and values[FIXED, g] > values[SHARE, g] + TINY
            pinned_any = pinned_any or late
            marks[CHOSEN, g] = marks[CHOSEN, g] == 0 or late


@allocation_free
def _split_equally(link, users, values, marks, group, budget):
    """Give each member of a group at most an equal part of its budget, work-conserving."""
    level = 0.0
    left = budget
    while left > TINY:
        needy = 0
        step = np.inf
        for k in range(marks[USERS, link]):
            over = values[RHO, users[MEMBER, link, k]] - level
            if marks[GROUP_OF, k] == group and over > TINY:
                needy += 1
                step = min(step, over)
        if needy == 0:
            break
        step = min(step, left / needy)
        level += step
        left -= step * needy
    for k in range(marks[USERS, link]):
        if marks[GROUP_OF, k] == group:
            c = np.uint32(users[MEMBER, link, k])
            values[RHO, c] = min(values[RHO, c], level)


@allocation_free
def _sweep_down(down, users, values, marks, tau, options):
    """Arbitrate all downstream ports, shallowest first (step C); return whether a rate changed."""
    changed = False
    demand_maximum = options[GROUP_DEMAND_MAXIMUM] != 0
    for position in range(down):
        link = marks[BUSY_DOWN, position]
        capacity = values[CAPACITY, link]
        # Most ports are not saturated: see that before any grouping.
        if load(link, users, values, marks, RHO) <= capacity + TINY:
            continue
        count = group_members(link, users, values, marks, RHO, demand_maximum)
        if demand_maximum:
            total = 0.0
            for g in range(count):
                total += values[DEMAND, g]
            if total <= capacity + TINY:
                continue
        _arbitrate(values, marks, count, capacity, tau, options)
        for g in range(count):
            demand = values[DEMAND, g]
            share = values[SHARE, g]
            fixed = values[FIXED, g]
            if demand - share <= TINY:
                continue
            changed = True
            if options[GROUP_SPLIT_EQUAL] != 0 and fixed == 0.0:
                _split_equally(link, users, values, marks, g, share)
                continue
            scale = (share - fixed) / (demand - fixed) if demand > fixed else 1.0
            scale = min(1.0, max(0.0, scale))
            for k in range(marks[USERS, link]):
                c = np.uint32(users[MEMBER, link, k])
                if marks[GROUP_OF, k] == g and not marks[IS_FROZEN, c]:
                    values[RHO, c] *= scale
    return changed


@allocation_free
def _root(marks, c):
    while marks[COMPONENT, c] != c:
        c = marks[COMPONENT, c]
    return c


@allocation_free
def _sweep_up(up, users, values, marks, options):
    """Share saturated upstream ports, deepest first, and couple who shares one (step B)."""
    for position in range(up):
        link = marks[BUSY_UP, position]
        capacity = values[CAPACITY, link]
        total = load(link, users, values, marks, DEMAND_UP)
        if total <= capacity + TINY:
            continue
        if options[UPSTREAM_ROUND_ROBIN] == 0:
            for k in range(marks[USERS, link]):
                values[DEMAND_UP, users[MEMBER, link, k]] *= capacity / total
        else:
            count = group_members(link, users, values, marks, DEMAND_UP, False)
            for g in range(count):
                values[SHARE, g] = 0.0
                marks[CHOSEN, g] = 1
            fill(values, marks, capacity, count)
            for k in range(marks[USERS, link]):
                g = marks[GROUP_OF, k]
                values[DEMAND_UP, users[MEMBER, link, k]] *= values[SHARE, g] / values[DEMAND, g]
        first = _root(marks, users[MEMBER, link, 0])
        for k in range(1, marks[USERS, link]):
            other = _root(marks, users[MEMBER, link, k])
            if other != first:
                marks[COMPONENT, max(first, other)] = min(first, other)
                first = min(first, other)


@allocation_free
def _hold_back_in_rounds(active_count, down, users, values, marks, tau, options):
    """Head-of-line coupling without freezing: none at all, or one repetition with capped demands."""
    rounds = 2 if options[HEAD_OF_LINE] == TWO_ROUNDS else 1
    for _ in range(rounds):
        for a in range(active_count):
            c = np.uint32(marks[ACTIVE, a])
            values[RHO, c] = values[DEMAND_UP, c]
        _sweep_down(down, users, values, marks, tau, options)
        if options[HEAD_OF_LINE] == OFF:
            return
        # Cap the members of a component at its slowest member, then sweep again.
        for a in range(active_count):
            c = np.uint32(marks[ACTIVE, a])
            values[WORST, c] = 1.0
            values[LOWEST, c] = 0.0
        for a in range(active_count):
            c = np.uint32(marks[ACTIVE, a])
            component = np.uint32(marks[COMPONENT, c])
            values[LOWEST, component] += 1.0
            if values[DEMAND_UP, c] > 0.0:
                values[WORST, component] = min(values[WORST, component], values[RHO, c] / values[DEMAND_UP, c])
        for a in range(active_count):
            c = np.uint32(marks[ACTIVE, a])
            component = np.uint32(marks[COMPONENT, c])
            if values[LOWEST, component] > 1.0:
                values[DEMAND_UP, c] *= values[WORST, component]
                values[RHO, c] = values[DEMAND_UP, c]


@allocation_free
def congestion_factors(active_count, up, down, users, values, marks, tau, options):
    """Congestion factors of one phase (steps A-D)."""
    for a in range(active_count):
        c = np.uint32(marks[ACTIVE, a])
        penalised = options[SOLO_CROSSING_PENALTY] != 0 and marks[CROSSING, c] != 0
        # Sources send as fast as their own link: `find_users` has set the demand to its capacity.
        if penalised:
            values[DEMAND_UP, c] *= 1.0 - tau
        values[FROZEN, c] = 0.0
        marks[COMPONENT, c] = c
        marks[IS_FROZEN, c] = 0
    _sweep_up(up, users, values, marks, options)
    for a in range(active_count):
        c = np.uint32(marks[ACTIVE, a])
        marks[COMPONENT, c] = _root(marks, c)
        values[RHO, c] = values[DEMAND_UP, c]
    if options[HEAD_OF_LINE] != FREEZE:
        _hold_back_in_rounds(active_count, down, users, values, marks, tau, options)
        return

    left = active_count
    while left > 0:
        for a in range(active_count):
            c = np.uint32(marks[ACTIVE, a])
            values[RHO, c] = values[FROZEN, c] if marks[IS_FROZEN, c] else values[DEMAND_UP, c]
        changed = _sweep_down(down, users, values, marks, tau, options)
        if not changed and options[COUPLING_MINIMUM] == 0:
            # Nobody is held back further: all factors are final.
            return
        slowest = np.inf
        for a in range(active_count):
            c = np.uint32(marks[ACTIVE, a])
            values[WORST, c] = np.inf
            values[LOWEST, c] = np.inf
        for a in range(active_count):
            c = np.uint32(marks[ACTIVE, a])
            if not marks[IS_FROZEN, c]:
                rho = values[RHO, c]
                component = np.uint32(marks[COMPONENT, c])
                ratio = rho / values[DEMAND_UP, c] if values[DEMAND_UP, c] > 0.0 else 0.0
                values[WORST, component] = min(values[WORST, component], ratio)
                values[LOWEST, component] = min(values[LOWEST, component], rho)
                slowest = min(slowest, rho)
        limit = slowest * (1.0 + 1e-9)
        for a in range(active_count):
            c = np.uint32(marks[ACTIVE, a])
            component = np.uint32(marks[COMPONENT, c])
            if not marks[IS_FROZEN, c] and values[LOWEST, component] <= limit:
                if options[COUPLING_MINIMUM] != 0:
                    values[FROZEN, c] = min(values[LOWEST, component], values[DEMAND_UP, c])
                else:
                    values[FROZEN, c] = values[DEMAND_UP, c] * values[WORST, component]
                marks[IS_FROZEN, c] = 1
                values[RHO, c] = values[FROZEN, c]
                left -= 1
