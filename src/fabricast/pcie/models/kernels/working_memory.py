"""Working memory of the models, and the small functions that all steps use."""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

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


#: Working memory by copy of the graph; `active` lists the numbers of the running copies.
Copies = namedtuple(
    "Copies",
    "rho demand_up frozen worst lowest remaining active pair state crossing component is_frozen fresh limiting cause "
    "waits_at waits_for longest",
)


#: Working memory by group: the copies that enter a link by one input port; `group_of` is by user of the link.
Groups = namedtuple("Groups", "demand fixed share port crosses chosen group_of")


#: Working memory by link; `busy_up`, `busy_down` and `full` list numbers of links.
Links = namedtuple("Links", "capacity limit fullness busy_up busy_down user_count group_count narrow full")


#: Users of each link: copy, input port, place among the users of that port, next link, packet splitting, group.
Users = namedtuple("Users", "member entry place next_link in_pieces group")


#: Flows through each link: rate by user; demand, payload and cost of a packet by group.
Flows = namedtuple("Flows", "rate demand payload cost")


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
    # Rates, then numbers and marks.
    r, n = np.empty((12, size)), np.empty((22, size), dtype=np.int64)
    copies = Copies(
        r[0], r[1], r[2], r[3], r[4], r[5], n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11]
    )
    groups = Groups(r[6], r[7], r[8], n[12], n[13], n[14], n[15])
    by_link = Links(r[9], r[10], r[11], n[16], n[17], n[18], n[19], n[20], n[21])
    m = np.empty((6, links, size), dtype=np.int64)
    users = Users(m[0], m[1], m[2], m[3], m[4], m[5])
    f = np.empty((4, flow_links, size))
    flows = Flows(f[0], f[1], f[2], f[3])
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
