"""Exact repetitions of the packet-level simulator are skipped.

Each state is compared with a few earlier ones, evenly spaced over the time since the search began; whenever there is no
room for another, every second is given up (Sedgewick, Szymanski and Yao 1982). A repetition is so found hardly later
than it can be: buffers take far longer to fill than the period takes that follows.
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
from fabricast.runtime.compilation import njit

__all__ = ["look_for_period", "may_have_repeated"]

#: Moves of the marked communication between the first snapshots: to keep one takes time itself.
_FIRST_SPACING = 8


@njit
def _same(keep, values, at, value):
    """Keep a value in a snapshot, or tell whether it is the one in there."""
    if keep:
        values[at] = value
        return True
    return values[at] == value


@njit
def _same_flight(keep, values, at, state):
    """Compare what travels on links with a snapshot from place `at` on, or keep it there."""
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
                place = (head + k) % room
                when = flight[ARRIVAL_TICK + 2 * side, m, place] - tick
                if not _same(keep, values, at, when):
                    return False
                if not _same(keep, values, at + 1, flight[ARRIVAL_STEP + 2 * side, m, place]):
                    return False
                at += 2
    return True


@njit
def _same_state(keep, values, state):
    """Compare the state with a snapshot, or keep it as one; counters of bytes are not part of it."""
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
        # A source that is between two pieces cannot be: pieces exist behind the root complex only.
        if not _same(keep, values, at, queues[LENGTH, q]):
            return False
        at += 1
    for q in range(message_count, queue_count):
        place = queues[HEAD, q]
        for _ in range(queues[LENGTH, q]):
            if not _same(keep, values, at, state.slots[q, np.uint32(place)]):
                return False
            at += 1
            place += 1
            if place == room:
                place = 0
    return not state.in_flight or _same_flight(keep, values, at, state)


@njit
def _signature(link_count, tick, links):
    """Return a number that equal states share: what links do, and who was served last."""
    signature = np.int64(0)
    for m in range(link_count):
        busy = np.int64(-1) if links[BUSY_UNTIL, m] == NEVER else links[BUSY_UNTIL, m] - tick
        signature = (signature * 31 + busy) * 31 + links[LAST_TURN, m]
    return signature


@njit
def _skip_periods(k, snapshots, state):
    """Skip whole periods since snapshot `k`, as many as no source drains in and none starts in."""
    link_count = state.counters[LINK_COUNT]
    counters, links, messages = state.counters, state.links, state.messages
    sent, delivered, carried = snapshots.sent, snapshots.delivered, snapshots.carried
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
        links[SENT, m] += repeats * (links[SENT, m] - carried[k, m])
    counters[SKIPPED] += repeats * period
    # What is left until a source drains is shorter than a period.
    counters[SEARCHING] = 0


@njit
def _thin_out(snapshots):
    """Give up every second snapshot: the first half of `order` are then those that stay."""
    order = snapshots.order
    for k in range(order.size // 2):
        # Exchanges before this one touched no place from 2 k on.
        order[k], order[2 * k] = order[2 * k], order[k]


@njit
def _keep(k, signature, snapshots, state):
    """Keep the state as snapshot `k`."""
    counters, messages = state.counters, state.messages
    link_count = counters[LINK_COUNT]
    snapshots.tick[k] = counters[TICK]
    snapshots.signature[k] = signature
    _same_state(True, snapshots.values[k], state)
    for c in range(counters[MESSAGE_COUNT]):
        snapshots.sent[k, c] = messages[TO_SEND, c]
        snapshots.delivered[k, c] = messages[TO_DELIVER, c]
    for m in range(link_count):
        snapshots.carried[k, m] = state.links[SENT, m]


@njit(inline="always")
def may_have_repeated(counters):
    """Tell whether to look for a period: the marked communication moved, or what ran has changed."""
    return counters[EPOCH_ENDS] or (counters[SEARCHING] and counters[MARKER_MOVED])


@njit(inline="always")
def look_for_period(snapshots, state):
    """Compare with the snapshots, now that the marked communication has moved, and skip what repeats."""
    counters, messages = state.counters, state.messages
    if counters[EPOCH_ENDS]:
        # A source started, drained or finished: periods seen before mean nothing now.
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
    for place in range(kept):
        k = np.uint32(snapshots.order[place])
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
