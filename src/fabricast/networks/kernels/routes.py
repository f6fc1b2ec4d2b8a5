"""Routes and link loads of networks of switches.

Routes are minimal. The static link of a switch depends on the destination only: of `n` neighbours on minimal routes,
that with the number `q / d mod n` is used, where `q` is the number of the destination and `d` the number of routes that
lower levels distinguish; of `m` cables to it, that with the number `q / d mod m`, with the `d` of the upper switch, so
that both directions spread in the same order. On a fat tree this is destination-mod-k routing (Zahavi, "Fat-trees
routing and node ordering providing contention free traffic for MPI global collectives", IPDPS workshops 2011).
Adaptive routes split bytes evenly at each switch.
"""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import allocation_free, njit


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
def _static_link(switch, goal, destination, begin, neighbour, distance, divisor):
    """Return the link of a switch to a destination at a leaf; cables to one neighbour follow each other."""
    nearer = distance[switch, goal] - 1
    count, before = 0, -1
    for link in range(begin[switch], begin[switch + 1]):
        other = neighbour[link]
        if distance[other, goal] == nearer and other != before:
            count += 1
            before = other
    chosen = destination // divisor[switch] % count
    before = -1
    for link in range(begin[switch], begin[switch + 1]):
        other = neighbour[link]
        if distance[other, goal] == nearer and other != before:
            before = other
            if chosen == 0:
                cables = 1
                while link + cables < begin[switch + 1] and neighbour[link + cables] == other:
                    cables += 1
                return link + destination // max(divisor[switch], divisor[other]) % cables
            chosen -= 1
    return -1


@allocation_free
def add_static(load, amount, source, target, begin, neighbour, leaf, leaf_number, distance, number, divisor):
    """Add bytes on the static route between two end points."""
    links = neighbour.size
    load[links + 2 * source] += amount
    load[links + 2 * target + 1] += amount
    switch, goal = leaf[source], leaf_number[leaf[target]]
    while distance[switch, goal] > 0:
        link = _static_link(switch, goal, number[target], begin, neighbour, distance, divisor)
        load[link] += amount
        switch = neighbour[link]


@njit
def static_routes(source, target, begin, neighbour, leaf, leaf_number, distance, number, divisor):
    """Return the links of the static routes between pairs of end points: first index of each pair, and the links.

    Shapes: source, target (pairs,); result (pairs + 1,) and (links of all routes,).
    """
    links = neighbour.size
    offset = np.zeros(source.size + 1, dtype=np.int64)
    for pair in range(source.size):
        hops = distance[leaf[source[pair]], leaf_number[leaf[target[pair]]]]
        offset[pair + 1] = offset[pair] + hops + 2
    route = np.empty(offset[-1], dtype=np.int64)
    for pair in range(source.size):
        one, other = source[pair], target[pair]
        place = offset[pair]
        route[place] = links + 2 * one
        switch, goal = leaf[one], leaf_number[leaf[other]]
        while distance[switch, goal] > 0:
            place += 1
            route[place] = _static_link(switch, goal, number[other], begin, neighbour, distance, divisor)
            switch = neighbour[route[place]]
        route[place + 1] = links + 2 * other + 1
    return offset, route


@allocation_free
def _add_even(load, amount, first, goal, begin, neighbour, distance, share, waiting):
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
def add_traffic(load, source, target, amount, adaptive, begin, neighbour, leaf, leaf_number, distance, number, divisor):
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
                _add_even(load, amount[pair], leaf[one], goal, begin, neighbour, distance, share, waiting)
        else:
            add_static(load, amount[pair], one, other, begin, neighbour, leaf, leaf_number, distance, number, divisor)


@njit
def add_indirect(load, sent, received, leaves, begin, neighbour, distance):
    """Add the expected bytes of routes over a random leaf of the same plane, split evenly over minimal routes.

    Shapes: sent, received (leaves,), the bytes between different leaves.
    """
    switches, count = begin.size - 1, leaves.size
    reached = np.zeros(count)
    for one in range(count):
        for other in range(count):
            reached[one] += distance[leaves[one], other] >= 0
    share, order = np.zeros(switches), np.empty(switches, dtype=np.int64)
    for goal in range(count):
        farthest = 0
        for switch in range(switches):
            farthest = max(farthest, distance[switch, goal])
        for one in range(count):
            if distance[leaves[one], goal] >= 0:
                # To the leaf as the random one, and from the random one to it.
                share[leaves[one]] += sent[one] / reached[one] + received[goal] / reached[goal]
        filled = 0
        for far in range(farthest, 0, -1):
            for switch in range(switches):
                if distance[switch, goal] == far:
                    order[filled] = switch
                    filled += 1
        for place in range(filled):
            switch = order[place]
            if share[switch] > 0.0:
                nearer = distance[switch, goal] - 1
                part = share[switch] / _next_links(begin, neighbour, distance, switch, goal)
                for link in range(begin[switch], begin[switch + 1]):
                    if distance[neighbour[link], goal] == nearer:
                        load[link] += part
                        share[neighbour[link]] += part
        share[:] = 0.0


@njit
def divisors(begin, neighbour, level):
    """Return the number of routes that the levels below each switch distinguish.

    Shapes: level (switches,), the number of links to the nearest leaf; result (switches,).
    """
    switches = begin.size - 1
    found = np.ones(switches, dtype=np.int64)
    for height in range(level.max() if switches else 0):
        for switch in range(switches):
            if level[switch] != height:
                continue
            above, before = 0, -1
            for link in range(begin[switch], begin[switch + 1]):
                if level[neighbour[link]] == height + 1 and neighbour[link] != before:
                    before = neighbour[link]
                    above += 1
            for link in range(begin[switch], begin[switch + 1]):
                other = neighbour[link]
                if level[other] == height + 1:
                    found[other] = max(found[other], min(found[switch] * above, 1 << 40))
    return found
