"""Detection of exactly repeating states and fast-forward of the packet-level simulator.

While the set of sending copies is constant, the simulator is a deterministic automaton with finitely many states: after
the buffers have filled, it repeats a period until a copy starts or sends its last packet.

1. Epochs. A tick in which a copy starts, sends its last packet or ends begins a new epoch (`EPOCH_ENDS`). All snapshots
   are discarded, and the first running copy with packets left to send becomes the marker.
2. Sampling. Within an epoch, states are compared only in ticks in which the marker delivers a packet
   (`MARKER_MOVED`), because a repetition of the state repeats these ticks as well.
3. Comparison. The state is compared with up to 16 snapshots, first by a signature and then completely: remaining
   transmission times, queue contents, pieces left, arbiter positions, credits, packets and credits in flight, times
   relative to the current tick. Counters of sent and delivered packets are not part of the state.
4. Snapshots are evenly spaced over the epoch. When all 16 are in use, every second one is discarded and the spacing
   doubles (Sedgewick, Szymanski and Yao 1982). This bounds memory and comparisons per sample. The spacing is at most
   8 samples or about an eighth of the epoch. A repetition is therefore detected soon after it first occurs.
5. Fast-forward. Between the snapshot and the current tick lies a whole number of periods. `_skip_periods` repeats this
   interval as often as possible without a copy sending its last packet or a start time being reached. It subtracts the
   packets from the counters of each copy and adds the time to `SKIPPED`; simulated time is `TICK + SKIPPED`. The rest
   of the epoch is shorter than the interval, and the search stops until the next epoch.

The state is complete and all numbers are integers, so fast-forward does not change any result.
"""

from __future__ import annotations

import numpy as np

from fabricast.pcie.packets.kernels.state import (
    ARRIVAL_COUNT,
    ARRIVAL_HEAD,
    ARRIVAL_STEP,
    ARRIVAL_TICK,
    BUSY_UNTIL,
    CLEAR,
    DATA_CREDITS,
    EPOCH_ENDS,
    FREES_INPUT,
    HEAD,
    HEADER_CREDITS,
    KEPT,
    LAST_TURN,
    LENGTH,
    LINK_COUNT,
    MARKER,
    MARKER_MOVED,
    MESSAGE_COUNT,
    NEVER,
    NEXT_START,
    PIECES_LEFT,
    QUEUE_COUNT,
    RUNNING,
    SEARCHING,
    SENDING_STEP,
    SENT,
    SINCE,
    SKIPPED,
    SPACING,
    STATE,
    TICK,
    TO_DELIVER,
    TO_SEND,
    USED_COUNT,
)
from fabricast.runtime.compilation import allocation_free

#: Number of samples between the first snapshots; storing a snapshot has a cost.
_FIRST_SPACING = 8


@allocation_free
def _same(keep, values, at, value):
    """Store a value in a snapshot, or return whether it equals the stored one."""
    if keep:
        values[at] = value
        return True
    return values[at] == value


@allocation_free
def _same_flight(keep, values, at, state):
    """Store packets and credits in flight in a snapshot from index `at` on, or compare them."""
    link_count = state.counters[LINK_COUNT]
    tick = state.counters[TICK]
    links, flight, room = state.links, state.flight, state.slots.shape[1]
    for m in range(link_count):
        for side in range(2):
            head = links[ARRIVAL_HEAD + 2 * side, m]
            count = links[ARRIVAL_COUNT + 2 * side, m]
            if not _same(keep, values, at, count):
                return False
            at += 1
            for k in range(count):
                slot = (head + k) % room
                when = flight[ARRIVAL_TICK + 2 * side, m, slot] - tick
                if not _same(keep, values, at, when):
                    return False
                if not _same(keep, values, at + 1, flight[ARRIVAL_STEP + 2 * side, m, slot]):
                    return False
                at += 2
    return True


@allocation_free
def _same_state(keep, values, state):
    """Store the state as a snapshot, or compare it with one; packet counters are not included."""
    link_count = state.counters[LINK_COUNT]
    tick = state.counters[TICK]
    counters, links, queues = state.counters, state.links, state.queues
    message_count, queue_count, room = counters[MESSAGE_COUNT], counters[QUEUE_COUNT], state.slots.shape[1]
    at = 0
    for m in range(link_count):
        busy = links[BUSY_UNTIL, m]
        value = np.int64(-1)
        if busy != NEVER:
            value = ((busy - tick) * 65536 + links[SENDING_STEP, m]) * 2 + links[FREES_INPUT, m]
        if not _same(keep, values, at, value):
            return False
        at += 1
    for q in range(message_count, queue_count):
        if not _same(keep, values, at, queues[LENGTH, q] * 1024 + queues[PIECES_LEFT, q]):
            return False
        at += 1
    for m in range(link_count):
        for row in (LAST_TURN, HEADER_CREDITS, DATA_CREDITS):
            if not _same(keep, values, at, links[row, m]):
                return False
            at += 1
    for m in range(link_count, counters[USED_COUNT]):
        if not _same(keep, values, at, max(links[CLEAR, m] - tick, 0)):
            return False
        at += 1
    for q in range(message_count):
        # Sources never have pieces left: packets are split behind the root complex only.
        if not _same(keep, values, at, queues[LENGTH, q]):
            return False
        at += 1
    for q in range(message_count, queue_count):
        slot = queues[HEAD, q]
        for _ in range(queues[LENGTH, q]):
            if not _same(keep, values, at, state.slots[q, np.uint32(slot)]):
                return False
            at += 1
            slot += 1
            if slot == room:
                slot = 0
    return not state.in_flight or _same_flight(keep, values, at, state)


@allocation_free
def _signature(link_count, tick, links):
    """Return a hash of the remaining transmission times and arbiter positions."""
    signature = np.int64(0)
    for m in range(link_count):
        busy = np.int64(-1) if links[BUSY_UNTIL, m] == NEVER else links[BUSY_UNTIL, m] - tick
        signature = (signature * 31 + busy) * 31 + links[LAST_TURN, m]
    return signature


@allocation_free
def _skip_periods(k, snapshots, state):
    """Repeat the interval since snapshot `k` as often as the epoch permits."""
    link_count = state.counters[LINK_COUNT]
    counters, links, messages = state.counters, state.links, state.messages
    sent, delivered, passed = snapshots.sent, snapshots.delivered, snapshots.passed
    period = counters[TICK] - snapshots.tick[k]
    repeats = NEVER
    for c in range(counters[MESSAGE_COUNT]):
        moved = sent[k, c] - messages[TO_SEND, c]
        if moved > 0:
            repeats = min(repeats, (messages[TO_SEND, c] - 1) // moved)
    if counters[NEXT_START] < NEVER:
        repeats = min(repeats, (counters[NEXT_START] - counters[SKIPPED] - counters[TICK] - 1) // period)
    for c in range(counters[MESSAGE_COUNT]):
        messages[TO_SEND, c] -= repeats * (sent[k, c] - messages[TO_SEND, c])
        messages[TO_DELIVER, c] -= repeats * (delivered[k, c] - messages[TO_DELIVER, c])
    for m in range(link_count):
        links[SENT, m] += repeats * (links[SENT, m] - passed[k, m])
    counters[SKIPPED] += repeats * period
    # The rest of the epoch is shorter than the repeated interval.
    counters[SEARCHING] = 0


@allocation_free
def _thin_out(snapshots):
    """Discard every second snapshot; the remaining ones are the first half of `order`."""
    order = snapshots.order
    for k in range(order.size // 2):
        # Earlier exchanges did not change entries from 2 k on.
        order[k], order[2 * k] = order[2 * k], order[k]


@allocation_free
def _keep(k, signature, snapshots, state):
    """Store the state as snapshot `k`."""
    counters, messages = state.counters, state.messages
    link_count = counters[LINK_COUNT]
    snapshots.tick[k] = counters[TICK]
    snapshots.signature[k] = signature
    _same_state(True, snapshots.values[k], state)
    for c in range(counters[MESSAGE_COUNT]):
        snapshots.sent[k, c] = messages[TO_SEND, c]
        snapshots.delivered[k, c] = messages[TO_DELIVER, c]
    for m in range(link_count):
        snapshots.passed[k, m] = state.links[SENT, m]


@allocation_free(inline="always")
def may_have_repeated(counters):
    """Return whether the marker has delivered a packet, or a new epoch begins."""
    return counters[EPOCH_ENDS] or (counters[SEARCHING] and counters[MARKER_MOVED])


@allocation_free(inline="always")
def look_for_period(snapshots, state):
    """Compare the state with the snapshots and skip repetitions, or begin a new epoch."""
    counters, messages = state.counters, state.messages
    if counters[EPOCH_ENDS]:
        # Earlier snapshots belong to another set of sending copies.
        counters[MARKER] = -1
        for c in range(counters[MESSAGE_COUNT]):
            if messages[STATE, c] == RUNNING and messages[TO_SEND, c] > 0:
                counters[MARKER] = c
                break
        counters[SEARCHING] = counters[MARKER] >= 0
        counters[KEPT] = 0
        counters[SPACING] = _FIRST_SPACING
        counters[SINCE] = 0
        return
    signature = _signature(counters[LINK_COUNT], counters[TICK], state.links)
    kept = counters[KEPT]
    for position in range(kept):
        k = np.uint32(snapshots.order[position])
        if snapshots.signature[k] == signature and _same_state(False, snapshots.values[k], state):
            _skip_periods(k, snapshots, state)
            return
    if counters[SINCE] % counters[SPACING] == 0:
        if counters[KEPT] == snapshots.order.size:
            _thin_out(snapshots)
            counters[KEPT] //= 2
            counters[SPACING] *= 2
        _keep(np.uint32(snapshots.order[counters[KEPT]]), signature, snapshots, state)
        counters[KEPT] += 1
    counters[SINCE] += 1
