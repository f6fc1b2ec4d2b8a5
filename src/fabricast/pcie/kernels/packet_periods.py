"""Exact repetitions of the packet-level simulator are skipped (detection of periods: Brent 1980)."""

from __future__ import annotations

import numpy as np

from fabricast.pcie.kernels.packet_state import (
    ARRIVAL_COUNT,
    ARRIVAL_HEAD,
    ARRIVAL_STEP,
    ARRIVAL_TICK,
    BUSY_UNTIL,
    DATA_CREDITS,
    EPOCH_ENDS,
    FREES_INPUT,
    HEAD,
    HEADER_CREDITS,
    LAST_TURN,
    LENGTH,
    LINK_COUNT,
    MARKER,
    MARKER_MOVED,
    MESSAGE_COUNT,
    NEVER,
    NEXT_START,
    PIECES_LEFT,
    POWER,
    QUEUE_COUNT,
    RUNNING,
    SEARCHING,
    SENDING_STEP,
    SENT,
    SINCE,
    SKIPPED,
    SNAPSHOT_TICK,
    STATE,
    TICK,
    TO_DELIVER,
    TO_SEND,
)
from fabricast.runtime.compilation import allocation_free

__all__ = ["look_for_period"]


@allocation_free()
def _same(keep, snapshot, at, value):
    """Keep a value in a snapshot, or tell whether it is the one in there."""
    if keep:
        snapshot[at] = value
        return True
    return snapshot[at] == value


@allocation_free()
def _same_flight(keep, snapshot, at, state):
    """Compare what travels on links with a snapshot from place `at` on, or keep it there."""
    link_count = state.counters[LINK_COUNT]
    tick = state.counters[TICK]
    links, flight, room = state.links, state.flight, state.slots.shape[1]
    for m in range(link_count):
        for side in range(2):
            head = links[ARRIVAL_HEAD + 2 * side, m]
            count = links[ARRIVAL_COUNT + 2 * side, m]
            if not _same(keep, snapshot, at, count):
                return False
            at += 1
            for k in range(count):
                place = (head + k) % room
                when = flight[ARRIVAL_TICK + 2 * side, m, place] - tick
                if not _same(keep, snapshot, at, when):
                    return False
                if not _same(keep, snapshot, at + 1, flight[ARRIVAL_STEP + 2 * side, m, place]):
                    return False
                at += 2
    return True


@allocation_free()
def _same_state(keep, snapshot, state):
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
        if not _same(keep, snapshot, at, value):
            return False
        at += 1
    for q in range(message_count, queue_count):
        if not _same(keep, snapshot, at, queues[LENGTH, q] * 1024 + queues[PIECES_LEFT, q]):
            return False
        at += 1
    for m in range(link_count):
        for row in (LAST_TURN, HEADER_CREDITS, DATA_CREDITS):
            if not _same(keep, snapshot, at, links[row, m]):
                return False
            at += 1
    for q in range(message_count):
        # A source that is between two pieces cannot be: pieces exist behind the root complex only.
        if not _same(keep, snapshot, at, queues[LENGTH, q]):
            return False
        at += 1
    for q in range(message_count, queue_count):
        for k in range(queues[LENGTH, q]):
            if not _same(keep, snapshot, at, state.slots[q, (queues[HEAD, q] + k) % room]):
                return False
            at += 1
    return not state.in_flight or _same_flight(keep, snapshot, at, state)


@allocation_free()
def _skip_periods(snapshot, state):
    """Skip whole periods of a state that repeats, as many as no source drains in and none starts in."""
    link_count = state.counters[LINK_COUNT]
    counters, links, messages = state.counters, state.links, state.messages
    period = counters[TICK] - counters[SNAPSHOT_TICK]
    repeats = NEVER
    for c in range(counters[MESSAGE_COUNT]):
        moved = snapshot.sent[c] - messages[TO_SEND, c]
        if moved > 0:
            repeats = min(repeats, (messages[TO_SEND, c] - 1) // moved)
    if counters[NEXT_START] < NEVER:
        repeats = min(repeats, (counters[NEXT_START] - counters[SKIPPED] - counters[TICK] - 1) // period)
    for c in range(counters[MESSAGE_COUNT]):
        messages[TO_SEND, c] -= repeats * (snapshot.sent[c] - messages[TO_SEND, c])
        messages[TO_DELIVER, c] -= repeats * (snapshot.delivered[c] - messages[TO_DELIVER, c])
    for m in range(link_count):
        links[SENT, m] += repeats * (links[SENT, m] - snapshot.carried[m])
    counters[SKIPPED] += repeats * period
    # What is left until a source drains is shorter than a period.
    counters[SEARCHING] = 0


@allocation_free()
def look_for_period(snapshot, state):
    """Compare with the snapshot when the marked communication has moved, and skip what repeats."""
    link_count = state.counters[LINK_COUNT]
    counters, messages = state.counters, state.messages
    if counters[EPOCH_ENDS]:
        # A source started, drained or finished: periods seen before mean nothing now.
        counters[MARKER] = -1
        for c in range(counters[MESSAGE_COUNT]):
            if messages[STATE, c] == RUNNING and messages[TO_SEND, c] > 0:
                counters[MARKER] = c
                break
        counters[SEARCHING] = counters[MARKER] >= 0
        counters[SNAPSHOT_TICK] = -1
        counters[POWER] = 1
        counters[SINCE] = 0
        return
    if not (counters[SEARCHING] and counters[MARKER_MOVED]):
        return
    taken = counters[SNAPSHOT_TICK] >= 0
    if taken and _same_state(False, snapshot.values, state):
        _skip_periods(snapshot, state)
        return
    counters[SINCE] += 1
    if taken and counters[SINCE] != counters[POWER]:
        return
    if taken:
        counters[POWER] *= 2
    counters[SINCE] = 0
    counters[SNAPSHOT_TICK] = counters[TICK]
    _same_state(True, snapshot.values, state)
    for c in range(counters[MESSAGE_COUNT]):
        snapshot.sent[c] = messages[TO_SEND, c]
        snapshot.delivered[c] = messages[TO_DELIVER, c]
    for m in range(link_count):
        snapshot.carried[m] = state.links[SENT, m]
