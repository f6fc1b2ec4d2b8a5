"""Compiled code of the packet-level network: FIFO links, windows, times in whole ticks.

One heap entry a busy link or injecting router; packets on the wire stand in a ring, sorted
because every hop takes equally long. Ties are broken by number, so that runs repeat.
"""

from __future__ import annotations

import numpy as np

from fabricast.percs.kernels.common import mix, pop, push
from fabricast.runtime.compilation import njit

__all__ = ["run_packets"]

_NONE = np.int32(-1)
_MOST_HOPS = 5


@njit(cache=True, nogil=True)
def _route(source, target, draw, indirect, gateway, routers, hops):
    """Write the links of a packet's route and return how many there are."""
    groups, stripes = gateway.shape[0], gateway.shape[2]
    first, last = source // routers, target // routers
    a, b = source % routers, target % routers
    square = routers * routers
    if first == last:
        hops[0] = first * square + a * routers + b
        return 1
    count = 0
    here, group = a, first
    through = last
    if indirect:
        # An even draw among the groups that are neither the first nor the last.
        through = np.int64(draw % np.uint64(groups - 2))
        low, high = min(first, last), max(first, last)
        if through >= low:
            through += 1
        if through >= high:
            through += 1
    for to in (through, last):
        if to == group:
            continue
        stripe = np.int64((draw >> np.uint64(40)) % np.uint64(stripes))
        owner = gateway[group, to, stripe]
        if owner != here:
            hops[count] = group * square + here * routers + owner
            count += 1
        hops[count] = groups * square + (group * groups + to) * stripes + stripe
        count += 1
        here, group = gateway[to, group, stripe], to
    if here != b:
        hops[count] = group * square + here * routers + b
        count += 1
    return count


@njit(cache=True, nogil=True)
def run_packets(source, target, packets, offset, gateway, routers, indirect, seed, service, ticks, done, busy):
    """Run until every packet has arrived.

    Parameters
    ----------
    source, target, packets : ndarray of int64, shape (flows,)
        Router pairs, sorted by source, and packets of each.
    offset : ndarray of int64, shape (routers + 1,)
        Flows of each source.
    gateway : ndarray of int64, shape (groups, groups, stripes)
        Owners of the links between groups.
    routers : int
        Routers of a group.
    indirect : bool
        Whether every packet between groups goes through a random third one.
    seed : int
        Of the random groups and stripes.
    service : ndarray of int64, shape (links,)
        Ticks that a link needs for a packet.
    ticks : tuple of int
        Ticks of an injection, of a hop's latency, and the window of a router in packets.
    done : ndarray of int64, shape (flows,)
        Filled with the tick at which each flow's last packet arrives.
    busy : ndarray of int64, shape (links,)
        Filled with the ticks that each link worked.

    Returns
    -------
    (int, int)
        Last tick and number of hops.
    """
    sources = offset.size - 1
    links = service.size
    injection, latency, window = ticks
    slots = 0
    for q in range(sources):
        waiting = np.int64(0)
        for f in range(offset[q], offset[q + 1]):
            waiting += packets[f]
        slots += min(window, waiting)
    slots = max(slots, 1)
    left = packets.copy()
    turn = offset[:-1].copy()
    flying = np.zeros(sources, dtype=np.int64)
    injecting = np.zeros(sources, dtype=np.bool_)
    # A packet: its flow, links, number of links, and how many are behind it.
    flow_of = np.zeros(slots, dtype=np.int32)
    hops_of = np.zeros((slots, _MOST_HOPS), dtype=np.int32)
    length = np.zeros(slots, dtype=np.int8)
    behind = np.zeros(slots, dtype=np.int8)
    following = np.full(slots, _NONE, dtype=np.int32)
    free = np.arange(slots).astype(np.int32)
    free_count = slots
    head = np.full(links, _NONE, dtype=np.int32)
    tail = np.full(links, _NONE, dtype=np.int32)
    serving = np.full(links, _NONE, dtype=np.int32)
    pending = np.full(sources, _NONE, dtype=np.int32)
    times = np.zeros(links + sources, dtype=np.int64)
    items = np.zeros(links + sources, dtype=np.int64)
    size = 0
    wire_time = np.zeros(slots, dtype=np.int64)
    wire = np.zeros(slots, dtype=np.int32)
    wire_first, wire_count = 0, 0
    number = np.uint64(0)
    now = np.int64(0)
    hops = np.int64(0)
    route = np.zeros(_MOST_HOPS, dtype=np.int64)
    # Routers that may start an injection now; arrivals put theirs here too.
    ready = np.arange(sources)
    ready_count = sources
    while True:
        # Start injections.
        for n in range(ready_count):
            q = ready[n]
            if injecting[q] or flying[q] >= window:
                continue
            first, end = offset[q], offset[q + 1]
            f = turn[q]
            found = False
            for _ in range(end - first):
                if left[f] > 0:
                    found = True
                    break
                f = f + 1 if f + 1 < end else first
            if not found:
                continue
            turn[q] = f + 1 if f + 1 < end else first
            left[f] -= 1
            flying[q] += 1
            free_count -= 1
            p = free[free_count]
            state = number * np.uint64(2) + np.uint64(1) + (np.uint64(seed) << np.uint64(44))
            draw = mix(state * np.uint64(0x9E3779B97F4A7C15))
            number += np.uint64(1)
            count = _route(source[f], target[f], draw, indirect, gateway, routers, route)
            flow_of[p] = f
            length[p] = count
            behind[p] = 0
            for h in range(count):
                hops_of[p, h] = route[h]
            injecting[q] = True
            pending[q] = p
            size = push(times, items, size, now + injection, links + q)
        ready_count = 0
        if size == 0 and wire_count == 0:
            break
        arrives = wire_count > 0 and (size == 0 or wire_time[wire_first] <= times[0])
        entering = _NONE
        if arrives:
            now = wire_time[wire_first]
            p = wire[wire_first]
            wire_first = wire_first + 1 if wire_first + 1 < slots else 0
            wire_count -= 1
            behind[p] += 1
            if behind[p] == length[p]:
                f = flow_of[p]
                done[f] = now
                q = source[f]
                flying[q] -= 1
                free[free_count] = p
                free_count += 1
                ready[0] = q
                ready_count = 1
            else:
                entering = p
        else:
            now = times[0]
            item = items[0]
            size = pop(times, items, size)
            if item >= links:
                q = item - links
                entering = pending[q]
                injecting[q] = False
                ready[0] = q
                ready_count = 1
            else:
                hops += 1
                last = wire_first + wire_count
                if last >= slots:
                    last -= slots
                wire_time[last] = now + latency
                wire[last] = serving[item]
                wire_count += 1
                p = head[item]
                serving[item] = p
                if p != _NONE:
                    head[item] = following[p]
                    if head[item] == _NONE:
                        tail[item] = _NONE
                    busy[item] += service[item]
                    size = push(times, items, size, now + service[item], item)
        if entering != _NONE:
            link = hops_of[entering, behind[entering]]
            if serving[link] == _NONE:
                serving[link] = entering
                busy[link] += service[link]
                size = push(times, items, size, now + service[link], link)
            else:
                following[entering] = _NONE
                if tail[link] == _NONE:
                    head[link] = entering
                else:
                    following[tail[link]] = entering
                tail[link] = entering
    return now, hops
