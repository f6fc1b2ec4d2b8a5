"""Reference packet-level simulator with objects, lists and a heap, without fast-forward.

It follows the description of the hardware (store-and-forward, no latency), and counts time in exact fractions of a byte
time.
"""

import heapq
import math
from collections import deque
from fractions import Fraction


class Buffer:
    """Queue of packets: the source of a copy, or an input buffer of a link."""

    def __init__(self, link=None):
        self.link = link
        self.packets = deque()
        self.pieces_left = 0

    def push(self, packet):
        self.packets.append(packet)
        if len(self.packets) == 1:
            self.pieces_left = packet["pieces"]


class Program:
    """Start of copies under engines and barriers.

    An engine executes one copy at a time, and a barrier keeps the order of issue.
    `turns` is the number of flows that engines serve round-robin, or 0 for the order of copies. `pause` is the pause of
    an engine that changes its flow, in byte times.
    """

    def __init__(self, engine, barrier, flow, pause, turns):
        self.engine, self.barrier, self.flow, self.pause, self.turns = engine, barrier, flow, pause, turns
        self.last, self.busy = {}, set()
        self.waiting, self.done = list(range(len(engine))), set()

    def end(self, c):
        self.done.add(c)
        self.busy.discard(self.engine[c])

    def claim(self):
        """Return the copies that may start now, each with its pause."""

        def free(c):
            points = {point for point in self.barrier[c] if point >= 0}
            return all(b in self.done for b in range(c) if points & set(self.barrier[b]))

        ready = [c for c in self.waiting if free(c) and self.engine[c] not in self.busy]
        chosen = [(c, 0) for c in ready if self.engine[c] < 0]
        for engine in sorted({self.engine[c] for c in ready if self.engine[c] >= 0}):
            last = self.last.get(engine)
            candidates = [c for c in ready if self.engine[c] == engine]
            if self.turns:
                candidates.sort(key=lambda c: (self.flow[c] - (-1 if last is None else last) - 1) % self.turns)
            first = candidates[0]
            chosen.append((first, self.pause[first] if last not in (None, self.flow[first]) else 0))
            self.last[engine] = self.flow[first]
            self.busy.add(engine)
        self.waiting = [c for c in self.waiting if c not in {c for c, _ in chosen}]
        return chosen


def simulate(tree, pairs, packets, hardware, start=None, program=None):
    """Return the completion time of each copy in byte times of a link of capacity 1."""
    start = start or [0] * len(pairs)
    whole, piece = hardware.packet_bytes
    names = tree.endpoint_names
    capacity = [Fraction(float(c)).limit_denominator(1000) for c in tree.routes.capacity]
    routes = [tree.route(names[s], names[t]) for s, t in pairs]
    cuts = []
    for route in routes:
        roots = [h for h, link in enumerate(route) if tree.vertex(tree.link_names[link][0]).kind == "root_complex"]
        cuts.append(roots[0] if roots and hardware.split_bytes else len(route))
    voq = hardware.buffering == "virtual_output_queues"
    sources = [Buffer() for _ in pairs]
    buffers, feeders = {}, {}
    for c, route in enumerate(routes):
        before = sources[c]
        for h, link in enumerate(route):
            queue = feeders.setdefault(link, [])
            if not any(before is known for known in queue):
                queue.append(before)
            if h + 1 < len(route):
                key = (link, route[h + 1]) if voq else link
                before = buffers.setdefault(key, Buffer(link))
    state = {
        link: {
            "busy": False,
            "turn": len(queues) - 1,
            "headers": hardware.header_credits,
            "data": hardware.data_credits,
        }
        for link, queues in feeders.items()
    }

    def units(c, h):
        return -(-(hardware.split_bytes if h >= cuts[c] else hardware.payload_bytes) // 16)

    def next_packet(c, h):
        return {"c": c, "h": h, "pieces": hardware.pieces if h == cuts[c] else 1}

    left = [n * (hardware.pieces if cuts[c] < len(routes[c]) else 1) for c, n in enumerate(packets)]
    ends = [None] * len(pairs)
    events, number = [], 0
    for c, begin in enumerate(start) if program is None else program.claim():
        heapq.heappush(events, (Fraction(begin), number, "start", c))
        number += 1
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, _, kind, what = heapq.heappop(events)
            if kind == "start":
                for _ in range(packets[what]):
                    sources[what].push(next_packet(what, 0))
                continue
            link, packet, freed = what
            state[link]["busy"] = False
            c, h = packet["c"], packet["h"]
            if freed is not None:
                state[freed]["headers"] += 1
                state[freed]["data"] += units(c, h - 1)
            if h + 1 == len(routes[c]):
                left[c] -= 1
                if left[c] == 0:
                    ends[c] = now
                    if program is not None:
                        program.end(c)
                state[link]["headers"] += 1
                state[link]["data"] += units(c, h)
            else:
                after = routes[c][h + 1]
                buffers[(link, after) if voq else link].push(next_packet(c, h + 1))
        for c, pause in program.claim() if program is not None else ():
            if pause:
                heapq.heappush(events, (now + pause, number, "start", c))
                number += 1
                continue
            for _ in range(packets[c]):
                sources[c].push(next_packet(c, 0))
        moved = True
        while moved:
            heads = {id(b): (b.packets[0] if b.packets else None) for queues in feeders.values() for b in queues}
            granted = []
            for link, queues in feeders.items():
                if state[link]["busy"]:
                    continue
                for offset in range(1, len(queues) + 1):
                    turn = (state[link]["turn"] + offset) % len(queues)
                    packet = heads[id(queues[turn])]
                    if packet is None or routes[packet["c"]][packet["h"]] != link:
                        continue
                    need = units(packet["c"], packet["h"])
                    if state[link]["headers"] >= 1 and state[link]["data"] >= need:
                        granted.append((link, turn, packet, need))
                    break
            moved = bool(granted)
            for link, turn, packet, need in granted:
                buffer = feeders[link][turn]
                state[link].update(
                    busy=True, turn=turn, headers=state[link]["headers"] - 1, data=state[link]["data"] - need
                )
                assert state[link]["headers"] >= 0
                assert state[link]["data"] >= 0
                freed = None
                buffer.pieces_left -= 1
                if buffer.pieces_left == 0:
                    buffer.packets.popleft()
                    freed = buffer.link
                    if buffer.packets:
                        buffer.pieces_left = buffer.packets[0]["pieces"]
                size = piece if packet["h"] >= cuts[packet["c"]] else whole
                heapq.heappush(events, (now + size / capacity[link], number, "end", (link, packet, freed)))
                number += 1
    return ends


def isolated_time_s(tree, source, target, size_bytes, hardware):
    """Return the time of an isolated copy in s, in closed form, with store-and-forward switches.

    The slowest link transmits without pauses. Every other link adds the time of one packet.
    """
    packets = math.ceil(size_bytes / hardware.payload_bytes)
    whole, piece = hardware.packet_bytes
    split = hardware.split_bytes is not None
    byte_s = 1 / hardware.raw_bytes_per_s
    first_packet, slowest, cut = 0.0, 0.0, False
    for link in tree.route(source, target):
        leaves_root_complex = tree.vertex(tree.link_names[link][0]).kind == "root_complex"
        entered = leaves_root_complex and split and not cut
        cut = cut or entered
        capacity = float(tree.routes.capacity[link])
        unit = (piece if cut else whole) / capacity * byte_s + (hardware.piece_cost_ns * 1e-9 if entered else 0.0)
        first_packet += unit + hardware.hop_latency_ns * 1e-9
        units = packets * (hardware.pieces if cut else 1)
        slowest = max(slowest, unit * (units - 1))
    return first_packet + slowest
