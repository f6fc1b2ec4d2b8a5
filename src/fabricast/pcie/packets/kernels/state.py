"""State arrays of the packet-level simulator and their initialisation."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from fabricast.runtime.compilation import allocation_free, njit

NEVER = np.int64(2**62)
#: Maximum number of snapshots, an even number. More snapshots detect periods earlier but cost more comparisons.
_SNAPSHOTS = 16

# Rows of `links`, one column per used link. `NUMBER`: number in the order of first use, which determines the initial
# arbiter position. `CLEAR`: tick when a link removed from routes has transmitted all packets that have arrived.
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
    ACTIVE_USERS,
    REVERSE,
    SENT,
    GRANTED_QUEUE,
    NUMBER,
    CLEAR,
) = range(19)
# Rows of `queues`, one column per queue: first a source queue per copy, then input buffers.
HEAD, LENGTH, PIECES_LEFT, INPUT_LINK, OUTPUT_LINK = range(5)
# Rows of `steps`, one column per hop of a copy.
LINK, QUEUE_AFTER, KIND, TICKS, ARRIVAL_DELAY, PIECES, COMMUNICATION = range(7)
# Rows of `around`, temporary data of each link while routes are shortened: its number by topology link; the previous
# link, next link and transmission time common to all its copies (negative if they differ); number of copies that use it
# and begin on it; whether no packet waits after it; its final number.
LOCAL, BEFORE, AFTER, ONLY_TICKS, USERS, BEGINNERS, FREE, RENUMBERED = range(8)
# Rows of `messages`, one column per copy. Its steps end before `END_STEP`. The steps from there to `ROUTE_END` are
# removed and add the delay `TAIL_TICKS`, which is -1 if packets may wait for each other in these steps.
FIRST_STEP, TO_SEND, TO_DELIVER, STATE, END, BEGIN, END_STEP, ROUTE_END, TAIL_TICKS = range(9)
# States of a copy: waiting for its engine or barrier, ready to start at its start time, running, done.
WAITING, READY, RUNNING, DONE = range(4)
# Rows of `engines`, one column per endpoint. `BARRED`: an earlier copy of this barrier is not done.
ENGINE_BUSY, LAST_FLOW, BARRED, CHOSEN = range(4)
# Occupancy of an engine, in units of `OCCUPIED`, from which on it starts no further copy.
OCCUPIED = 1000
# Planes of `flight`: packets in flight on each link, and credits in flight to its sender.
ARRIVAL_TICK, ARRIVAL_STEP, CREDIT_TICK, CREDIT_KIND = range(4)
# Rows of `ends`, a ring buffer of the active transmissions in the order of their ends.
END_TICK, END_LINK = range(2)


# Indices of `counters`.
(
    TICK,
    SKIPPED,
    NEXT_START,
    UNFINISHED,
    LINK_COUNT,
    QUEUE_COUNT,
    MESSAGE_COUNT,
    EPOCH_ENDS,
    MARKER,
    MARKER_MOVED,
    SEARCHING,
    SPACING,
    SINCE,
    KEPT,
    LEAST_HEADERS,
    LEAST_DATA,
    TRACED,
    MARKED,
    ENDS_HEAD,
    ENDS_COUNT,
    USED_COUNT,
) = range(21)


#: Congestion graphs: offsets, and source, target, packets and start of each copy. For copy programs, `engine`,
#: `barrier` (-1 for none), `occupancy`, `flow` and `pause_ticks` of each copy follow `CopyOrder`. They are empty
#: without a program. `turns` is the number of flows that engines serve round-robin, or 0 for the order of rows.
Graphs = namedtuple("Graphs", "offset source target packets start_tick engine barrier occupancy flow pause_ticks turns")


#: Routes of all endpoint pairs, first hop with split packets, and reverse links.
Network = namedtuple("Network", "endpoints route_offset route_link longest_route split_hop reverse_link")


#: Transmission times in ticks, buffers, and splitting of packets.
Hardware = namedtuple(
    "Hardware",
    "wire_ticks piece_cost_ticks latency_ticks header_ticks pieces virtual_output_queues header_credits data_credits "
    "credit_units link_layer_ticks",
)


#: Result arrays of `simulate_graphs`.
Results = namedtuple("Results", "end_tick link_packets least_credits simulated_ticks trace milestones")


#: State of a run. `in_flight` is true if packets and credits can be in flight: with link latency or cut-through
#: switching.
_State = namedtuple(
    "_State",
    "counters links queues slots steps messages engines turns around flight ends landed asked granted in_flight",
)


#: Earlier states, one row each, with their counters of packets. The first entries of `order` are the rows in use. The
#: counters are packets to send and to deliver of each copy, and transmissions of each link.
_Snapshots = namedtuple("_Snapshots", "order tick signature values sent delivered passed")


@allocation_free
def _power_of_two(least):
    """Return the smallest power of two of at least `least`."""
    power = 1
    while power < least:
        power *= 2
    return power


@njit
def new_state(widest, graphs, network, hardware):
    """Allocate the state for graphs of up to `widest` copies."""
    all_links = hardware.wire_ticks.shape[1]
    room = hardware.header_credits + 1
    most_queues = widest + max(all_links, widest * network.longest_route)
    in_flight = hardware.latency_ticks > 0 or hardware.header_ticks >= 0
    return _State(
        counters=np.zeros(21, dtype=np.int64),
        links=np.zeros((19, all_links), dtype=np.int64),
        queues=np.zeros((5, most_queues), dtype=np.int64),
        slots=np.zeros((most_queues, room), dtype=np.int64),
        steps=np.zeros((7, widest * network.longest_route), dtype=np.int64),
        messages=np.zeros((9, widest), dtype=np.int64),
        engines=np.zeros((4, network.endpoints), dtype=np.int64),
        turns=np.zeros((all_links, widest + all_links), dtype=np.int64),
        around=np.zeros((8, all_links), dtype=np.int64),
        flight=np.zeros((4, all_links, room if in_flight else 1), dtype=np.int64),
        ends=np.zeros((2, _power_of_two(all_links)), dtype=np.int64),
        landed=np.zeros((2, all_links), dtype=np.int64),
        asked=np.zeros((2, all_links), dtype=np.int64),
        granted=np.zeros(all_links, dtype=np.int64),
        in_flight=in_flight,
    )


@njit
def new_snapshots(widest, state):
    """Allocate snapshots of a state."""
    most_queues, room = state.slots.shape
    all_links = state.links.shape[1]
    words = most_queues + 6 * all_links + widest + all_links * room * 5
    return _Snapshots(
        order=np.arange(_SNAPSHOTS),
        tick=np.zeros(_SNAPSHOTS, dtype=np.int64),
        signature=np.zeros(_SNAPSHOTS, dtype=np.int64),
        values=np.zeros((_SNAPSHOTS, words), dtype=np.int64),
        sent=np.zeros((_SNAPSHOTS, widest), dtype=np.int64),
        delivered=np.zeros((_SNAPSHOTS, widest), dtype=np.int64),
        passed=np.zeros((_SNAPSHOTS, all_links), dtype=np.int64),
    )


@allocation_free(inline="always")
def _phase_of(link, phase):
    """Return the initial rotation of the arbiter of a link, 0 in phase 0."""
    mixed = (np.int64(link) + 1) * np.int64(2654435761) * phase
    return (mixed >> np.int64(13)) & np.int64(1023)


@allocation_free
def _number_links(first, graphs, network, hardware, state):
    """Assign numbers to the links and steps of a graph in the order of first use."""
    links, steps, messages = state.links, state.steps, state.messages
    local = state.around[LOCAL]
    local[:] = -1
    link_count = 0
    step = 0
    for c in range(state.counters[MESSAGE_COUNT]):
        pair = graphs.source[first + c] * network.endpoints + graphs.target[first + c]
        hops = network.route_offset[pair + 1] - network.route_offset[pair]
        crosses = network.split_hop[pair] < hops
        messages[FIRST_STEP, c] = step
        messages[TO_SEND, c] = graphs.packets[first + c]
        messages[TO_DELIVER, c] = graphs.packets[first + c] * (hardware.pieces if crosses else 1)
        messages[STATE, c] = WAITING if graphs.engine.size else READY
        messages[BEGIN, c] = graphs.start_tick[first + c]
        messages[END, c] = -1
        for hop in range(hops):
            link = network.route_link[network.route_offset[pair] + hop]
            if local[link] < 0:
                m = link_count
                local[link] = m
                for row in range(links.shape[0]):
                    links[row, m] = 0
                links[BUSY_UNTIL, m] = NEVER
                links[HEADER_CREDITS, m] = hardware.header_credits
                links[DATA_CREDITS, m] = hardware.data_credits
                links[GLOBAL_LINK, m] = link
                links[NUMBER, m] = m
                link_count += 1
            cut_here = hop == network.split_hop[pair]
            kind = 1 if hop >= network.split_hop[pair] else 0
            steps[LINK, step] = local[link]
            steps[KIND, step] = kind
            steps[TICKS, step] = hardware.wire_ticks[kind, link] + (hardware.piece_cost_ticks if cut_here else 0)
            steps[PIECES, step] = hardware.pieces if cut_here else 1
            steps[COMMUNICATION, step] = c
            step += 1
        messages[END_STEP, c] = step
        messages[ROUTE_END, c] = step
        messages[TAIL_TICKS, c] = 0
    for m in range(link_count):
        links[REVERSE, m] = local[network.reverse_link[links[GLOBAL_LINK, m]]]
    state.counters[LINK_COUNT] = link_count
    state.counters[USED_COUNT] = link_count


@allocation_free
def number_queues(hardware, phase, state):
    """Assign queues to steps, and list the queues that each link serves."""
    links, queues, steps, messages, turns = state.links, state.queues, state.steps, state.messages, state.turns
    message_count, link_count = state.counters[MESSAGE_COUNT], state.counters[LINK_COUNT]
    state.counters[NEXT_START] = NEVER
    for c in range(message_count):
        queues[HEAD, c] = 0
        queues[LENGTH, c] = 0
        queues[PIECES_LEFT, c] = 1
        queues[INPUT_LINK, c] = -1
        state.counters[NEXT_START] = min(state.counters[NEXT_START], messages[BEGIN, c])
    queue_count = message_count
    if not hardware.virtual_output_queues:
        for m in range(link_count):
            queues[INPUT_LINK, queue_count + m] = m
        queue_count += link_count
    for c in range(message_count):
        end = messages[END_STEP, c]
        queue = c
        for s in range(messages[FIRST_STEP, c], end):
            m = steps[LINK, s]
            is_listed = False
            for k in range(links[TURNS, m]):
                is_listed = is_listed or turns[m, k] == queue
            if not is_listed:
                turns[m, links[TURNS, m]] = queue
                links[TURNS, m] += 1
            # Cut-through: a packet may be forwarded after its header, unless the next link is faster or splits packets.
            last = s + 1 == end
            through = hardware.header_ticks >= 0 and not last and steps[PIECES, s + 1] == 1
            through = through and steps[TICKS, s + 1] >= steps[TICKS, s]
            steps[ARRIVAL_DELAY, s] = hardware.latency_ticks + (hardware.header_ticks if through else steps[TICKS, s])
            if last:
                steps[QUEUE_AFTER, s] = -1
                break
            queue = message_count + m
            if hardware.virtual_output_queues:
                queue = message_count
                while queue < queue_count and not (
                    queues[INPUT_LINK, queue] == m and queues[OUTPUT_LINK, queue] == steps[LINK, s + 1]
                ):
                    queue += 1
                if queue == queue_count:
                    queues[INPUT_LINK, queue] = m
                    queues[OUTPUT_LINK, queue] = steps[LINK, s + 1]
                    queue_count += 1
            steps[QUEUE_AFTER, s] = queue
    for q in range(message_count, queue_count):
        queues[HEAD, q] = 0
        queues[LENGTH, q] = 0
        queues[PIECES_LEFT, q] = 0
    for m in range(link_count):
        links[LAST_TURN, m] = (links[TURNS, m] - 1 + _phase_of(links[NUMBER, m], phase)) % links[TURNS, m]
    state.counters[QUEUE_COUNT] = queue_count


@allocation_free
def lay_out(first, count, graphs, network, hardware, state):
    """Initialise the state for one graph, except for its queues."""
    counters = state.counters
    counters[MESSAGE_COUNT] = count
    _number_links(first, graphs, network, hardware, state)
    counters[TICK] = 0
    counters[SKIPPED] = 0
    counters[ENDS_COUNT] = 0
    counters[UNFINISHED] = count
    counters[LEAST_HEADERS] = hardware.header_credits
    counters[LEAST_DATA] = hardware.data_credits
    state.engines[ENGINE_BUSY] = 0
    state.engines[LAST_FLOW] = -1
    counters[SEARCHING] = 0
    counters[MARKER] = -1
