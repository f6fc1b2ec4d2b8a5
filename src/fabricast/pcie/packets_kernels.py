"""Compiled kernel of the packet-level simulator: transaction-layer packets on PCIe links.

Nothing here knows of congestion factors. All times are whole ticks, all state is whole
numbers, and within one tick arrivals, returned credits and arbitration are handled in
that order, so a run does not depend on the order in which links are visited.
"""

from __future__ import annotations

import numpy as np

from fabricast.compilation import njit

__all__ = ["simulate_graphs"]

_NEVER = np.int64(2**62)

# Rows of `links`: one column a used link.
(
    BUSY_UNTIL,
    SENDING_STEP,
    FREES_INPUT,
    HEADER_CREDITS,
    DATA_CREDITS,
    LAST_TURN,
    TURNS,
    DIRTY,
    GLOBAL_LINK,
    ARRIVAL_HEAD,
    ARRIVAL_COUNT,
    CREDIT_HEAD,
    CREDIT_COUNT,
    UNFINISHED_USERS,
    REVERSE,
    SENT,
    GRANTED_QUEUE,
) = range(17)
# Rows of `queues`: the first are the sources, one a communication; then input buffers.
HEAD, LENGTH, PIECES_LEFT, INPUT_LINK, OUTPUT_LINK = range(5)
# Rows of `steps`: one column a hop of a communication.
LINK, QUEUE_AFTER, KIND, TICKS, ARRIVAL_DELAY, PIECES, COMMUNICATION = range(7)
# Rows of `messages`: one column a communication.
FIRST_STEP, TO_SEND, TO_DELIVER, STATE, END = range(5)
WAITING, RUNNING, DONE = range(3)
# Planes of `flight`: what travels on a link, and which credits travel back.
ARRIVAL_TICK, ARRIVAL_STEP, CREDIT_TICK, CREDIT_KIND = range(4)


@njit(cache=True, error_model="numpy")
def _same_state(
    keep, snapshot, tick, link_count, queue_count, message_count, room, links, queues, slots, flight, in_flight
):
    """Compare the state with a snapshot, or keep it as one; counters of bytes are not part of it."""
    at = 0
    for m in range(link_count):
        busy = links[BUSY_UNTIL, m]
        value = np.int64(-1)
        if busy != _NEVER:
            value = ((busy - tick) * 65536 + links[SENDING_STEP, m]) * 2 + links[FREES_INPUT, m]
        if keep:
            snapshot[at] = value
        elif snapshot[at] != value:
            return False
        at += 1
    for q in range(message_count, queue_count):
        value = queues[LENGTH, q] * 1024 + queues[PIECES_LEFT, q]
        if keep:
            snapshot[at] = value
        elif snapshot[at] != value:
            return False
        at += 1
    for m in range(link_count):
        for row in (LAST_TURN, HEADER_CREDITS, DATA_CREDITS):
            if keep:
                snapshot[at] = links[row, m]
            elif snapshot[at] != links[row, m]:
                return False
            at += 1
    for q in range(message_count):
        # A source that is between two pieces cannot be: pieces exist behind the root complex only.
        if keep:
            snapshot[at] = queues[LENGTH, q]
        elif snapshot[at] != queues[LENGTH, q]:
            return False
        at += 1
    for q in range(message_count, queue_count):
        for k in range(queues[LENGTH, q]):
            value = slots[q, (queues[HEAD, q] + k) % room]
            if keep:
                snapshot[at] = value
            elif snapshot[at] != value:
                return False
            at += 1
    if in_flight:
        for m in range(link_count):
            for side in range(2):
                head = links[ARRIVAL_HEAD + 2 * side, m]
                count = links[ARRIVAL_COUNT + 2 * side, m]
                if keep:
                    snapshot[at] = count
                elif snapshot[at] != count:
                    return False
                at += 1
                for k in range(count):
                    place = (head + k) % room
                    when = flight[ARRIVAL_TICK + 2 * side, m, place] - tick
                    what = flight[ARRIVAL_STEP + 2 * side, m, place]
                    if keep:
                        snapshot[at] = when
                        snapshot[at + 1] = what
                    elif snapshot[at] != when or snapshot[at + 1] != what:
                        return False
                    at += 2
    return True


@njit(cache=True, error_model="numpy")
def _phase_of(link, phase):
    """Return how far the arbiter of a link has turned in a phase; none has in the first."""
    mixed = (np.int64(link) + 1) * np.int64(2654435761) * phase
    return (mixed >> np.int64(13)) & np.int64(1023)


@njit(cache=True, error_model="numpy")
def _lay_out(
    first,
    message_count,
    source,
    target,
    packets,
    endpoints,
    route_offset,
    route_link,
    split_hop,
    wire_ticks,
    piece_cost_ticks,
    latency_ticks,
    header_ticks,
    pieces,
    virtual_output_queues,
    header_credits,
    data_credits,
    reverse_link,
    phase,
    local,
    turns,
    links,
    queues,
    steps,
    messages,
):
    """Assign numbers to the links, queues and hops of one graph; return how many links and queues."""
    link_count = 0
    step = 0
    for c in range(message_count):
        pair = source[first + c] * endpoints + target[first + c]
        messages[FIRST_STEP, c] = step
        messages[TO_SEND, c] = packets[first + c]
        crosses = split_hop[pair] < route_offset[pair + 1] - route_offset[pair]
        messages[TO_DELIVER, c] = packets[first + c] * (pieces if crosses else 1)
        messages[STATE, c] = WAITING
        messages[END, c] = -1
        for hop in range(route_offset[pair + 1] - route_offset[pair]):
            link = route_link[route_offset[pair] + hop]
            if local[link] < 0:
                m = link_count
                local[link] = m
                links[BUSY_UNTIL, m] = _NEVER
                links[SENDING_STEP, m] = 0
                links[FREES_INPUT, m] = 0
                links[HEADER_CREDITS, m] = header_credits
                links[DATA_CREDITS, m] = data_credits
                links[LAST_TURN, m] = 0
                links[TURNS, m] = 0
                links[DIRTY, m] = 0
                links[GLOBAL_LINK, m] = link
                links[ARRIVAL_HEAD, m] = 0
                links[ARRIVAL_COUNT, m] = 0
                links[CREDIT_HEAD, m] = 0
                links[CREDIT_COUNT, m] = 0
                links[UNFINISHED_USERS, m] = 0
                links[SENT, m] = 0
                link_count += 1
            steps[LINK, step] = local[link]
            links[UNFINISHED_USERS, local[link]] += 1
            kind = 1 if hop >= split_hop[pair] else 0
            steps[KIND, step] = kind
            steps[TICKS, step] = wire_ticks[kind, link] + (piece_cost_ticks if hop == split_hop[pair] else 0)
            steps[PIECES, step] = pieces if hop == split_hop[pair] else 1
            steps[COMMUNICATION, step] = c
            step += 1
    for m in range(link_count):
        other = reverse_link[links[GLOBAL_LINK, m]]
        links[REVERSE, m] = local[other]
    for c in range(message_count):
        queues[HEAD, c] = 0
        queues[LENGTH, c] = 0
        queues[PIECES_LEFT, c] = 1
        queues[INPUT_LINK, c] = -1
    queue_count = message_count
    if not virtual_output_queues:
        for m in range(link_count):
            queues[INPUT_LINK, queue_count + m] = m
        queue_count += link_count
    for c in range(message_count):
        begin = messages[FIRST_STEP, c]
        end = step if c + 1 == message_count else messages[FIRST_STEP, c + 1]
        queue = c
        for s in range(begin, end):
            m = steps[LINK, s]
            known = False
            for k in range(links[TURNS, m]):
                known = known or turns[m, k] == queue
            if not known:
                turns[m, links[TURNS, m]] = queue
                links[TURNS, m] += 1
            # The head of a packet may leave before its tail arrives, never faster than the tail.
            last = s + 1 == end
            through = header_ticks >= 0 and not last and steps[PIECES, s + 1] == 1
            through = through and steps[TICKS, s + 1] >= steps[TICKS, s]
            steps[ARRIVAL_DELAY, s] = latency_ticks + (header_ticks if through else steps[TICKS, s])
            if last:
                steps[QUEUE_AFTER, s] = -1
                break
            if virtual_output_queues:
                queue = -1
                for q in range(message_count, queue_count):
                    if queues[INPUT_LINK, q] == m and queues[OUTPUT_LINK, q] == steps[LINK, s + 1]:
                        queue = q
                        break
                if queue < 0:
                    queue = queue_count
                    queues[INPUT_LINK, queue] = m
                    queues[OUTPUT_LINK, queue] = steps[LINK, s + 1]
                    queue_count += 1
            else:
                queue = message_count + m
            steps[QUEUE_AFTER, s] = queue
    for q in range(message_count, queue_count):
        queues[HEAD, q] = 0
        queues[LENGTH, q] = 0
        queues[PIECES_LEFT, q] = 0
    for m in range(link_count):
        links[LAST_TURN, m] = (links[TURNS, m] - 1 + _phase_of(m, phase)) % links[TURNS, m]
    return link_count, queue_count


@njit(cache=True, error_model="numpy", nogil=True)
def simulate_graphs(
    first_graph,
    last_graph,
    graph_offset,
    source,
    target,
    packets,
    start_tick,
    endpoints,
    route_offset,
    route_link,
    longest_route,
    split_hop,
    wire_ticks,
    piece_cost_ticks,
    latency_ticks,
    header_ticks,
    pieces,
    virtual_output_queues,
    header_credits,
    data_credits,
    credit_units,
    reverse_link,
    link_layer_ticks,
    fast_forward,
    phase,
    end_tick,
    link_packets,
    least_credits,
    simulated_ticks,
    trace,
    milestones,
):
    """Simulate consecutive graphs; fills their part of the six output arrays.

    A deadlocked communication keeps the end -1. `link_packets` counts transmissions,
    `least_credits` holds the fewest header and data credits ever left, `simulated_ticks`
    the ticks that were not skipped. `trace` takes one row a transmission (communication,
    link, number, start, end) until it is full. `milestones` takes one row whenever a source
    starts, drains or ends (time, packets that each communication has yet to deliver).
    """
    widest = 1
    for graph in range(first_graph, last_graph):
        widest = max(widest, graph_offset[graph + 1] - graph_offset[graph])
    all_links = wire_ticks.shape[1]
    room = header_credits + 1
    most_queues = widest + max(all_links, widest * longest_route)
    links = np.zeros((17, all_links), dtype=np.int64)
    queues = np.zeros((5, most_queues), dtype=np.int64)
    slots = np.zeros((most_queues, room), dtype=np.int64)
    steps = np.zeros((7, widest * longest_route), dtype=np.int64)
    messages = np.zeros((5, widest), dtype=np.int64)
    turns = np.zeros((all_links, widest + all_links), dtype=np.int64)
    local = np.full(all_links + 1, -1, dtype=np.int64)
    in_flight = latency_ticks > 0 or header_ticks >= 0
    flight = np.zeros((4, all_links, room if in_flight else 1), dtype=np.int64)
    snapshot = np.zeros(most_queues + 6 * all_links + widest + all_links * room * 5, dtype=np.int64)
    sent_then = np.zeros(widest, dtype=np.int64)
    delivered_then = np.zeros(widest, dtype=np.int64)
    carried_then = np.zeros(all_links, dtype=np.int64)
    arrived = np.zeros(all_links, dtype=np.int64)
    landed = np.zeros(all_links, dtype=np.int64)
    asked = np.zeros((2, all_links), dtype=np.int64)
    granted = np.zeros(all_links, dtype=np.int64)
    traced = 0
    marked = 0
    for graph in range(first_graph, last_graph):
        first = graph_offset[graph]
        count = graph_offset[graph + 1] - first
        local[:] = -1
        link_count, queue_count = _lay_out(
            first,
            count,
            source,
            target,
            packets,
            endpoints,
            route_offset,
            route_link,
            split_hop,
            wire_ticks,
            piece_cost_ticks,
            latency_ticks,
            header_ticks,
            pieces,
            virtual_output_queues,
            header_credits,
            data_credits,
            reverse_link,
            phase,
            local,
            turns,
            links,
            queues,
            steps,
            messages,
        )
        least_headers = header_credits
        least_data = data_credits
        unfinished = count
        tick = np.int64(0)
        skipped = np.int64(0)
        next_start = _NEVER
        for c in range(count):
            next_start = min(next_start, start_tick[first + c])
        # Brent: compare with one snapshot, taken anew after 1, 2, 4, ... turns of the marker.
        searching = False
        marker = -1
        power = np.int64(1)
        since = np.int64(0)
        snapshot_tick = np.int64(-1)
        while unfinished > 0:
            now = next_start - skipped if next_start < _NEVER else _NEVER
            for m in range(link_count):
                now = min(now, links[BUSY_UNTIL, m])
            if in_flight:
                for m in range(link_count):
                    if links[ARRIVAL_COUNT, m] > 0:
                        now = min(now, flight[ARRIVAL_TICK, m, links[ARRIVAL_HEAD, m]])
                    if links[CREDIT_COUNT, m] > 0:
                        now = min(now, flight[CREDIT_TICK, m, links[CREDIT_HEAD, m]])
            if now == _NEVER:
                break
            tick = now
            epoch_ends = False
            side = 0
            asked_count = 0
            landed_count = 0
            if tick + skipped == next_start:
                next_start = _NEVER
                for c in range(count):
                    if messages[STATE, c] == WAITING:
                        if start_tick[first + c] <= tick + skipped:
                            messages[STATE, c] = RUNNING
                            queues[LENGTH, c] = 1
                            slots[c, 0] = messages[FIRST_STEP, c]
                            if links[DIRTY, steps[LINK, messages[FIRST_STEP, c]]] == 0:
                                links[DIRTY, steps[LINK, messages[FIRST_STEP, c]]] = 1
                                asked[side, asked_count] = steps[LINK, messages[FIRST_STEP, c]]
                                asked_count += 1
                            epoch_ends = True
                        else:
                            next_start = min(next_start, start_tick[first + c])
            # Transmissions that end: the place of a packet that has left wholly is free again.
            for m in range(link_count):
                if links[BUSY_UNTIL, m] != tick:
                    continue
                links[BUSY_UNTIL, m] = _NEVER
                if links[DIRTY, m] == 0:
                    links[DIRTY, m] = 1
                    asked[side, asked_count] = m
                    asked_count += 1
                step = links[SENDING_STEP, m]
                if not in_flight:
                    landed[landed_count] = m
                    arrived[landed_count] = step
                    landed_count += 1
                if links[FREES_INPUT, m] == 0:
                    continue
                before = steps[LINK, step - 1]
                kind = steps[KIND, step - 1]
                if latency_ticks == 0:
                    links[HEADER_CREDITS, before] += 1
                    links[DATA_CREDITS, before] += credit_units[kind]
                    if links[DIRTY, before] == 0:
                        links[DIRTY, before] = 1
                        asked[side, asked_count] = before
                        asked_count += 1
                else:
                    place = (links[CREDIT_HEAD, before] + links[CREDIT_COUNT, before]) % room
                    flight[CREDIT_TICK, before, place] = tick + latency_ticks
                    flight[CREDIT_KIND, before, place] = kind
                    links[CREDIT_COUNT, before] += 1
            marker_moved = False
            if in_flight:
                for m in range(link_count):
                    if links[ARRIVAL_COUNT, m] > 0 and flight[ARRIVAL_TICK, m, links[ARRIVAL_HEAD, m]] == tick:
                        landed[landed_count] = m
                        arrived[landed_count] = flight[ARRIVAL_STEP, m, links[ARRIVAL_HEAD, m]]
                        landed_count += 1
                        links[ARRIVAL_HEAD, m] = (links[ARRIVAL_HEAD, m] + 1) % room
                        links[ARRIVAL_COUNT, m] -= 1
            for k in range(landed_count):
                m = landed[k]
                step = arrived[k]
                q = steps[QUEUE_AFTER, step]
                if q >= 0:
                    place = queues[HEAD, q] + queues[LENGTH, q]
                    if place >= room:
                        place -= room
                    slots[q, place] = step + 1
                    queues[LENGTH, q] += 1
                    if queues[LENGTH, q] == 1:
                        queues[PIECES_LEFT, q] = steps[PIECES, step + 1]
                        if links[DIRTY, steps[LINK, step + 1]] == 0:
                            links[DIRTY, steps[LINK, step + 1]] = 1
                            asked[side, asked_count] = steps[LINK, step + 1]
                            asked_count += 1
                    continue
                # The target takes the packet at once.
                c = steps[COMMUNICATION, step]
                messages[TO_DELIVER, c] -= 1
                if c == marker:
                    marker_moved = True
                if messages[TO_DELIVER, c] == 0:
                    messages[STATE, c] = DONE
                    messages[END, c] = tick + skipped
                    unfinished -= 1
                    epoch_ends = True
                    for s in range(messages[FIRST_STEP, c], step + 1):
                        links[UNFINISHED_USERS, steps[LINK, s]] -= 1
                kind = steps[KIND, step]
                if latency_ticks == 0:
                    links[HEADER_CREDITS, m] += 1
                    links[DATA_CREDITS, m] += credit_units[kind]
                    if links[DIRTY, m] == 0:
                        links[DIRTY, m] = 1
                        asked[side, asked_count] = m
                        asked_count += 1
                else:
                    place = (links[CREDIT_HEAD, m] + links[CREDIT_COUNT, m]) % room
                    flight[CREDIT_TICK, m, place] = tick + latency_ticks
                    flight[CREDIT_KIND, m, place] = kind
                    links[CREDIT_COUNT, m] += 1
            if in_flight:
                for m in range(link_count):
                    # Several credits of one link may come back in the same tick.
                    while links[CREDIT_COUNT, m] > 0 and flight[CREDIT_TICK, m, links[CREDIT_HEAD, m]] == tick:
                        links[HEADER_CREDITS, m] += 1
                        links[DATA_CREDITS, m] += credit_units[flight[CREDIT_KIND, m, links[CREDIT_HEAD, m]]]
                        links[CREDIT_HEAD, m] = (links[CREDIT_HEAD, m] + 1) % room
                        links[CREDIT_COUNT, m] -= 1
                        if links[DIRTY, m] == 0:
                            links[DIRTY, m] = 1
                            asked[side, asked_count] = m
                            asked_count += 1
            # Arbitration: the next queue in turn that has a packet for this link; it waits for credits.
            # The crossbar is faster than the links: once a packet leaves, the next one in its queue may
            # leave by another link in the same tick. Rounds see the heads as the round found them.
            while asked_count > 0:
                granted_count = 0
                for k in range(asked_count):
                    m = asked[side, k]
                    links[DIRTY, m] = 0
                    if links[BUSY_UNTIL, m] != _NEVER:
                        continue
                    turn_count = links[TURNS, m]
                    turn = links[LAST_TURN, m]
                    for _ in range(turn_count):
                        turn += 1
                        if turn >= turn_count:
                            turn = 0
                        q = turns[m, turn]
                        if queues[LENGTH, q] == 0:
                            continue
                        step = slots[q, queues[HEAD, q]]
                        if steps[LINK, step] != m:
                            continue
                        kind = steps[KIND, step]
                        if links[HEADER_CREDITS, m] < 1 or links[DATA_CREDITS, m] < credit_units[kind]:
                            break
                        links[HEADER_CREDITS, m] -= 1
                        links[DATA_CREDITS, m] -= credit_units[kind]
                        least_headers = min(least_headers, links[HEADER_CREDITS, m])
                        least_data = min(least_data, links[DATA_CREDITS, m])
                        extra = np.int64(0)
                        reverse = links[REVERSE, m]
                        if reverse >= 0 and links[UNFINISHED_USERS, reverse] > 0:
                            extra = link_layer_ticks[kind, links[GLOBAL_LINK, m]]
                        end = tick + steps[TICKS, step] + extra
                        links[BUSY_UNTIL, m] = end
                        links[SENDING_STEP, m] = step
                        links[LAST_TURN, m] = turn
                        links[GRANTED_QUEUE, m] = q
                        granted[granted_count] = m
                        granted_count += 1
                        if in_flight:
                            place = (links[ARRIVAL_HEAD, m] + links[ARRIVAL_COUNT, m]) % room
                            flight[ARRIVAL_TICK, m, place] = tick + steps[ARRIVAL_DELAY, step] + extra
                            flight[ARRIVAL_STEP, m, place] = step
                            links[ARRIVAL_COUNT, m] += 1
                        if traced < trace.shape[0]:
                            trace[traced, 0] = steps[COMMUNICATION, step]
                            trace[traced, 1] = links[GLOBAL_LINK, m]
                            trace[traced, 2] = links[SENT, m]
                            trace[traced, 3] = tick + skipped
                            trace[traced, 4] = end + skipped
                            traced += 1
                        links[SENT, m] += 1
                        break
                side = 1 - side
                asked_count = 0
                for k in range(granted_count):
                    m = granted[k]
                    q = links[GRANTED_QUEUE, m]
                    queues[PIECES_LEFT, q] -= 1
                    links[FREES_INPUT, m] = 0
                    if queues[PIECES_LEFT, q] > 0:
                        continue
                    if q < count:
                        messages[TO_SEND, q] -= 1
                        queues[PIECES_LEFT, q] = 1
                        if messages[TO_SEND, q] == 0:
                            queues[LENGTH, q] = 0
                            epoch_ends = True
                        continue
                    links[FREES_INPUT, m] = 1
                    queues[LENGTH, q] -= 1
                    queues[HEAD, q] += 1
                    if queues[HEAD, q] == room:
                        queues[HEAD, q] = 0
                    if queues[LENGTH, q] > 0:
                        head = slots[q, queues[HEAD, q]]
                        queues[PIECES_LEFT, q] = steps[PIECES, head]
                        if links[DIRTY, steps[LINK, head]] == 0:
                            links[DIRTY, steps[LINK, head]] = 1
                            asked[side, asked_count] = steps[LINK, head]
                            asked_count += 1
            if epoch_ends and marked < milestones.shape[0]:
                milestones[marked, 0] = tick + skipped
                for c in range(count):
                    milestones[marked, 1 + c] = messages[TO_DELIVER, c]
                marked += 1
            # A trace has no gaps: repetitions are skipped once it is full.
            if not fast_forward or traced < trace.shape[0]:
                continue
            if epoch_ends:
                # A source started, drained or finished: periods seen before mean nothing now.
                marker = -1
                for c in range(count):
                    if messages[STATE, c] == RUNNING and messages[TO_SEND, c] > 0:
                        marker = c
                        break
                searching = marker >= 0
                snapshot_tick = -1
                power = 1
                since = 0
                continue
            if not (searching and marker_moved):
                continue
            if snapshot_tick >= 0 and _same_state(
                False, snapshot, tick, link_count, queue_count, count, room, links, queues, slots, flight, in_flight
            ):
                period = tick - snapshot_tick
                repeats = _NEVER
                for c in range(count):
                    moved = sent_then[c] - messages[TO_SEND, c]
                    if moved > 0:
                        repeats = min(repeats, (messages[TO_SEND, c] - 1) // moved)
                if next_start < _NEVER:
                    repeats = min(repeats, (next_start - skipped - tick - 1) // period)
                for c in range(count):
                    messages[TO_SEND, c] -= repeats * (sent_then[c] - messages[TO_SEND, c])
                    messages[TO_DELIVER, c] -= repeats * (delivered_then[c] - messages[TO_DELIVER, c])
                for m in range(link_count):
                    links[SENT, m] += repeats * (links[SENT, m] - carried_then[m])
                skipped += repeats * period
                # What is left until a source drains is shorter than a period.
                searching = False
                continue
            since += 1
            if snapshot_tick < 0 or since == power:
                if snapshot_tick >= 0:
                    power *= 2
                since = 0
                snapshot_tick = tick
                _same_state(
                    True, snapshot, tick, link_count, queue_count, count, room, links, queues, slots, flight, in_flight
                )
                for c in range(count):
                    sent_then[c] = messages[TO_SEND, c]
                    delivered_then[c] = messages[TO_DELIVER, c]
                for m in range(link_count):
                    carried_then[m] = links[SENT, m]
        for c in range(count):
            end_tick[first + c] = messages[END, c]
        for m in range(link_count):
            link_packets[graph, links[GLOBAL_LINK, m]] = links[SENT, m]
        least_credits[graph, 0] = least_headers
        least_credits[graph, 1] = least_data
        simulated_ticks[graph] = tick
