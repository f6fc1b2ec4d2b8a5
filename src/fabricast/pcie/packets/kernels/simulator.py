"""Event loop of the packet-level simulator: transaction-layer packets on PCIe links.

The docstring of the package explains the algorithm.
"""

from __future__ import annotations

import numpy as np

from fabricast.pcie.packets.kernels.periods import look_for_period, may_have_repeated
from fabricast.pcie.packets.kernels.programs import claim_engines, count_users
from fabricast.pcie.packets.kernels.routes import arrival, lay_out_run
from fabricast.pcie.packets.kernels.state import (
    ACTIVE_USERS,
    ARRIVAL_COUNT,
    ARRIVAL_DELAY,
    ARRIVAL_HEAD,
    ARRIVAL_STEP,
    ARRIVAL_TICK,
    BEGIN,
    BUSY_UNTIL,
    COMMUNICATION,
    CREDIT_COUNT,
    CREDIT_HEAD,
    CREDIT_KIND,
    CREDIT_TICK,
    DATA_CREDITS,
    DIRTY,
    DONE,
    END,
    END_LINK,
    END_TICK,
    ENDS_COUNT,
    ENDS_HEAD,
    ENGINE_BUSY,
    EPOCH_ENDS,
    FIRST_STEP,
    FREES_INPUT,
    GLOBAL_LINK,
    GRANTED_QUEUE,
    HEAD,
    HEADER_CREDITS,
    KIND,
    LAST_TURN,
    LEAST_DATA,
    LEAST_HEADERS,
    LENGTH,
    LINK,
    LINK_COUNT,
    MARKED,
    MARKER,
    MARKER_MOVED,
    MESSAGE_COUNT,
    NEVER,
    NEXT_START,
    PIECES,
    PIECES_LEFT,
    QUEUE_AFTER,
    READY,
    REVERSE,
    RUNNING,
    SENDING_STEP,
    SENT,
    SKIPPED,
    STATE,
    TICK,
    TICKS,
    TO_DELIVER,
    TO_SEND,
    TRACED,
    TURNS,
    UNFINISHED,
    WAITING,
    new_snapshots,
    new_state,
)
from fabricast.runtime.compilation import allocation_free, njit


@allocation_free(inline="always")
def _ask(m, side, asked, state):
    """Request arbitration of an idle link in the next round; return the number of requests."""
    if state.links[DIRTY, m] == 0 and state.links[BUSY_UNTIL, m] == NEVER:
        state.links[DIRTY, m] = 1
        state.asked[side, asked] = m
        asked += 1
    return asked


@allocation_free(inline="always")
def _return_credits(m, kind, asked, hardware, state):
    """Return the credits of a packet to the sender of a link, after the link latency."""
    links = state.links
    if hardware.latency_ticks == 0:
        links[HEADER_CREDITS, m] += 1
        links[DATA_CREDITS, m] += hardware.credit_units[kind]
        asked = _ask(m, 0, asked, state)
    else:
        slot = (links[CREDIT_HEAD, m] + links[CREDIT_COUNT, m]) % state.slots.shape[1]
        state.flight[CREDIT_TICK, m, slot] = state.counters[TICK] + hardware.latency_ticks
        state.flight[CREDIT_KIND, m, slot] = kind
        links[CREDIT_COUNT, m] += 1
    return asked


@allocation_free(inline="always")
def _next_tick(state):
    """Return the tick of the next event, or `NEVER`."""
    counters, links, flight = state.counters, state.links, state.flight
    now = counters[NEXT_START] - counters[SKIPPED] if counters[NEXT_START] < NEVER else NEVER
    if counters[ENDS_COUNT] > 0:
        now = min(now, state.ends[END_TICK, counters[ENDS_HEAD]])
    if state.in_flight:
        link_count = counters[LINK_COUNT]
        for m in range(link_count):
            if links[ARRIVAL_COUNT, m] > 0:
                now = min(now, flight[ARRIVAL_TICK, m, links[ARRIVAL_HEAD, m]])
            if links[CREDIT_COUNT, m] > 0:
                now = min(now, flight[CREDIT_TICK, m, links[CREDIT_HEAD, m]])
    return now


@allocation_free(inline="always")
def _start_sources(asked, state):
    """Start copies whose start time is reached; return the number of requested links."""
    counters, messages = state.counters, state.messages
    now = counters[TICK] + counters[SKIPPED]
    counters[NEXT_START] = NEVER
    for c in range(counters[MESSAGE_COUNT]):
        if messages[STATE, c] > READY:
            continue
        if messages[BEGIN, c] > now:
            counters[NEXT_START] = min(counters[NEXT_START], messages[BEGIN, c])
        if messages[BEGIN, c] > now or messages[STATE, c] == WAITING:
            continue
        messages[STATE, c] = RUNNING
        count_users(c, 1, state)
        state.queues[LENGTH, c] = 1
        state.slots[c, 0] = messages[FIRST_STEP, c]
        asked = _ask(np.uint32(state.steps[LINK, messages[FIRST_STEP, c]]), 0, asked, state)
        counters[EPOCH_ENDS] = 1
    return asked


@allocation_free(inline="always")
def _end_transmissions(asked, hardware, state):
    """End transmissions of this tick; return the numbers of requested links and of arrivals."""
    landed = 0
    counters, links, steps, ends = state.counters, state.links, state.steps, state.ends
    tick = counters[TICK]
    while counters[ENDS_COUNT] > 0:
        head = np.uint32(counters[ENDS_HEAD])
        if ends[END_TICK, head] != tick:
            break
        m = np.uint32(ends[END_LINK, head])
        counters[ENDS_HEAD] = (head + 1) & (ends.shape[1] - 1)
        counters[ENDS_COUNT] -= 1
        links[BUSY_UNTIL, m] = NEVER
        asked = _ask(m, 0, asked, state)
        step = np.uint32(links[SENDING_STEP, m])
        if not state.in_flight:
            state.landed[0, landed] = m
            state.landed[1, landed] = step
            landed += 1
        if links[FREES_INPUT, m] != 0:
            before = np.uint32(step - 1)
            asked = _return_credits(
                np.uint32(steps[LINK, before]), np.uint32(steps[KIND, before]), asked, hardware, state
            )
    return asked, landed


@allocation_free(inline="always")
def _collect_arrivals(state):
    """List the packets in flight that arrive in this tick; return their number."""
    landed = 0
    link_count = state.counters[LINK_COUNT]
    tick = state.counters[TICK]
    links, flight = state.links, state.flight
    for m in range(link_count):
        if links[ARRIVAL_COUNT, m] > 0 and flight[ARRIVAL_TICK, m, links[ARRIVAL_HEAD, m]] == tick:
            state.landed[0, landed] = m
            state.landed[1, landed] = flight[ARRIVAL_STEP, m, links[ARRIVAL_HEAD, m]]
            landed += 1
            links[ARRIVAL_HEAD, m] = (links[ARRIVAL_HEAD, m] + 1) % state.slots.shape[1]
            links[ARRIVAL_COUNT, m] -= 1
    return landed


@allocation_free(inline="always")
def _collect_credits(asked, hardware, state):
    """Add the credits that arrive in this tick; return the number of requested links."""
    link_count = state.counters[LINK_COUNT]
    tick = state.counters[TICK]
    links, flight = state.links, state.flight
    for m in range(link_count):
        while links[CREDIT_COUNT, m] > 0 and flight[CREDIT_TICK, m, links[CREDIT_HEAD, m]] == tick:
            links[HEADER_CREDITS, m] += 1
            links[DATA_CREDITS, m] += hardware.credit_units[flight[CREDIT_KIND, m, links[CREDIT_HEAD, m]]]
            links[CREDIT_HEAD, m] = (links[CREDIT_HEAD, m] + 1) % state.slots.shape[1]
            links[CREDIT_COUNT, m] -= 1
            asked = _ask(m, 0, asked, state)
    return asked


@allocation_free(inline="always")
def _land(first, landed, asked, graphs, hardware, state):
    """Put arrived packets into their next queues; return the number of requested links.

    Targets consume packets at once.
    """
    counters, queues, steps, messages = state.counters, state.queues, state.steps, state.messages
    room = state.slots.shape[1]
    for k in range(landed):
        m, step = np.uint32(state.landed[0, k]), np.uint32(state.landed[1, k])
        if steps[QUEUE_AFTER, step] >= 0:
            q = np.uint32(steps[QUEUE_AFTER, step])
            slot = queues[HEAD, q] + queues[LENGTH, q]
            if slot >= room:
                slot -= room
            state.slots[q, np.uint32(slot)] = step + 1
            queues[LENGTH, q] += 1
            if queues[LENGTH, q] == 1:
                after = np.uint32(step + 1)
                queues[PIECES_LEFT, q] = steps[PIECES, after]
                asked = _ask(np.uint32(steps[LINK, after]), 0, asked, state)
            continue
        c = np.uint32(steps[COMMUNICATION, step])
        arrived = arrival(c, counters[TICK], state)
        messages[TO_DELIVER, c] -= 1
        if c == counters[MARKER]:
            counters[MARKER_MOVED] = 1
        if messages[TO_DELIVER, c] == 0:
            messages[STATE, c] = DONE
            messages[END, c] = arrived + counters[SKIPPED]
            counters[UNFINISHED] -= 1
            counters[EPOCH_ENDS] = 1
            count_users(c, -1, state)
            if graphs.engine.size:
                if graphs.engine[first + c] >= 0:
                    state.engines[ENGINE_BUSY, graphs.engine[first + c]] -= graphs.occupancy[first + c]
                # Copies that wait for this engine or barrier may start in this tick.
                counters[NEXT_START] = counters[TICK] + counters[SKIPPED]
        asked = _return_credits(m, np.uint32(steps[KIND, step]), asked, hardware, state)
    return asked


@allocation_free(inline="always")
def _note_end(m, end, state):
    """Insert the end of a transmission into the ring, sorted by tick and link.

    The insertion starts at the back, because most new transmissions end last.
    """
    counters, ends = state.counters, state.ends
    mask = ends.shape[1] - 1
    slot = np.uint32((counters[ENDS_HEAD] + counters[ENDS_COUNT]) & mask)
    for _ in range(counters[ENDS_COUNT]):
        before = np.uint32((slot - 1) & mask)
        earlier = ends[END_TICK, before] < end
        if earlier or (ends[END_TICK, before] == end and ends[END_LINK, before] < m):
            break
        ends[END_TICK, slot] = ends[END_TICK, before]
        ends[END_LINK, slot] = ends[END_LINK, before]
        slot = before
    ends[END_TICK, slot] = end
    ends[END_LINK, slot] = m
    counters[ENDS_COUNT] += 1


@allocation_free(inline="always")
def _send(m, q, step, hardware, trace, state):
    """Start a transmission on an idle link."""
    tick = state.counters[TICK]
    counters, links, steps = state.counters, state.links, state.steps
    kind = np.uint32(steps[KIND, step])
    links[HEADER_CREDITS, m] -= 1
    links[DATA_CREDITS, m] -= hardware.credit_units[kind]
    counters[LEAST_HEADERS] = min(counters[LEAST_HEADERS], links[HEADER_CREDITS, m])
    counters[LEAST_DATA] = min(counters[LEAST_DATA], links[DATA_CREDITS, m])
    extra = np.int64(0)
    reverse = links[REVERSE, m]
    if reverse >= 0 and links[ACTIVE_USERS, reverse] > 0:
        extra = hardware.link_layer_ticks[kind, links[GLOBAL_LINK, m]]
    end = tick + steps[TICKS, step] + extra
    links[BUSY_UNTIL, m] = end
    _note_end(m, end, state)
    links[SENDING_STEP, m] = step
    links[GRANTED_QUEUE, m] = q
    if state.in_flight:
        slot = (links[ARRIVAL_HEAD, m] + links[ARRIVAL_COUNT, m]) % state.slots.shape[1]
        state.flight[ARRIVAL_TICK, m, slot] = tick + steps[ARRIVAL_DELAY, step] + extra
        state.flight[ARRIVAL_STEP, m, slot] = step
        links[ARRIVAL_COUNT, m] += 1
    if counters[TRACED] < trace.shape[0]:
        row = counters[TRACED]
        trace[row, 0] = steps[COMMUNICATION, step]
        trace[row, 1] = links[GLOBAL_LINK, m]
        trace[row, 2] = links[SENT, m]
        trace[row, 3] = tick + counters[SKIPPED]
        trace[row, 4] = end + counters[SKIPPED]
        counters[TRACED] += 1
    links[SENT, m] += 1


@allocation_free(inline="always")
def _grant(side, asked, hardware, trace, state):
    """Grant requested links to queues in round-robin order; return the number of grants.

    The first queue with a head packet for the link is the only candidate, and waits if credits are insufficient.
    """
    links, queues, steps = state.links, state.queues, state.steps
    granted = 0
    for k in range(asked):
        m = np.uint32(state.asked[side, k])
        links[DIRTY, m] = 0
        turn_count = links[TURNS, m]
        turn = links[LAST_TURN, m]
        for _ in range(turn_count):
            turn += 1
            if turn >= turn_count:
                turn = 0
            q = np.uint32(state.turns[m, np.uint32(turn)])
            if queues[LENGTH, q] == 0:
                continue
            step = np.uint32(state.slots[q, np.uint32(queues[HEAD, q])])
            if steps[LINK, step] != m:
                continue
            enough = links[DATA_CREDITS, m] >= hardware.credit_units[np.uint32(steps[KIND, step])]
            if links[HEADER_CREDITS, m] >= 1 and enough:
                links[LAST_TURN, m] = turn
                _send(m, q, step, hardware, trace, state)
                state.granted[granted] = m
                granted += 1
            break
    return granted


@allocation_free(inline="always")
def _take_from_queues(side, granted, state):
    """Remove granted packets from their queues; return the requests for the next round."""
    asked = 0
    counters, links, queues, steps, messages = (state.counters, state.links, state.queues, state.steps, state.messages)
    for k in range(granted):
        m = np.uint32(state.granted[k])
        q = np.uint32(links[GRANTED_QUEUE, m])
        queues[PIECES_LEFT, q] -= 1
        links[FREES_INPUT, m] = 0
        if queues[PIECES_LEFT, q] > 0:
            continue
        if q < counters[MESSAGE_COUNT]:
            messages[TO_SEND, q] -= 1
            queues[PIECES_LEFT, q] = 1
            if messages[TO_SEND, q] == 0:
                queues[LENGTH, q] = 0
                counters[EPOCH_ENDS] = 1
            continue
        links[FREES_INPUT, m] = 1
        queues[LENGTH, q] -= 1
        queues[HEAD, q] += 1
        if queues[HEAD, q] == state.slots.shape[1]:
            queues[HEAD, q] = 0
        if queues[LENGTH, q] > 0:
            head = np.uint32(state.slots[q, np.uint32(queues[HEAD, q])])
            queues[PIECES_LEFT, q] = steps[PIECES, head]
            asked = _ask(np.uint32(steps[LINK, head]), side, asked, state)
    return asked


@allocation_free(inline="always")
def _run_tick(first, graphs, hardware, results, state):
    """Process one tick: ends, arrivals, starts, credits, arbitration."""
    counters = state.counters
    counters[EPOCH_ENDS] = 0
    counters[MARKER_MOVED] = 0
    asked, landed = _end_transmissions(0, hardware, state)
    if state.in_flight:
        landed = _collect_arrivals(state)
    asked = _land(first, landed, asked, graphs, hardware, state)
    if counters[TICK] + counters[SKIPPED] == counters[NEXT_START]:
        if graphs.engine.size:
            claim_engines(first, graphs, state)
        asked = _start_sources(asked, state)
    if state.in_flight:
        asked = _collect_credits(asked, hardware, state)
    # The crossbar is faster than the links: as soon as a packet leaves its queue, the next one may be granted another
    # link in the same tick. Each round uses the queue heads at its start.
    side = 0
    while asked > 0:
        granted = _grant(side, asked, hardware, results.trace, state)
        side = 1 - side
        asked = _take_from_queues(side, granted, state)
    if counters[EPOCH_ENDS] and counters[MARKED] < results.milestones.shape[0]:
        row = counters[MARKED]
        results.milestones[row, 0] = counters[TICK] + counters[SKIPPED]
        for c in range(counters[MESSAGE_COUNT]):
            results.milestones[row, 1 + c] = state.messages[TO_DELIVER, c]
        counters[MARKED] += 1


@allocation_free
def _run_graph(first, graphs, hardware, fast_forward, results, state, snapshots):
    """Run one graph to its end, or until a deadlock."""
    counters = state.counters
    while counters[UNFINISHED] > 0:
        now = _next_tick(state)
        if now == NEVER:
            break
        counters[TICK] = now
        _run_tick(first, graphs, hardware, results, state)
        # Repetitions are not skipped while a trace is recorded, because a trace has no gaps.
        # The condition is checked here, because a call with all arrays of the state costs as much as a tick.
        if fast_forward and may_have_repeated(counters) and counters[TRACED] == results.trace.shape[0]:
            look_for_period(snapshots, state)


@njit
def simulate_graphs(first_graph, last_graph, graphs, network, hardware, fast_forward, ends_only, phases, results):
    """Simulate consecutive graphs and fill their entries in the arrays of `results`.

    A deadlocked copy keeps the completion time -1. `link_packets` counts transmissions, `least_credits` is the minimum
    of available header and data credits, and `simulated_ticks` counts the ticks that were not skipped. `trace` has one
    row per transmission (copy, link, number, start, end) until it is full. `milestones` has one row for each tick in
    which a copy starts, sends its last packet or ends (tick, undelivered packets of each copy). With `ends_only`,
    routes are shortened, and only `end_tick` is filled.
    """
    widest = 1
    for graph in range(first_graph, last_graph):
        widest = max(widest, graphs.offset[graph + 1] - graphs.offset[graph])
    state = new_state(widest, graphs, network, hardware)
    snapshots = new_snapshots(widest, state)
    counters = state.counters
    for graph in range(first_graph, last_graph):
        first = graphs.offset[graph]
        lay_out_run(graph, graphs, network, hardware, ends_only, phases[graph], state)
        _run_graph(first, graphs, hardware, fast_forward, results, state, snapshots)
        for c in range(counters[MESSAGE_COUNT]):
            results.end_tick[first + c] = state.messages[END, c]
        if ends_only:
            continue
        for m in range(counters[LINK_COUNT]):
            results.link_packets[graph, state.links[GLOBAL_LINK, m]] = state.links[SENT, m]
        results.least_credits[graph, 0] = counters[LEAST_HEADERS]
        results.least_credits[graph, 1] = counters[LEAST_DATA]
        results.simulated_ticks[graph] = counters[TICK]
