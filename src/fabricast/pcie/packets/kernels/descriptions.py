"""What decides a run of the packet-level simulator, written so that runs that proceed alike are written alike.

A run follows from when each communication begins, from the queues and times along its route, and from the order in
which queues take turns on each link. Names of links, endpoints and rows decide nothing, nor do links that were left
out of routes. Each communication in turn is the first of a description in order of discovery: along its route, and on
each link those that take turns there. The smallest of these descriptions does not depend on the order of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
from fabricast.runtime.compilation import njit

__all__ = ["describe_runs", "words_of_description"]

# Words of a communication, of a link, and of a hop with its turn on the link.
_OF_COMMUNICATION, _OF_LINK, _OF_HOP = 5, 4, 6


class _Met(NamedTuple):
    """Communications or links in the order in which they were met, the place of each, and an array of their count."""

    members: Any
    place: Any
    count: Any


class _Found(NamedTuple):
    """What a description has met so far."""

    communications: Any
    links: Any


@njit
def words_of_description(communications, longest_route):
    """Return how many words describe a run of so many communications, at most."""
    return communications * (_OF_COMMUNICATION + longest_route * (_OF_LINK + _OF_HOP))


@njit(inline="always")
def _place_of(number, met):
    """Return the place of a communication or link; one that is met for the first time gets the next one."""
    if met.place[number] < 0:
        met.members[met.count[0]] = number
        met.place[number] = met.count[0]
        met.count[0] += 1
    return met.place[number]


@njit
def _write_communication(c, earliest, words, at, found, state):
    """Write a communication and its route; return where the next word goes."""
    messages, steps = state.messages, state.steps
    first, end = messages[FIRST_STEP, c], messages[END_STEP, c]
    waits = messages[TAIL_TICKS, c] < 0
    words[at] = messages[BEGIN, c] - earliest
    words[at + 1] = messages[TO_SEND, c]
    words[at + 2] = messages[TO_DELIVER, c]
    words[at + 3] = end - first
    # A tail in which nobody waits only adds its time.
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


@njit
def _write_link(m, hardware, words, at, found, state):
    """Write who takes turns on a link, the next one first, and what its other direction adds; return where to go on."""
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


@njit
def _describe(root, earliest, hardware, words, found, state):
    """Write the description that starts with a communication; return its length."""
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
            # What the first ones never meet follows in the order of rows.
            while communications.place[next_root] >= 0:
                next_root += 1
            _place_of(next_root, found.communications)
        at = _write_communication(communications.members[described], earliest, words, at, found, state)
        described += 1
        while links_described < links.count[0]:
            at = _write_link(links.members[links_described], hardware, words, at, found, state)
            links_described += 1
    return at


@njit(inline="always")
def _is_smaller(words, length, other, other_length):
    """Tell whether a description comes before another one; the shorter does."""
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
    """Describe the runs of consecutive graphs, a row of `words` each, of which `length` are in use.

    Fills, of all communications, `place`, where each stands in its description, and `shift_ticks`: runs whose words
    are equal end equally long after it. A graph whose description may need more words is left out: its `length` is 0.
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
