"""Working memory of the models, and the small functions that all steps use."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fabricast.runtime.compilation import allocation_free, njit

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

TINY = 1e-12
# Relative difference below which shares are equal.
TIE = 1.000000000001


class Copies(NamedTuple):
    """Working memory by copy of the graph; `active` lists the numbers of the running copies."""

    rho: Any
    demand_up: Any
    frozen: Any
    worst: Any
    lowest: Any
    remaining: Any
    active: Any
    pair: Any
    state: Any
    crossing: Any
    component: Any
    is_frozen: Any
    fresh: Any
    limiting: Any
    cause: Any
    waits_at: Any
    waits_for: Any
    longest: Any


class Groups(NamedTuple):
    """Working memory by group: the copies that enter a link by one input port; `group_of` is by user of the link."""

    demand: Any
    fixed: Any
    share: Any
    port: Any
    crosses: Any
    chosen: Any
    group_of: Any


class Links(NamedTuple):
    """Working memory by link; `busy_up`, `busy_down` and `full` list numbers of links."""

    capacity: Any
    limit: Any
    fullness: Any
    busy_up: Any
    busy_down: Any
    user_count: Any
    group_count: Any
    narrow: Any
    full: Any


class Users(NamedTuple):
    """Users of each link: copy, input port, place among the users of that port, next link, packet splitting, group."""

    member: Any
    entry: Any
    place: Any
    next_link: Any
    in_pieces: Any
    group: Any


class Flows(NamedTuple):
    """Flows through each link: rate by user; demand, payload and cost of a packet by group."""

    rate: Any
    demand: Any
    payload: Any
    cost: Any


class Memory(NamedTuple):
    """Working memory of one thread."""

    copies: Copies
    groups: Groups
    links: Links
    users: Users
    flows: Flows


@njit
def new_memory(size, links, flow_links):
    """Return working memory for graphs of up to `size` copies, or links if there are more.

    Only the back-pressure model uses flows: other models pass 0 `flow_links`.
    """
    copies = Copies(
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
    )
    groups = Groups(
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
    )
    by_link = Links(
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
    )
    users = Users(
        np.empty((links, size), dtype=np.int64),
        np.empty((links, size), dtype=np.int64),
        np.empty((links, size), dtype=np.int64),
        np.empty((links, size), dtype=np.int64),
        np.empty((links, size), dtype=np.int64),
        np.empty((links, size), dtype=np.int64),
    )
    flows = Flows(
        np.empty((flow_links, size), dtype=np.float64),
        np.empty((flow_links, size), dtype=np.float64),
        np.empty((flow_links, size), dtype=np.float64),
        np.empty((flow_links, size), dtype=np.float64),
    )
    return Memory(copies, groups, by_link, users, flows)


@allocation_free(forceinline=True)
def fill(memory, spare, count):
    """Raise the shares of the chosen groups towards their demands in equal steps; return the remainder."""
    for _ in range(count):
        if spare <= TINY:
            break
        needy = 0
        step = np.inf
        for g in range(count):
            if memory.groups.chosen[g] and memory.groups.demand[g] - memory.groups.share[g] > TINY:
                needy += 1
                step = min(step, memory.groups.demand[g] - memory.groups.share[g])
        if needy == 0:
            break
        step = min(step, spare / needy)
        for g in range(count):
            if memory.groups.chosen[g] and memory.groups.demand[g] - memory.groups.share[g] > TINY:
                memory.groups.share[g] += step
        spare -= step * needy
    return spare


@allocation_free(forceinline=True)
def group_members(link, memory, rates, demand_maximum):
    """Group the copies on a link by input port; return the number of groups."""
    count = 0
    for k in range(memory.links.user_count[link]):
        c = np.uint32(memory.users.member[link, k])
        entry = memory.users.entry[link, k]
        g = count
        if entry >= 0:
            for other in range(count):
                if memory.groups.port[other] == entry:
                    g = other
                    break
        if g == count:
            memory.groups.port[g] = entry
            memory.groups.demand[g] = 0.0
            memory.groups.fixed[g] = 0.0
            memory.groups.crosses[g] = 0
            count += 1
        memory.groups.group_of[k] = g
        if demand_maximum:
            memory.groups.demand[g] = max(memory.groups.demand[g], rates[c])
        else:
            memory.groups.demand[g] += rates[c]
        if memory.copies.is_frozen[c]:
            memory.groups.fixed[g] += memory.copies.frozen[c]
        memory.groups.crosses[g] |= memory.copies.crossing[c]
    return count


@allocation_free(forceinline=True)
def load(link, memory, rates):
    """Return the sum of the rates on a link."""
    total = 0.0
    for k in range(memory.links.user_count[link]):
        total += rates[np.uint32(memory.users.member[link, k])]
    return total


@allocation_free(forceinline=True)
def sort_copies(active, count, kind):
    """Sort the numbers of the active copies by kind; copies of one kind keep their order."""
    for place in range(1, count):
        copy = active[place]
        before = place
        while before > 0 and kind[active[before - 1]] > kind[copy]:
            active[before] = active[before - 1]
            before -= 1
        active[before] = copy
