"""Routes without the links at which nothing is decided, for runs of which only the ends are asked.

A source whose packets all cross the next link too keeps the queue between the two filled as soon as its first packet
has arrived: it may as well start there, that much later. A packet that meets no other link's packets any more, up to a
target that takes it at once, is never held back: when it arrives follows from when it left the last link that others
use. Either holds where a buffer takes a few packets and links add no delay of their own; no end changes, and a third
of all events is gone.
"""

from __future__ import annotations

import numpy as np

from fabricast.pcie.packets.kernels.state import (
    AFTER,
    BEFORE,
    BEGIN,
    BEGINNERS,
    CLEAR,
    END_STEP,
    FIRST_STEP,
    FREE,
    GLOBAL_LINK,
    KIND,
    LINK,
    LINK_COUNT,
    MESSAGE_COUNT,
    NUMBER,
    ONLY_TICKS,
    PIECES,
    RENUMBERED,
    REVERSE,
    ROUTE_END,
    TAIL_TICKS,
    TICKS,
    USED_COUNT,
    USERS,
    lay_out,
    number_queues,
)
from fabricast.runtime.compilation import njit

__all__ = ["arrival", "lay_out_run"]

_NONE, _SEVERAL = np.int64(-1), np.int64(-2)


@njit(inline="always")
def _only(known, value):
    """Return the only value that was seen so far, or that there are several."""
    return value if known in (_NONE, value) else _SEVERAL


@njit
def _look_around(state):
    """Fill what is known of each link by the routes as they are."""
    around, steps, messages = state.around, state.steps, state.messages
    for m in range(state.counters[LINK_COUNT]):
        around[BEFORE, m] = _NONE
        around[AFTER, m] = _NONE
        around[ONLY_TICKS, m] = _NONE
        around[USERS, m] = 0
        around[BEGINNERS, m] = 0
    for c in range(state.counters[MESSAGE_COUNT]):
        first, end = messages[FIRST_STEP, c], messages[END_STEP, c]
        around[BEGINNERS, steps[LINK, first]] += 1
        for step in range(first, end):
            m = steps[LINK, step]
            around[USERS, m] += 1
            around[ONLY_TICKS, m] = _only(around[ONLY_TICKS, m], steps[TICKS, step])
            around[BEFORE, m] = _only(around[BEFORE, m], steps[LINK, step - 1]) if step > first else _SEVERAL
            around[AFTER, m] = _only(around[AFTER, m], steps[LINK, step + 1]) if step + 1 < end else _SEVERAL


@njit
def _may_begin_behind(m, state):
    """Tell whether all that crosses a link begins there and crosses the next link as it is, in the same order."""
    around, steps, messages = state.around, state.steps, state.messages
    following = around[AFTER, m]
    if around[USERS, m] == 0 or around[BEGINNERS, m] != around[USERS, m] or following < 0:
        return False
    # Several take turns on this link as they would on the next, if there is nobody else.
    if around[USERS, m] > 1 and around[USERS, following] != around[USERS, m]:
        return False
    begin = np.int64(-1)
    for c in range(state.counters[MESSAGE_COUNT]):
        step = messages[FIRST_STEP, c]
        if steps[LINK, step] != m:
            continue
        alike = steps[KIND, step] == steps[KIND, step + 1] and steps[PIECES, step + 1] == 1
        if not alike or steps[TICKS, step] > steps[TICKS, step + 1] or begin not in (-1, messages[BEGIN, c]):
            return False
        begin = messages[BEGIN, c]
    return True


@njit
def _begin_behind(m, state):
    """Let what begins on a link begin on the next one, when its first packet arrives there."""
    around, links, steps, messages = state.around, state.links, state.steps, state.messages
    if around[USERS, m] > 1:
        # Its arbiter stands where that of this link does.
        links[NUMBER, around[AFTER, m]] = links[NUMBER, m]
    for c in range(state.counters[MESSAGE_COUNT]):
        step = messages[FIRST_STEP, c]
        if steps[LINK, step] == m:
            messages[BEGIN, c] += steps[TICKS, step]
            messages[FIRST_STEP, c] += 1
    around[USERS, m] = 0


@njit
def _find_free_links(state):
    """Find the links behind which no packet is held back by others."""
    around, steps, messages = state.around, state.steps, state.messages
    link_count = state.counters[LINK_COUNT]
    for m in range(link_count):
        around[FREE, m] = 1
    changed = True
    while changed:
        changed = False
        for c in range(state.counters[MESSAGE_COUNT]):
            for step in range(messages[FIRST_STEP, c], messages[END_STEP, c] - 1):
                m, following = steps[LINK, step], steps[LINK, step + 1]
                passes = around[FREE, following] and around[BEFORE, following] == m and steps[PIECES, step + 1] == 1
                passes = passes and steps[TICKS, step + 1] <= steps[TICKS, step]
                # Packets of one duration never meet again; others wait for each other, not for those to elsewhere.
                passes = passes and (around[ONLY_TICKS, m] >= 0 or around[AFTER, m] >= 0)
                if around[FREE, m] and not passes:
                    around[FREE, m] = 0
                    changed = True


@njit
def _end_before(state):
    """Let communications end on the last link that others use, and note how long the rest of the route takes."""
    around, steps, messages = state.around, state.steps, state.messages
    for c in range(state.counters[MESSAGE_COUNT]):
        ticks, waits = np.int64(0), False
        while messages[END_STEP, c] - messages[FIRST_STEP, c] > 1:
            step = messages[END_STEP, c] - 1
            before = steps[LINK, step - 1]
            if not around[FREE, before]:
                break
            ticks += steps[TICKS, step]
            waits = waits or around[ONLY_TICKS, before] < 0
            messages[END_STEP, c] -= 1
        messages[TAIL_TICKS, c] = -1 if waits else ticks


@njit
def _number_anew(state):
    """Give the links that are left the first numbers, in their order: a run looks at those only."""
    around, links, steps, messages = state.around, state.links, state.steps, state.messages
    link_count = state.counters[LINK_COUNT]
    for m in range(link_count):
        around[USERS, m] = 0
    for c in range(state.counters[MESSAGE_COUNT]):
        for step in range(messages[FIRST_STEP, c], messages[END_STEP, c]):
            around[USERS, steps[LINK, step]] = 1
    left = 0
    for m in range(link_count):
        if around[USERS, m]:
            around[RENUMBERED, m] = left
            links[GLOBAL_LINK, left] = links[GLOBAL_LINK, m]
            links[NUMBER, left] = links[NUMBER, m]
            left += 1
    state.counters[LINK_COUNT] = left
    state.counters[USED_COUNT] = link_count
    for m in range(link_count):
        if not around[USERS, m]:
            around[RENUMBERED, m] = left
            left += 1
        links[REVERSE, m] = -1
        links[CLEAR, m] = 0
    for c in range(state.counters[MESSAGE_COUNT]):
        for step in range(messages[FIRST_STEP, c], messages[ROUTE_END, c]):
            steps[LINK, step] = around[RENUMBERED, steps[LINK, step]]


@njit
def _shorten_routes(state):
    """Leave out links at which nothing is decided."""
    changed = True
    while changed:
        changed = False
        _look_around(state)
        for m in range(state.counters[LINK_COUNT]):
            if _may_begin_behind(m, state):
                _begin_behind(m, state)
                changed = True
    _find_free_links(state)
    _end_before(state)
    _number_anew(state)


@njit(inline="always")
def arrival(c, tick, state):
    """Return when a packet arrives at its target that has crossed the last link of a shortened route."""
    if state.messages[TAIL_TICKS, c] >= 0:
        return tick + state.messages[TAIL_TICKS, c]
    for step in range(state.messages[END_STEP, c], state.messages[ROUTE_END, c]):
        m = state.steps[LINK, step]
        tick = max(tick, state.links[CLEAR, m]) + state.steps[TICKS, step]
        state.links[CLEAR, m] = tick
    return tick


@njit
def lay_out_run(graph, graphs, network, hardware, ends_only, phase, state):
    """Prepare the state for the run of a graph in one phase of the arbiters; of its ends alone on shortened routes."""
    first = graphs.offset[graph]
    lay_out(first, graphs.offset[graph + 1] - first, graphs, network, hardware, state)
    if ends_only:
        _shorten_routes(state)
    number_queues(hardware, phase, state)
