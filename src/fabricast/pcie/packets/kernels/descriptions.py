"""Canonical descriptions of simulation runs, used to simulate equivalent graphs once.

Two runs are equivalent if one becomes the other by renumbering links and copies and by shifting time. A description is
a sequence of integers that determines a run up to such changes; runs with equal descriptions are equivalent.

1. `lay_out_run` prepares the run: routes (shortened if only completion times are required), transmission times, queues,
   and the initial positions of the arbiters in the phase of the run.
2. A copy is chosen as the root. A breadth-first traversal numbers copies and links in the order of discovery: a copy
   discovers the links of its route, and a link discovers the copies and links whose queues it serves.
3. For each copy, `_write_communication` writes its start relative to the earliest start, its numbers of packets, and
   for each step the discovered number of the link, packet kind, transmission time, number of pieces and arrival delay.
   Links that are removed from the end of a route are written only if packets can wait there.
4. For each link, `_write_link` writes its queues in round-robin order, beginning with the next one to be served, its
   reverse link, and the delay by link-layer packets.
5. Steps 2 to 4 are repeated for each copy as the root. The canonical description is the shortest, and among those
   of equal length the lexicographically smallest. It does not depend on numbers of endpoints, links or rows.

Copies that the traversal does not reach follow in the order of rows. Some equivalent runs are then described
differently and simulated twice, but different runs never have the same description. The cost is quadratic in the
number of copies. Completion times of equivalent runs differ by the earliest start and the delay of removed links, which
`describe_runs` returns as `shift_ticks`.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from fabricast.pcie.packets.kernels.routes import lay_out_run
from fabricast.pcie.packets.kernels.state import (
    ARRIVAL_DELAY,
    BEGIN,
    END_STEP,
    FIRST_STEP,
    GLOBAL_LINK,
    INPUT_LINK,
    KIND,
    LAST_TURN,
    LINK,
    LINK_COUNT,
    MESSAGE_COUNT,
    NEVER,
    PIECES,
    REVERSE,
    ROUTE_END,
    TAIL_TICKS,
    TICKS,
    TO_DELIVER,
    TO_SEND,
    TURNS,
    USED_COUNT,
    new_state,
)
from fabricast.runtime.compilation import allocation_free, njit

# Number of words for a copy, for a link, and for a hop including its queue at the link.
_OF_COMMUNICATION, _OF_LINK, _OF_HOP = 5, 4, 6


#: Discovered copies or links in order, the position of each, and their count.
_Met = namedtuple("_Met", "members place count")


#: Copies and links discovered by a traversal.
_Found = namedtuple("_Found", "communications links")


@allocation_free(from_python=True)
def words_of_description(communications, longest_route):
    """Return the maximum number of words that describe a run with `communications` copies."""
    return communications * (_OF_COMMUNICATION + longest_route * (_OF_LINK + _OF_HOP))


@allocation_free(inline="always")
def _place_of(number, met):
    """Return the discovery number of a copy or link; a new one gets the next number."""
    if met.place[number] < 0:
        met.members[met.count[0]] = number
        met.place[number] = met.count[0]
        met.count[0] += 1
    return met.place[number]


@allocation_free
def _write_communication(c, earliest, words, at, found, state):
    """Write a copy and its route; return the index of the next word."""
    messages, steps = state.messages, state.steps
    first, end = messages[FIRST_STEP, c], messages[END_STEP, c]
    waits = messages[TAIL_TICKS, c] < 0
    words[at] = messages[BEGIN, c] - earliest
    words[at + 1] = messages[TO_SEND, c]
    words[at + 2] = messages[TO_DELIVER, c]
    words[at + 3] = end - first
    # Removed links without waiting packets only add a delay, which is part of `shift_ticks`.
    words[at + 4] = messages[ROUTE_END, c] - end if waits else 0
    at += 5
    for step in range(first, end):
        words[at] = _place_of(steps[LINK, step], found.links)
        words[at + 1] = steps[KIND, step]
        words[at + 2] = steps[TICKS, step]
        words[at + 3] = steps[PIECES, step]
        words[at + 4] = steps[ARRIVAL_DELAY, step]
        at += 5
    if waits:
        for step in range(end, messages[ROUTE_END, c]):
            words[at] = _place_of(steps[LINK, step], found.links)
            words[at + 1] = steps[TICKS, step]
            at += 2
    return at


@allocation_free
def _write_link(m, hardware, words, at, found, state):
    """Write the queues of a link in service order; return the index of the next word."""
    links = state.links
    count = links[TURNS, m] if m < state.counters[LINK_COUNT] else 0
    words[at] = count
    reverse = links[REVERSE, m]
    words[at + 1] = _place_of(reverse, found.links) if reverse >= 0 else -1
    words[at + 2] = hardware.link_layer_ticks[0, links[GLOBAL_LINK, m]] if reverse >= 0 else 0
    words[at + 3] = hardware.link_layer_ticks[1, links[GLOBAL_LINK, m]] if reverse >= 0 else 0
    at += 4
    for k in range(count):
        q = state.turns[m, (links[LAST_TURN, m] + 1 + k) % count]
        if q < state.counters[MESSAGE_COUNT]:
            words[at] = 2 * _place_of(q, found.communications)
        else:
            words[at] = 2 * _place_of(state.queues[INPUT_LINK, q], found.links) + 1
        at += 1
    return at


@allocation_free
def _describe(root, earliest, hardware, words, found, state):
    """Write the description with a copy as the root; return its length."""
    count = state.counters[MESSAGE_COUNT]
    communications, links = found.communications, found.links
    communications.place[:count] = -1
    links.place[: state.counters[USED_COUNT]] = -1
    communications.count[0] = 0
    links.count[0] = 0
    _place_of(root, found.communications)
    at, described, links_described, next_root = 0, 0, 0, 0
    while described < count:
        if described == communications.count[0]:
            # Copies that are not connected to the root follow in the order of rows.
            while communications.place[next_root] >= 0:
                next_root += 1
            _place_of(next_root, found.communications)
        at = _write_communication(communications.members[described], earliest, words, at, found, state)
        described += 1
        while links_described < links.count[0]:
            at = _write_link(links.members[links_described], hardware, words, at, found, state)
            links_described += 1
    return at


@allocation_free(inline="always")
def _is_smaller(words, length, other, other_length):
    """Return whether a description precedes another: by length, then lexicographically."""
    if length != other_length:
        return length < other_length
    for k in range(length):
        if words[k] != other[k]:
            return words[k] < other[k]
    return False


@njit
def describe_runs(
    first_graph, last_graph, graphs, network, hardware, ends_only, phases, words, length, place, shift_ticks
):
    """Write the canonical descriptions of consecutive graphs, one row of `words` each.

    `length` is the number of words of each description, 0 for a graph whose description may exceed the row. `place` is
    the position of each copy in its description. Completion times minus `shift_ticks` are equal for copies at the same
    position of equal descriptions.
    """
    widest = 1
    for graph in range(first_graph, last_graph):
        widest = max(widest, graphs.offset[graph + 1] - graphs.offset[graph])
    state = new_state(widest, graphs, network, hardware)
    all_links = hardware.wire_ticks.shape[1]
    found = _Found(
        _Met(np.empty(widest, dtype=np.int64), np.empty(widest, dtype=np.int64), np.zeros(1, dtype=np.int64)),
        _Met(np.empty(all_links, dtype=np.int64), np.empty(all_links, dtype=np.int64), np.zeros(1, dtype=np.int64)),
    )
    tried = np.empty(words.shape[1], dtype=np.int64)
    messages = state.messages
    for graph in range(first_graph, last_graph):
        first, count = graphs.offset[graph], graphs.offset[graph + 1] - graphs.offset[graph]
        length[graph - first_graph] = 0
        if words_of_description(count, network.longest_route) > words.shape[1]:
            continue
        lay_out_run(graph, graphs, network, hardware, ends_only, phases[graph], state)
        earliest = NEVER
        for c in range(count):
            earliest = min(earliest, messages[BEGIN, c])
        best = words[graph - first_graph]
        best_length = NEVER
        for root in range(count):
            tried_length = _describe(root, earliest, hardware, tried, found, state)
            if _is_smaller(tried, tried_length, best, best_length):
                best[:tried_length] = tried[:tried_length]
                best_length = tried_length
                place[first : first + count] = found.communications.place[:count]
        length[graph - first_graph] = best_length
        for c in range(count):
            shift_ticks[first + c] = earliest + max(messages[TAIL_TICKS, c], 0)
