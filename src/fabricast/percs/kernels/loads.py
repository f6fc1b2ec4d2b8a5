"""Compiled kernels that count messages between routers and compute link loads."""

from __future__ import annotations

import numpy as np

from fabricast.percs.kernels.common import mix
from fabricast.runtime.compilation import njit

#: Number of counts that vector instructions compare with zero at once.
_SEEN_AT_ONCE = 32


@njit
def count_grid(grid, offsets, strides, wrap, mutual, router, group_of, routers, local, out, into):
    """Count the messages of every task of a grid to its neighbours.

    local[q, b] counts messages from router q to router b of its group, out[q, j] messages from router q to
    group j, and into[q, i] messages from group i to router q. These counts suffice for every routing and
    gateway rule. If `mutual`, the message in the reverse direction is counted with each message, and `into`
    is the same array as `out`. Maps are unsigned to avoid checks for negative indices.
    """
    dimensions = grid.size
    last = grid[dimensions - 1]
    coordinates = np.zeros(dimensions, dtype=np.int64)
    sent = 0
    for row in range(router.size // last):
        for m in range(offsets.shape[0]):
            delta = 0
            inside = True
            for d in range(dimensions - 1):
                to = coordinates[d] + offsets[m, d]
                if to < 0 or to >= grid[d]:
                    inside = inside and wrap
                    to %= grid[d]
                delta += (to - coordinates[d]) * strides[d]
            if not inside:
                continue
            # Along the last dimension the neighbour is at a fixed distance, except where a torus wraps around.
            step = offsets[m, dimensions - 1] % last if wrap else offsets[m, dimensions - 1]
            begin, end = max(0, -step), min(last, last - step)
            while begin < end:
                sent += end - begin
                here, there = np.uint64(row * last), np.uint64(row * last + delta + step)
                first, second, number = router[here + np.uint64(begin)], router[there + np.uint64(begin)], 0
                # Adjacent tasks often share a router, and so do their neighbours: add such runs at once.
                for c in range(begin, end + 1):
                    k = np.uint64(c)
                    if c < end and router[here + k] == first and router[there + k] == second:
                        number += 1
                        continue
                    if first != second:
                        group, other = group_of[first], group_of[second]
                        if group == other:
                            start = np.uint32(group) * np.uint32(routers)
                            local[first, np.uint32(second) - start] += number
                            if mutual:
                                local[second, np.uint32(first) - start] += number
                        else:
                            out[first, other] += number
                            into[second, group] += number
                    if c < end:
                        first, second, number = router[here + k], router[there + k], 1
                begin, end, step = end, last if wrap else end, step - last
        d = dimensions - 2
        while d >= 0:
            coordinates[d] += 1
            if coordinates[d] < grid[d]:
                break
            coordinates[d] = 0
            d -= 1
    return 2 * sent if mutual else sent


@njit
def count_random(targets, seed, router, group_of, routers, local, out, into):
    """Count messages of every task to targets drawn uniformly by a hash."""
    tasks = np.uint64(router.size)
    state = np.uint64(seed)
    for task in range(router.size):
        first = router[np.uint64(task)]
        group = group_of[first]
        start = np.uint32(group) * np.uint32(routers)
        for _ in range(targets):
            # splitmix64: targets are the same on every machine.
            state += np.uint64(0x9E3779B97F4A7C15)
            z = mix(state)
            # Multiply the upper half by the number of tasks: a uniform draw without division.
            second = router[((z >> np.uint64(32)) * tasks) >> np.uint64(32)]
            if first != second:
                other = group_of[second]
                if group == other:
                    local[first, np.uint32(second) - start] += 1
                else:
                    out[first, other] += 1
                    into[second, group] += 1
    return router.size * targets


@njit
def count_pairs(source, target, size, router, routers, local, out, into):
    """Add the bytes of each pair of tasks to the counts."""
    for n in range(source.size):
        first, second = router[source[n]], router[target[n]]
        if first == second:
            continue
        group, other = first // routers, second // routers
        if group == other:
            local[first, second - group * routers] += size[n]
        else:
            out[first, other] += size[n]
            into[second, group] += size[n]


@njit
def sum_by_gateway(counts, gateway, routers):
    """Sum the counts of each router by gateway, by router and by pair of groups.

    counts[q, j] is the number of messages between router q and group j. The first result sums, for each router q
    and each router b of its group, the messages to groups that b has a link to. The second sums all messages of
    each router, the third all messages between two groups.
    """
    groups, stripes = gateway.shape[0], gateway.shape[2]
    by_gateway, by_router = np.zeros((counts.shape[0], routers)), np.zeros(counts.shape[0])
    by_group = np.zeros((groups, groups))
    for q in range(counts.shape[0]):
        group = q // routers
        # Most counts are zero: compare many of them with zero at once.
        for first in range(0, groups, _SEEN_AT_ONCE):
            last = min(groups, first + _SEEN_AT_ONCE)
            some = False
            for other in range(first, last):
                some |= counts[q, np.uint32(other)] != 0
            if not some:
                continue
            for other in range(first, last):
                number = counts[q, np.uint32(other)]
                if number != 0:
                    by_group[group, other] += number
                    by_router[q] += number
                    for k in range(stripes):
                        by_gateway[q, np.uint32(gateway[group, other, k])] += number
    return by_gateway, by_router, by_group


@njit
def direct_loads(local, sent_by, got_by, total, stripes, link, between):
    """Add loads of direct routes: to the gateway, between groups, from the gateway."""
    groups, routers = link.shape[0], link.shape[1]
    share = 1.0 / stripes
    for group in range(groups):
        for a in range(routers):
            q = group * routers + a
            for b in range(routers):
                link[group, a, b] += local[q, b] + share * sent_by[q, b]
                link[group, b, a] += share * got_by[q, b]
        for a in range(routers):
            link[group, a, a] = 0.0
        for other in range(groups):
            between[group, other] = share * total[group, other]


@njit
def indirect_loads(local, sent_by, got_by, sent, got, total, gateway, gateway_is_fixed, link, between):
    """Add expected loads of indirect routes through a uniformly random third group."""
    groups, stripes = gateway.shape[0], gateway.shape[2]
    routers = link.shape[1]
    part = 1.0 / (groups - 2)
    share = 1.0 / stripes
    owned = np.empty(routers)
    for group in range(groups):
        # Number of links to other groups of each router of this group.
        owned[:] = 0.0
        for k in range(groups):
            if k != group:
                for s in range(stripes):
                    owned[gateway[group, k, s]] += 1.0
        for a in range(routers):
            q = group * routers + a
            for owner in range(routers):
                link[group, a, owner] += local[q, owner]
                # All links of a gateway get equal shares of the messages, except those of the group at the other end.
                link[group, a, owner] += part * share * (owned[owner] * sent[q] - sent_by[q, owner])
                link[group, owner, a] += part * share * (owned[owner] * got[q] - got_by[q, owner])
    rows, columns = total.sum(axis=1), total.sum(axis=0)
    for i in range(groups):
        for k in range(groups):
            if k != i:
                between[i, k] += part * share * (rows[i] + columns[k] - 2 * total[i, k])
    transit = part * share * share
    if gateway_is_fixed:
        # Every group has the same gateway to a group: sum once, then subtract the messages from and to each group.
        summed = np.zeros((routers, routers))
        for i in range(groups):
            for j in range(groups):
                for s in range(stripes):
                    for r in range(stripes):
                        summed[gateway[0, i, s], gateway[0, j, r]] += total[i, j]
        for k in range(groups):
            for u in range(routers):
                for v in range(routers):
                    link[k, u, v] += transit * summed[u, v]
            for j in range(groups):
                for s in range(stripes):
                    for r in range(stripes):
                        link[k, gateway[0, k, s], gateway[0, j, r]] -= transit * total[k, j]
                        link[k, gateway[0, j, s], gateway[0, k, r]] -= transit * total[j, k]
    else:
        first, second = np.nonzero(total)
        amount = np.empty(first.size)
        for pair in range(first.size):
            amount[pair] = transit * total[first[pair], second[pair]]
        for k in range(groups):
            for pair in range(first.size):
                i, j = np.uint32(first[pair]), np.uint32(second[pair])
                if i != k and j != k:
                    for s in range(stripes):
                        owner = np.uint32(gateway[k, i, s])
                        for r in range(stripes):
                            link[k, owner, np.uint32(gateway[k, j, r])] += amount[pair]
    for group in range(groups):
        for a in range(routers):
            link[group, a, a] = 0.0
