"""Compiled event loop of the packet-level network simulation.

Links are FIFO queues, each router has a limited window, and times are integer ticks. Operations of
equal duration finish in the order in which they started. Each distinct duration therefore has a
ring buffer of pending completions of links and injections; packets on the wire have one ring
buffer. Ties are broken by index, so that runs are reproducible.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from fabricast.percs.kernels.common import mix
from fabricast.percs.kernels.prefetch import prefetch
from fabricast.runtime.compilation import allocation_free, njit

_NONE = np.int32(-1)
MOST_HOPS = 5
#: Prefetch distances in events: the farther one for an event, the nearer one for data that the event refers to.
_FAR, _NEAR = 8, 4
# Indices of `counters`: current time, hops so far, free slots, first packet and number of packets on the wire,
# packets with a random draw so far.
NOW, HOPS, FREE, WIRE_FIRST, WIRE_COUNT, DRAWN = range(6)
# Rows of `ring_state`; one column per ring.
RING_FIRST, RING_COUNT = range(2)
# Columns of `packets` after the remaining links in reverse order: number of remaining links, flow, and the next
# packet in the same queue.
LEFT, FLOW, FOLLOWING = range(MOST_HOPS, MOST_HOPS + 3)
# Columns of `links`: packet in service, first and last waiting packet, and ring. All data of a link share one cache
# line.
SERVING, HEAD, TAIL, RING = range(4)


#: Router pairs sorted by source, packet counts, and first flow of each source. With `route_link`, the links of flow f
#: are ``route_link[route_offset[f] : route_offset[f + 1]]``; otherwise routes are those of a two-level direct network.
Flows = namedtuple("Flows", "source target packets offset route_offset route_link")


#: Topology, routing and timing of the simulated network. `gateway` contains the routers with links between groups,
#: `routers` the number of routers per group. `durations` contains the distinct service times in ticks; `ring_of` maps
#: each link, and finally the injection, to its duration. `latency` is the latency of a link in ticks.
Network = namedtuple("Network", "gateway routers indirect seed durations ring_of latency window")


#: Simulation state by flow, source, packet slot, link and ring. The state of a packet is one row that occupies half a
#: cache line; the state of a link is also one row.
_State = namedtuple(
    "_State",
    "counters left turn flying injecting pending packets free links ring_state ring_time ring_item wire_time wire "
    "route",
)


@allocation_free(inline="always")
def _route(source, target, draw, network, hops):
    """Write the links of a packet's route to `hops` and return their number."""
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
        # Uniform draw among the groups other than source and target group.
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


@njit
def _new_state(flows, network):
    """Allocate the state with one slot for every packet that may be in flight."""
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
        packets=np.zeros((slots, MOST_HOPS + 3), dtype=np.int32),
        free=np.arange(slots).astype(np.int32),
        links=of_links,
        ring_state=np.zeros((2, rings), dtype=np.int64),
        ring_time=np.zeros((rings, links + sources), dtype=np.int64),
        ring_item=np.zeros((rings, links + sources), dtype=np.int64),
        wire_time=np.zeros(slots, dtype=np.int64),
        wire=np.zeros(slots, dtype=np.int32),
        route=np.zeros(MOST_HOPS, dtype=np.int64),
    )


@allocation_free(inline="always")
def _later(first, steps, room):
    """Return the ring buffer index that is `steps` after `first`."""
    index = first + steps
    return np.uint32(index - room if index >= room else index)


@allocation_free(inline="always")
def _start_work(ring, item, network, state):
    """Schedule the completion of a transmission or injection that starts now."""
    ring_state, times, items = state.ring_state, state.ring_time, state.ring_item
    room = times.shape[1]
    end = state.counters[NOW] + network.durations[ring]
    index = _later(ring_state[RING_FIRST, ring], ring_state[RING_COUNT, ring], room)
    # Completions at the same time are sorted by index.
    for _ in range(ring_state[RING_COUNT, ring]):
        before = index - 1 if index > 0 else room - 1
        if times[ring, before] < end or items[ring, before] < item:
            break
        items[ring, index] = items[ring, before]
        times[ring, index] = end
        index = before
    times[ring, index] = end
    items[ring, index] = item
    ring_state[RING_COUNT, ring] += 1


@allocation_free(inline="always")
def _next_work(state):
    """Return the ring with the next completion; -1 if all rings are empty."""
    ring_state, times, items = state.ring_state, state.ring_time, state.ring_item
    next_ring = np.int64(-1)
    time, item = np.int64(0), np.int64(0)
    for ring in range(ring_state.shape[1]):
        if ring_state[RING_COUNT, ring] == 0:
            continue
        first = ring_state[RING_FIRST, ring]
        ring_time = times[ring, first]
        if next_ring < 0 or ring_time < time or (ring_time == time and items[ring, first] < item):
            next_ring, time, item = ring, ring_time, items[ring, first]
    return next_ring


@allocation_free(inline="always")
def _inject(q, flows, network, state):
    """Start injecting a router's next packet if its window allows.

    Flows of a router are served in round-robin order.
    """
    counters = state.counters
    if state.injecting[q] or state.flying[q] >= network.window:
        return
    first, end = flows.offset[q], flows.offset[q + 1]
    f = state.turn[q]
    has_packet = False
    for _ in range(end - first):
        if state.left[f] > 0:
            has_packet = True
            break
        f = f + 1 if f + 1 < end else first
    if not has_packet:
        return
    state.turn[q] = f + 1 if f + 1 < end else first
    state.left[f] -= 1
    state.flying[q] += 1
    counters[FREE] -= 1
    p = np.uint32(state.free[counters[FREE]])
    number = np.uint64(counters[DRAWN]) * np.uint64(2) + np.uint64(1) + (np.uint64(network.seed) << np.uint64(44))
    draw = mix(number * np.uint64(0x9E3779B97F4A7C15))
    counters[DRAWN] += 1
    if flows.route_link.size > 0:
        begin = flows.route_offset[f]
        count = flows.route_offset[f + 1] - begin
        for h in range(count):
            state.route[h] = flows.route_link[begin + h]
    else:
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
    """Prefetch packets that arrive next and the links that they enter."""
    first, room = state.counters[WIRE_FIRST], state.wire.size
    if state.counters[WIRE_COUNT] > _FAR:
        prefetch(state.packets, state.wire[_later(first, _FAR, room)])
        p = np.uint32(state.wire[_later(first, _NEAR, room)])
        left = state.packets[p, LEFT]
        if left > 1:
            prefetch(state.links, state.packets[p, np.uint32(left - 2)])


@allocation_free(inline="always")
def _look_along_ring(ring, links, state):
    """Prefetch the links that complete next and the first packets in their queues."""
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
    """Process the arrival of the first packet on the wire.

    Return the packet that enters a queue and the router that may inject, or -1.
    """
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
    """Process the completion of an injection or transmission.

    Return the packet that enters a queue and the router that may inject, or -1.
    """
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
    """Add a packet to the queue of its next link, or transmit it if the link is idle."""
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


@allocation_free
def _run(flows, network, done, busy, state):
    """Process events until no packet is in flight."""
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


@njit
def run_packets(flows, network, done, busy):
    """Simulate until every packet has arrived.

    Shapes: done (flows,); busy (links,).
    """
    state = _new_state(flows, network)
    _run(flows, network, done, busy, state)
    return state.counters[NOW], state.counters[HOPS]
