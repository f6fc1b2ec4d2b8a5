"""Reference packet simulation of a two-level network with a heap of events."""

import heapq
from collections import deque

from tests.reference_network import links_along, third_groups

TICKS_PER_S = 1e12
ARRIVAL, WORK = range(2)


def even_draw(number, seed):
    """Return the random draw of a packet (splitmix64)."""
    mask = 2**64 - 1
    z = ((2 * number + 1 + (seed << 44)) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def route(network, first, last, routing, draw):
    """Return the links on the route of one packet."""
    one, two = first // network.group_routers, last // network.group_routers
    if one == two:
        return links_along(network, first, last, (), ())
    thirds = third_groups(network, one, two)
    way = [two] if routing == "direct" else [thirds[draw % len(thirds)], two]
    return links_along(network, first, last, way, [(draw >> 40) % network.multiplicity] * len(way))


class Router:
    """Router that injects its flows in round-robin order within a window."""

    def __init__(self, flows, packets):
        self.left = {flow: packets[flow] for flow in flows}
        self.turn, self.flying, self.is_injecting = deque(flows), 0, False

    def next_flow(self, window):
        """Return the flow of the next packet and advance the round-robin order.

        None if the router may not inject.
        """
        if self.is_injecting or self.flying >= window or not any(self.left.values()):
            return None
        while not self.left[self.turn[0]]:
            self.turn.rotate(-1)
        flow = self.turn[0]
        self.turn.rotate(-1)
        self.left[flow] -= 1
        self.flying += 1
        self.is_injecting = True
        return flow


def simulate(pairs, network, routing, packet_bytes, window, seed):
    """Return completion time of each pair and busy time of each link in s, and hops."""
    sources, targets, sizes = (column.tolist() for column in pairs)
    packets = [-int(-size // packet_bytes) for size in sizes]
    capacity = network.link_capacities(network.multiplicity)
    square = network.group_routers**2

    def number_of(link):
        kind, group, second, third = link
        if kind == "L":
            return group * square + second * network.group_routers + third
        return network.groups * square + (group * network.groups + second) * network.multiplicity + third

    def ticks(rate):
        return max(1, round(packet_bytes / rate * TICKS_PER_S))

    latency = max(1, round(network.hop_latency_s * TICKS_PER_S))
    routers = [Router([n for n, source in enumerate(sources) if source == q], packets) for q in range(network.routers)]
    links = capacity.size
    queues, busy = [deque() for _ in range(links)], [0] * links
    done, hops, drawn, sent = [0] * len(sources), 0, 0, 0
    events = []

    def inject(q, now):
        nonlocal drawn
        flow = routers[q].next_flow(window)
        if flow is not None:
            way = route(network, sources[flow], targets[flow], routing, even_draw(drawn, seed))
            drawn += 1
            end = now + ticks(network.injection_bytes_per_s)
            heapq.heappush(events, (end, WORK, links + q, (flow, deque(map(number_of, way)))))

    def serve(link, now):
        busy[link] += ticks(capacity[link])
        heapq.heappush(events, (now + ticks(capacity[link]), WORK, link, None))

    def enter(packet, now):
        link = packet[1].popleft()
        queues[link].append(packet)
        if len(queues[link]) == 1:
            serve(link, now)

    for q in range(network.routers):
        inject(q, 0)
    while events:
        now, kind, number, packet = heapq.heappop(events)
        if kind == ARRIVAL and packet[1]:
            enter(packet, now)
        elif kind == ARRIVAL:
            done[packet[0]] = now
            routers[sources[packet[0]]].flying -= 1
            inject(sources[packet[0]], now)
        elif number >= links:
            routers[number - links].is_injecting = False
            enter(packet, now)
            inject(number - links, now)
        else:
            hops += 1
            sent += 1
            heapq.heappush(events, (now + latency, ARRIVAL, sent, queues[number].popleft()))
            if queues[number]:
                serve(number, now)
    return [end / TICKS_PER_S for end in done], [worked / TICKS_PER_S for worked in busy], hops
