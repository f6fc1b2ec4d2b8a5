"""Shortened routes: links without contention are replaced by delays.

Shortened routes are for runs that only need completion times, which are exact. The conditions on the hardware are
store-and-forward switching, no link latency, no link-layer packets, and buffers for all packets between two links
(`only_merging_links_decide`).

1. First link of routes (`_may_begin_behind`, `_begin_behind`). The link is removed if all copies on it begin there and
   continue on the same next link, in packets of the same kind, without splitting and not faster than on this link. The
   link then keeps the queue of the next link filled from the arrival of its first packet on. The copies start at the
   next link instead, later by one transmission time. If several copies use the link, they must start together and be
   the only users of the next link, whose arbiter inherits the initial position of the removed one. This step repeats
   until no link is removed.
2. Links without waiting (`_find_free_links`). A link is free if no packet waits after it: the next link is free, gets
   packets only from this link, does not split them, and is at least as fast. In addition, all packets on the link have
   the same transmission time, or all continue on the same next link. All links are assumed to be free, and links that
   violate the conditions are removed from the set until it no longer changes (greatest fixed point).
3. Last links of routes (`_end_before`). A last link is removed as long as the link before it is free. If the packets
   have equal transmission times, the removed links add a constant delay (`TAIL_TICKS`). Otherwise a short packet can
   wait for a long one, and `arrival` computes the arrival of each packet from the times when the removed links are idle
   again (`CLEAR`).
4. Renumbering (`_number_anew`). The remaining links get the first numbers, and the event loop visits only them.
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
from fabricast.runtime.compilation import allocation_free

_NONE, _SEVERAL = np.int64(-1), np.int64(-2)


@allocation_free(inline="always")
def _only(known, value):
    """Return the common value of all calls, or `_SEVERAL`."""
    return value if known in (_NONE, value) else _SEVERAL


@allocation_free
def _look_around(state):
    """Compute previous and next link, transmission time and users of each link."""
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


@allocation_free
def _may_begin_behind(m, state):
    """Return whether all copies on a link may begin on the next link instead."""
    around, steps, messages = state.around, state.steps, state.messages
    following = around[AFTER, m]
    if around[USERS, m] == 0 or around[BEGINNERS, m] != around[USERS, m] or following < 0:
        return False
    # The round-robin order of several copies is the same on the next link if it has no other users.
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


@allocation_free
def _begin_behind(m, state):
    """Remove a link from the start of routes and delay the start of its copies."""
    around, links, steps, messages = state.around, state.links, state.steps, state.messages
    if around[USERS, m] > 1:
        # The next link inherits the initial arbiter position.
        links[NUMBER, around[AFTER, m]] = links[NUMBER, m]
    for c in range(state.counters[MESSAGE_COUNT]):
        step = messages[FIRST_STEP, c]
        if steps[LINK, step] == m:
            messages[BEGIN, c] += steps[TICKS, step]
            messages[FIRST_STEP, c] += 1
    around[USERS, m] = 0


@allocation_free
def _find_free_links(state):
    """Find the links after which no packet waits for another."""
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
                # Packets with equal transmission times never meet again. Others may wait for each other in the tail, so
                # they must all continue on the same link.
                passes = passes and (around[ONLY_TICKS, m] >= 0 or around[AFTER, m] >= 0)
                if around[FREE, m] and not passes:
                    around[FREE, m] = 0
                    changed = True


@allocation_free
def _end_before(state):
    """Remove the last links of routes after free links, and store their total delay."""
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


@allocation_free
def _number_anew(state):
    """Renumber links such that the remaining ones come first, in their order."""
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


@allocation_free
def _shorten_routes(state):
    """Remove links without contention from all routes."""
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


@allocation_free(inline="always")
def arrival(c, tick, state):
    """Return the arrival tick at the target of a packet at the end of its shortened route."""
    if state.messages[TAIL_TICKS, c] >= 0:
        return tick + state.messages[TAIL_TICKS, c]
    for step in range(state.messages[END_STEP, c], state.messages[ROUTE_END, c]):
        m = state.steps[LINK, step]
        tick = max(tick, state.links[CLEAR, m]) + state.steps[TICKS, step]
        state.links[CLEAR, m] = tick
    return tick


@allocation_free
def lay_out_run(graph, graphs, network, hardware, ends_only, phase, state):
    """Prepare the run of a graph in an arbitration phase; `ends_only` shortens routes."""
    first = graphs.offset[graph]
    lay_out(first, graphs.offset[graph + 1] - first, graphs, network, hardware, state)
    if ends_only:
        _shorten_routes(state)
    number_queues(hardware, phase, state)
