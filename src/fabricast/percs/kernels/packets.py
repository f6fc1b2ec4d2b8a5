"""Compiled code of the packet-level network: FIFO links, windows, times in whole ticks.

What takes equally long ends in the order in which it began, so a ring for each duration holds
what busy links and injecting routers end next; packets on the wire stand in a ring likewise.
Ties are broken by number, so that runs repeat.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fabricast.percs.kernels.common import mix
from fabricast.percs.kernels.prefetch import prefetch
from fabricast.runtime.compilation import allocation_free, njit

__all__ = ["Flows", "Network", "run_packets"]

_NONE = np.int32(-1)
_MOST_HOPS = 5
#: How many events ahead memory is asked for: what decides where, and what follows from it.
_FAR, _NEAR = 8, 4
# Places of `counters`: the time, hops so far, free slots, packets on the wire, packets drawn.
NOW, HOPS, FREE, WIRE_FIRST, WIRE_COUNT, DRAWN = range(6)
# Rows of `ring_state`: one column a ring.
RING_FIRST, RING_COUNT = range(2)
# Columns of `packets` after the links that one has yet to pass, the next one last; `FOLLOWING` waits behind it.
LEFT, FLOW, FOLLOWING = range(_MOST_HOPS, _MOST_HOPS + 3)
# Columns of `links`: the packet that one serves, the first and the last that wait for it, and its ring, so that all
# that an event asks of a link stands in one line of the cache.
SERVING, HEAD, TAIL, RING = range(4)


class Flows(NamedTuple):
    """Pairs of routers sorted by source, the packets of each, and where the flows of each source begin."""

    source: Any
    target: Any
    packets: Any
    offset: Any


class Network(NamedTuple):
    """Owners of links between groups, routers of a group, routing, and ticks of links, injections and hops.

    `durations` are the different ones of links and injections; `ring_of` tells which of them each link has, and
    last that of injections.
    """

    gateway: Any
    routers: Any
    indirect: Any
    seed: Any
    durations: Any
    ring_of: Any
    latency: Any
    window: Any


class _State(NamedTuple):
    """What changes: by flow, by source, by packet slot, by link, then the rings of what ends and the wire.

    What is known of a packet stands in one row, half a line of the cache, and so does what is known of a link.
    """

    counters: Any
    left: Any
    turn: Any
    flying: Any
    injecting: Any
    pending: Any
    packets: Any
    free: Any
    links: Any
    ring_state: Any
    ring_time: Any
    ring_item: Any
    wire_time: Any
    wire: Any
    route: Any


@allocation_free(inline="always")
def _route(source, target, draw, network, hops):
    """Write the links of a packet's route and return how many there are."""
    gateway, routers = network.gateway, network.routers
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
    if network.indirect:
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
def _new_state(flows, network):
    """Working memory: a slot for every packet that may be under way."""
    sources, links = flows.offset.size - 1, network.ring_of.size - 1
    rings = network.durations.size
    slots = 0
    for q in range(sources):
        waiting = np.int64(0)
        for f in range(flows.offset[q], flows.offset[q + 1]):
            waiting += flows.packets[f]
        slots += min(network.window, waiting)
    slots = max(slots, 1)
    counters = np.zeros(6, dtype=np.int64)
    counters[FREE] = slots
    of_links = np.full((links, 4), _NONE, dtype=np.int32)
    of_links[:, RING] = network.ring_of[:links]
    return _State(
        counters=counters,
        left=flows.packets.copy(),
        turn=flows.offset[:-1].copy(),
        flying=np.zeros(sources, dtype=np.int64),
        injecting=np.zeros(sources, dtype=np.bool_),
        pending=np.full(sources, _NONE, dtype=np.int32),
        packets=np.zeros((slots, _MOST_HOPS + 3), dtype=np.int32),
        free=np.arange(slots).astype(np.int32),
        links=of_links,
        ring_state=np.zeros((2, rings), dtype=np.int64),
        ring_time=np.zeros((rings, links + sources), dtype=np.int64),
        ring_item=np.zeros((rings, links + sources), dtype=np.int64),
        wire_time=np.zeros(slots, dtype=np.int64),
        wire=np.zeros(slots, dtype=np.int32),
        route=np.zeros(_MOST_HOPS, dtype=np.int64),
    )


@allocation_free(inline="always")
def _later(first, steps, room):
    """Return the place in a ring some steps after the first."""
    place = first + steps
    return np.uint32(place - room if place >= room else place)


@allocation_free(inline="always")
def _start_work(ring, item, network, state):
    """Note when the work of a link or an injection ends that starts now."""
    ring_state, times, items = state.ring_state, state.ring_time, state.ring_item
    room = times.shape[1]
    end = state.counters[NOW] + network.durations[ring]
    place = _later(ring_state[RING_FIRST, ring], ring_state[RING_COUNT, ring], room)
    # Those that end at the same time stand by number.
    for _ in range(ring_state[RING_COUNT, ring]):
        before = place - 1 if place > 0 else room - 1
        if times[ring, before] < end or items[ring, before] < item:
            break
        items[ring, place] = items[ring, before]
        times[ring, place] = end
        place = before
    times[ring, place] = end
    items[ring, place] = item
    ring_state[RING_COUNT, ring] += 1


@allocation_free(inline="always")
def _next_work(state):
    """Return the ring in which work ends next, -1 if there is none."""
    ring_state, times, items = state.ring_state, state.ring_time, state.ring_item
    found = np.int64(-1)
    time, item = np.int64(0), np.int64(0)
    for ring in range(ring_state.shape[1]):
        if ring_state[RING_COUNT, ring] == 0:
            continue
        first = ring_state[RING_FIRST, ring]
        own = times[ring, first]
        if found < 0 or own < time or (own == time and items[ring, first] < item):
            found, time, item = ring, own, items[ring, first]
    return found


@allocation_free(inline="always")
def _inject(q, flows, network, state):
    """Start the injection of a router's next packet, flow by flow in turn, if its window allows."""
    counters = state.counters
    if state.injecting[q] or state.flying[q] >= network.window:
        return
    first, end = flows.offset[q], flows.offset[q + 1]
    f = state.turn[q]
    found = False
    for _ in range(end - first):
        if state.left[f] > 0:
            found = True
            break
        f = f + 1 if f + 1 < end else first
    if not found:
        return
    state.turn[q] = f + 1 if f + 1 < end else first
    state.left[f] -= 1
    state.flying[q] += 1
    counters[FREE] -= 1
    p = np.uint32(state.free[counters[FREE]])
    number = np.uint64(counters[DRAWN]) * np.uint64(2) + np.uint64(1) + (np.uint64(network.seed) << np.uint64(44))
    draw = mix(number * np.uint64(0x9E3779B97F4A7C15))
    counters[DRAWN] += 1
    count = _route(flows.source[f], flows.target[f], draw, network, state.route)
    state.packets[p, FLOW] = f
    state.packets[p, LEFT] = count
    for h in range(count):
        state.packets[p, count - 1 - h] = state.route[h]
    state.injecting[q] = True
    state.pending[q] = p
    links = network.ring_of.size - 1
    _start_work(network.ring_of[links], links + q, network, state)


@allocation_free(inline="always")
def _look_along_wire(state):
    """Ask for the packets that arrive soon, and for the links that those take which arrive sooner."""
    first, room = state.counters[WIRE_FIRST], state.wire.size
    if state.counters[WIRE_COUNT] > _FAR:
        prefetch(state.packets, state.wire[_later(first, _FAR, room)])
        p = np.uint32(state.wire[_later(first, _NEAR, room)])
        left = state.packets[p, LEFT]
        if left > 1:
            prefetch(state.links, state.packets[p, np.uint32(left - 2)])


@allocation_free(inline="always")
def _look_along_ring(ring, links, state):
    """Ask for the links whose work ends soon, and for the packets that wait for those that are done sooner."""
    first, room = state.ring_state[RING_FIRST, ring], state.ring_item.shape[1]
    if state.ring_state[RING_COUNT, ring] > _FAR:
        item = state.ring_item[ring, _later(first, _FAR, room)]
        if item < links:
            prefetch(state.links, item)
        item = state.ring_item[ring, _later(first, _NEAR, room)]
        if item < links:
            p = state.links[np.uint32(item), HEAD]
            if p != _NONE:
                prefetch(state.packets, p)


@allocation_free(inline="always")
def _arrive(flows, done, state):
    """Take the first packet off the wire; return the packet that enters a queue, and the router that may inject."""
    counters = state.counters
    counters[NOW] = state.wire_time[counters[WIRE_FIRST]]
    p = np.uint32(state.wire[counters[WIRE_FIRST]])
    counters[WIRE_FIRST] = _later(counters[WIRE_FIRST], 1, state.wire.size)
    counters[WIRE_COUNT] -= 1
    _look_along_wire(state)
    state.packets[p, LEFT] -= 1
    q = np.int64(-1)
    entering = np.int64(p)
    if state.packets[p, LEFT] == 0:
        f = state.packets[p, FLOW]
        done[f] = counters[NOW]
        q = flows.source[f]
        state.flying[q] -= 1
        state.free[counters[FREE]] = p
        counters[FREE] += 1
        entering = np.int64(-1)
    return entering, q


@allocation_free(inline="always")
def _end_work(ring, network, busy, state):
    """End an injection or a transmission; return the packet that enters a queue, and the router that may inject."""
    counters, ring_state = state.counters, state.ring_state
    links = network.ring_of.size - 1
    first = ring_state[RING_FIRST, ring]
    counters[NOW] = state.ring_time[ring, first]
    item = state.ring_item[ring, first]
    ring_state[RING_FIRST, ring] = _later(first, 1, state.ring_time.shape[1])
    ring_state[RING_COUNT, ring] -= 1
    _look_along_ring(ring, links, state)
    q = np.int64(-1)
    entering = np.int64(-1)
    if item >= links:
        q = item - links
        entering = np.int64(state.pending[q])
        state.injecting[q] = False
    else:
        counters[HOPS] += 1
        last = _later(counters[WIRE_FIRST], counters[WIRE_COUNT], state.wire.size)
        state.wire_time[last] = counters[NOW] + network.latency
        link = np.uint32(item)
        state.wire[last] = state.links[link, SERVING]
        counters[WIRE_COUNT] += 1
        p = state.links[link, HEAD]
        state.links[link, SERVING] = p
        if p != _NONE:
            following = state.packets[np.uint32(p), FOLLOWING]
            state.links[link, HEAD] = following
            if following == _NONE:
                state.links[link, TAIL] = _NONE
            busy[item] += network.durations[ring]
            _start_work(ring, item, network, state)
    return entering, q


@allocation_free(inline="always")
def _enter(p, network, busy, state):
    """Put a packet into the queue of its next link, or onto the link if that is idle."""
    packets, links, packet = state.packets, state.links, np.uint32(p)
    link = np.uint32(packets[packet, np.uint32(packets[packet, LEFT] - 1)])
    if links[link, SERVING] == _NONE:
        links[link, SERVING] = p
        ring = np.int64(links[link, RING])
        busy[link] += network.durations[ring]
        _start_work(ring, np.int64(link), network, state)
    else:
        packets[packet, FOLLOWING] = _NONE
        if links[link, TAIL] == _NONE:
            links[link, HEAD] = p
        else:
            packets[np.uint32(links[link, TAIL]), FOLLOWING] = p
        links[link, TAIL] = p


@allocation_free()
def _run(flows, network, done, busy, state):
    """Handle events until nothing is under way."""
    counters = state.counters
    for q in range(flows.offset.size - 1):
        _inject(q, flows, network, state)
    while True:
        ring = _next_work(state)
        if ring < 0 and counters[WIRE_COUNT] == 0:
            break
        arrives = ring < 0
        if not arrives and counters[WIRE_COUNT] > 0:
            arrives = state.wire_time[counters[WIRE_FIRST]] <= state.ring_time[ring, state.ring_state[RING_FIRST, ring]]
        if arrives:
            entering, q = _arrive(flows, done, state)
        else:
            entering, q = _end_work(ring, network, busy, state)
        if entering >= 0:
            _enter(entering, network, busy, state)
        if q >= 0:
            _inject(q, flows, network, state)


@njit(cache=True, nogil=True)
def run_packets(flows, network, done, busy):
    """Run until every packet has arrived.

    Parameters
    ----------
    flows : Flows
        Arrays of int64: pairs of routers, sorted by source, and packets of each.
    network : Network
        Gateways, int64 of shape (groups, groups, stripes); ticks that links need for a packet and routers
        for its injection; ticks of a hop's latency; packets in flight of a router.
    done : ndarray of int64, shape (flows,)
        Filled with the tick at which each flow's last packet arrives.
    busy : ndarray of int64, shape (links,)
        Filled with the ticks that each link worked.

    Returns
    -------
    (int, int)
        Last tick and number of hops.
    """
    state = _new_state(flows, network)
    _run(flows, network, done, busy, state)
    return state.counters[NOW], state.counters[HOPS]
