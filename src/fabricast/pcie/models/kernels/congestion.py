"""Congestion factors of one phase: steps A to D of Martinasso et al., SC16.

A. Each copy demands the capacity of its first link.
B. Saturated upstream ports are shared in proportion to demand. Copies that share one form a component (head-of-line
   coupling).
C. Saturated downstream ports are shared among input ports. Ports whose copies cross the root complex yield tau of the
   capacity to the others.
D. The slowest component is frozen at its worst ratio, and C is repeated for the others until all are frozen or no rate
   changes.
"""

from __future__ import annotations

import numpy as np

from fabricast.pcie.models.kernels.working_memory import (
    ALL_CROSSING_PENALISED,
    COUPLING_MINIMUM,
    CROSSING_BONUS_LITERAL,
    FREEZE,
    GROUP_DEMAND_MAXIMUM,
    GROUP_SPLIT_EQUAL,
    HEAD_OF_LINE,
    NOT_WORK_CONSERVING,
    OFF,
    SOLO_CROSSING_PENALTY,
    TINY,
    TWO_ROUNDS,
    UPSTREAM_ROUND_ROBIN,
    fill,
    group_members,
    load,
)
from fabricast.runtime.compilation import allocation_free


@allocation_free(forceinline=True)
def _arbitrate(memory, count, capacity, tau, options):
    """Share a saturated downstream port among groups (step C)."""
    crossing = 0
    for g in range(count):
        if memory.groups.crosses[g]:
            crossing += 1
    conserving = options[NOT_WORK_CONSERVING] == 0
    spare = capacity
    if crossing == 0 or (crossing == count and options[ALL_CROSSING_PENALISED] == 0):
        for g in range(count):
            memory.groups.share[g] = 0.0 if conserving else min(memory.groups.demand[g], capacity / count)
            memory.groups.chosen[g] = 1
        if conserving:
            fill(memory, spare, count)
    else:
        fair = capacity / count
        # A group loses at most its share, so that the sum of all shares stays at the capacity.
        loss = min(tau * capacity, fair)
        bonus = loss
        if options[CROSSING_BONUS_LITERAL] == 0 and crossing < count:
            bonus = bonus * crossing / (count - crossing)
        for g in range(count):
            if memory.groups.crosses[g]:
                memory.groups.share[g] = min(fair - loss, memory.groups.demand[g])
            else:
                memory.groups.share[g] = min(fair + bonus, memory.groups.demand[g])
            spare -= memory.groups.share[g]
            memory.groups.chosen[g] = 1 - memory.groups.crosses[g]
        if conserving and crossing < count:
            spare = fill(memory, spare, count)
            for g in range(count):
                memory.groups.chosen[g] = memory.groups.crosses[g]
            fill(memory, spare, count)
    # A group keeps at least what is already frozen; the others share the rest.
    pinned_any = False
    for g in range(count):
        pinned = memory.groups.fixed[g] > memory.groups.share[g] + TINY
        memory.groups.chosen[g] = pinned
        pinned_any = pinned_any or pinned
    while pinned_any:
        rest = capacity
        for g in range(count):
            if memory.groups.chosen[g]:
                memory.groups.share[g] = memory.groups.fixed[g]
                rest -= memory.groups.fixed[g]
            else:
                memory.groups.share[g] = 0.0
        for g in range(count):
            memory.groups.chosen[g] = 1 - memory.groups.chosen[g]
        fill(memory, max(rest, 0.0), count)
        pinned_any = False
        for g in range(count):
            late = memory.groups.chosen[g] == 1 and memory.groups.fixed[g] > memory.groups.share[g] + TINY
            pinned_any = pinned_any or late
            memory.groups.chosen[g] = memory.groups.chosen[g] == 0 or late


@allocation_free(forceinline=True)
def _split_equally(link, memory, group, budget):
    """Limit each member of a group to an equal part of its budget, work-conserving."""
    level = 0.0
    left = budget
    while left > TINY:
        needy = 0
        step = np.inf
        for k in range(memory.links.user_count[link]):
            over = memory.copies.rho[memory.users.member[link, k]] - level
            if memory.groups.group_of[k] == group and over > TINY:
                needy += 1
                step = min(step, over)
        if needy == 0:
            break
        step = min(step, left / needy)
        level += step
        left -= step * needy
    for k in range(memory.links.user_count[link]):
        if memory.groups.group_of[k] == group:
            c = np.uint32(memory.users.member[link, k])
            memory.copies.rho[c] = min(memory.copies.rho[c], level)


@allocation_free(forceinline=True)
def _sweep_down(down, memory, tau, options):
    """Arbitrate all downstream ports, shallowest first (step C); return whether a rate changed."""
    changed = False
    demand_maximum = options[GROUP_DEMAND_MAXIMUM] != 0
    for position in range(down):
        link = memory.links.busy_down[position]
        capacity = memory.links.capacity[link]
        # Most ports are not saturated: check before grouping.
        if load(link, memory, memory.copies.rho) <= capacity + TINY:
            continue
        count = group_members(link, memory, memory.copies.rho, demand_maximum)
        if demand_maximum:
            total = 0.0
            for g in range(count):
                total += memory.groups.demand[g]
            if total <= capacity + TINY:
                continue
        _arbitrate(memory, count, capacity, tau, options)
        for g in range(count):
            demand = memory.groups.demand[g]
            share = memory.groups.share[g]
            fixed = memory.groups.fixed[g]
            if demand - share <= TINY:
                continue
            changed = True
            if options[GROUP_SPLIT_EQUAL] != 0 and fixed == 0.0:
                _split_equally(link, memory, g, share)
                continue
            scale = (share - fixed) / (demand - fixed) if demand > fixed else 1.0
            scale = min(1.0, max(0.0, scale))
            for k in range(memory.links.user_count[link]):
                c = np.uint32(memory.users.member[link, k])
                if memory.groups.group_of[k] == g and not memory.copies.is_frozen[c]:
                    memory.copies.rho[c] *= scale
    return changed


@allocation_free(forceinline=True)
def _root(memory, c):
    while memory.copies.component[c] != c:
        c = memory.copies.component[c]
    return c


@allocation_free(forceinline=True)
def _sweep_up(up, memory, options):
    """Share saturated upstream ports, deepest first, and couple the copies that share one (step B)."""
    for position in range(up):
        link = memory.links.busy_up[position]
        capacity = memory.links.capacity[link]
        total = load(link, memory, memory.copies.demand_up)
        if total <= capacity + TINY:
            continue
        if options[UPSTREAM_ROUND_ROBIN] == 0:
            for k in range(memory.links.user_count[link]):
                memory.copies.demand_up[memory.users.member[link, k]] *= capacity / total
        else:
            count = group_members(link, memory, memory.copies.demand_up, False)
            for g in range(count):
                memory.groups.share[g] = 0.0
                memory.groups.chosen[g] = 1
            fill(memory, capacity, count)
            for k in range(memory.links.user_count[link]):
                g = memory.groups.group_of[k]
                memory.copies.demand_up[memory.users.member[link, k]] *= (
                    memory.groups.share[g] / memory.groups.demand[g]
                )
        first = _root(memory, memory.users.member[link, 0])
        for k in range(1, memory.links.user_count[link]):
            other = _root(memory, memory.users.member[link, k])
            if other != first:
                memory.copies.component[max(first, other)] = min(first, other)
                first = min(first, other)


@allocation_free(forceinline=True)
def _couple_in_rounds(active_count, down, memory, tau, options):
    """Head-of-line coupling without freezing: none at all, or one repetition with capped demands."""
    rounds = 2 if options[HEAD_OF_LINE] == TWO_ROUNDS else 1
    for _ in range(rounds):
        for a in range(active_count):
            c = np.uint32(memory.copies.active[a])
            memory.copies.rho[c] = memory.copies.demand_up[c]
        _sweep_down(down, memory, tau, options)
        if options[HEAD_OF_LINE] == OFF:
            return
        # Cap the members of a component at its slowest member, then sweep again.
        for a in range(active_count):
            c = np.uint32(memory.copies.active[a])
            memory.copies.worst[c] = 1.0
            memory.copies.lowest[c] = 0.0
        for a in range(active_count):
            c = np.uint32(memory.copies.active[a])
            component = np.uint32(memory.copies.component[c])
            memory.copies.lowest[component] += 1.0
            if memory.copies.demand_up[c] > 0.0:
                memory.copies.worst[component] = min(
                    memory.copies.worst[component], memory.copies.rho[c] / memory.copies.demand_up[c]
                )
        for a in range(active_count):
            c = np.uint32(memory.copies.active[a])
            component = np.uint32(memory.copies.component[c])
            if memory.copies.lowest[component] > 1.0:
                memory.copies.demand_up[c] *= memory.copies.worst[component]
                memory.copies.rho[c] = memory.copies.demand_up[c]


@allocation_free(forceinline=True)
def congestion_factors(active_count, up, down, memory, tau, options):
    """Congestion factors of one phase (steps A-D)."""
    for a in range(active_count):
        c = np.uint32(memory.copies.active[a])
        penalised = options[SOLO_CROSSING_PENALTY] != 0 and memory.copies.crossing[c] != 0
        # Sources send at the rate of their link: `find_users` has set the demand to its capacity.
        if penalised:
            memory.copies.demand_up[c] *= 1.0 - tau
        memory.copies.frozen[c] = 0.0
        memory.copies.component[c] = c
        memory.copies.is_frozen[c] = 0
    _sweep_up(up, memory, options)
    for a in range(active_count):
        c = np.uint32(memory.copies.active[a])
        memory.copies.component[c] = _root(memory, c)
        memory.copies.rho[c] = memory.copies.demand_up[c]
    if options[HEAD_OF_LINE] != FREEZE:
        _couple_in_rounds(active_count, down, memory, tau, options)
        return

    left = active_count
    while left > 0:
        for a in range(active_count):
            c = np.uint32(memory.copies.active[a])
            memory.copies.rho[c] = memory.copies.frozen[c] if memory.copies.is_frozen[c] else memory.copies.demand_up[c]
        changed = _sweep_down(down, memory, tau, options)
        if not changed and options[COUPLING_MINIMUM] == 0:
            # No copy is limited further: all factors are final.
            return
        slowest = np.inf
        for a in range(active_count):
            c = np.uint32(memory.copies.active[a])
            memory.copies.worst[c] = np.inf
            memory.copies.lowest[c] = np.inf
        for a in range(active_count):
            c = np.uint32(memory.copies.active[a])
            if not memory.copies.is_frozen[c]:
                rho = memory.copies.rho[c]
                component = np.uint32(memory.copies.component[c])
                ratio = rho / memory.copies.demand_up[c] if memory.copies.demand_up[c] > 0.0 else 0.0
                memory.copies.worst[component] = min(memory.copies.worst[component], ratio)
                memory.copies.lowest[component] = min(memory.copies.lowest[component], rho)
                slowest = min(slowest, rho)
        limit = slowest * (1.0 + 1e-9)
        for a in range(active_count):
            c = np.uint32(memory.copies.active[a])
            component = np.uint32(memory.copies.component[c])
            if not memory.copies.is_frozen[c] and memory.copies.lowest[component] <= limit:
                if options[COUPLING_MINIMUM] != 0:
                    memory.copies.frozen[c] = min(memory.copies.lowest[component], memory.copies.demand_up[c])
                else:
                    memory.copies.frozen[c] = memory.copies.demand_up[c] * memory.copies.worst[component]
                memory.copies.is_frozen[c] = 1
                memory.copies.rho[c] = memory.copies.frozen[c]
                left -= 1
