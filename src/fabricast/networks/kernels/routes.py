"""Routes and link loads of networks of switches.

Routes are minimal. A static route depends on the destination: at each switch with `n` links on minimal routes, the
link with the number `q mod n` is used, and `q` becomes `q / n`, where `q` is the number of the destination at first.
On a fat tree this is destination-mod-k routing (Zahavi, "Fat-trees routing and node ordering providing contention
free traffic for MPI global collectives", IPDPS workshops 2011). Adaptive routes split bytes evenly at each switch.
"""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import allocation_free, njit

__all__ = ["add_even", "add_leaf_traffic", "add_static", "add_traffic", "distances"]


@njit
def distances(begin, neighbour, leaves):
    """Return the number of links from each switch to each leaf; -1 if there is none.

    Shapes: begin (switches + 1,), neighbour (links,), leaves (leaves,); result (switches, leaves).
    """
    switches = begin.size - 1
    found = np.full((switches, leaves.size), np.int16(-1), dtype=np.int16)
    waiting = np.empty(switches, dtype=np.int64)
    for number in range(leaves.size):
        waiting[0] = leaves[number]
        found[leaves[number], number] = 0
        first, last = 0, 1
        while first < last:
            switch = waiting[first]
            first += 1
            for link in range(begin[switch], begin[switch + 1]):
                other = neighbour[link]
                if found[other, number] < 0:
                    found[other, number] = found[switch, number] + 1
                    waiting[last] = other
                    last += 1
    return found


@allocation_free(inline="always")
def _next_links(begin, neighbour, distance, switch, leaf):
    """Return the number of links of a switch on minimal routes to a leaf."""
    count = 0
    nearer = distance[switch, leaf] - 1
    for link in range(begin[switch], begin[switch + 1]):
        if distance[neighbour[link], leaf] == nearer:
            count += 1
    return count


@allocation_free
def add_static(load, amount, source, target, begin, neighbour, leaf, leaf_number, distance, number):
    """Add bytes on the static route between two end points."""
    links = neighbour.size
    load[links + 2 * source] += amount
    load[links + 2 * target + 1] += amount
    switch, goal, quotient = leaf[source], leaf_number[leaf[target]], number[target]
    while distance[switch, goal] > 0:
        count = _next_links(begin, neighbour, distance, switch, goal)
        chosen = quotient % count
        quotient //= count
        nearer = distance[switch, goal] - 1
        for link in range(begin[switch], begin[switch + 1]):
            if distance[neighbour[link], goal] == nearer:
                if chosen == 0:
                    load[link] += amount
                    switch = neighbour[link]
                    break
                chosen -= 1


@allocation_free
def add_even(load, amount, first, goal, begin, neighbour, distance, share, waiting):
    """Add bytes between two leaf switches, split evenly at each switch over the links of minimal routes.

    `share` is zero by switch and is left so; `waiting` has an entry for each switch.
    """
    waiting[0] = first
    share[first] = amount
    here, count = 0, 1
    while here < count:
        switch = waiting[here]
        here += 1
        carried, share[switch] = share[switch], 0.0
        if distance[switch, goal] == 0:
            continue
        nearer = distance[switch, goal] - 1
        part = carried / _next_links(begin, neighbour, distance, switch, goal)
        for link in range(begin[switch], begin[switch + 1]):
            other = neighbour[link]
            if distance[other, goal] == nearer:
                load[link] += part
                if share[other] == 0.0:
                    waiting[count] = other
                    count += 1
                share[other] += part


@njit
def add_traffic(load, source, target, amount, adaptive, begin, neighbour, leaf, leaf_number, distance, number):
    """Add the bytes of pairs of end points to the load of each link.

    Shapes: load (links,), source, target, amount (pairs,).
    """
    switches = begin.size - 1
    share, waiting = np.zeros(switches), np.empty(switches, dtype=np.int64)
    links = neighbour.size
    for pair in range(source.size):
        one, other = source[pair], target[pair]
        if adaptive:
            load[links + 2 * one] += amount[pair]
            load[links + 2 * other + 1] += amount[pair]
            if leaf[one] != leaf[other]:
                goal = leaf_number[leaf[other]]
                add_even(load, amount[pair], leaf[one], goal, begin, neighbour, distance, share, waiting)
        else:
            add_static(load, amount[pair], one, other, begin, neighbour, leaf, leaf_number, distance, number)


@njit
def add_leaf_traffic(load, first, goal, amount, begin, neighbour, distance):
    """Add bytes between leaf switches, split evenly over minimal routes.

    Shapes: first, goal, amount (pairs,); `goal` has places among the leaves.
    """
    switches = begin.size - 1
    share, waiting = np.zeros(switches), np.empty(switches, dtype=np.int64)
    for pair in range(first.size):
        if amount[pair] > 0.0:
            add_even(load, amount[pair], first[pair], goal[pair], begin, neighbour, distance, share, waiting)
