"""Start of copies under a copy program: engines, barriers and round-robin order of flows.

An engine executes one copy at a time. A copy with a barrier waits until all earlier copies of the barrier are
done. Among the copies that may start, an idle engine chooses the next flow in round-robin order, or the first row.
"""

from __future__ import annotations

from fabricast.pcie.packets.kernels.state import (
    ACTIVE_USERS,
    BARRED,
    BEGIN,
    CHOSEN,
    DONE,
    ENGINE_BUSY,
    FIRST_STEP,
    LAST_FLOW,
    LINK,
    MESSAGE_COUNT,
    QUEUE_AFTER,
    READY,
    SKIPPED,
    STATE,
    TICK,
    WAITING,
)
from fabricast.runtime.compilation import allocation_free

__all__ = ["claim_engines", "count_users"]


@allocation_free
def count_users(c, change, state):
    """Add a change to the number of active copies on each link of a route."""
    step = state.messages[FIRST_STEP, c]
    while True:
        state.links[ACTIVE_USERS, state.steps[LINK, step]] += change
        if state.steps[QUEUE_AFTER, step] < 0:
            break
        step += 1


@allocation_free(inline="always")
def _turn(row, engine, graphs, state):
    """Return the round-robin distance of the flow of a row from the last flow of an engine."""
    return (graphs.flow[row] - state.engines[LAST_FLOW, engine] - 1) % graphs.turns if graphs.turns > 0 else 0


@allocation_free
def claim_engines(first, graphs, state):
    """Assign the next copy to each idle engine; copies without an engine become ready at once."""
    counters, messages, engines = state.counters, state.messages, state.engines
    now = counters[TICK] + counters[SKIPPED]
    engines[BARRED] = 0
    engines[CHOSEN] = -1
    for c in range(counters[MESSAGE_COUNT]):
        if messages[STATE, c] == DONE:
            continue
        engine, barrier = graphs.engine[first + c], graphs.barrier[first + c]
        free = barrier < 0 or engines[BARRED, barrier] == 0
        if messages[STATE, c] == WAITING and messages[BEGIN, c] <= now and free:
            if engine < 0:
                messages[STATE, c] = READY
            elif engines[ENGINE_BUSY, engine] == 0:
                best = engines[CHOSEN, engine]
                if best < 0 or _turn(first + c, engine, graphs, state) < _turn(first + best, engine, graphs, state):
                    engines[CHOSEN, engine] = c
        if barrier >= 0:
            engines[BARRED, barrier] = 1
    for engine in range(engines.shape[1]):
        c = engines[CHOSEN, engine]
        if c < 0:
            continue
        last, flow = engines[LAST_FLOW, engine], graphs.flow[first + c]
        engines[ENGINE_BUSY, engine] = 1
        engines[LAST_FLOW, engine] = flow
        if last >= 0 and last != flow:
            messages[BEGIN, c] = now + graphs.pause_ticks[first + c]
        messages[STATE, c] = READY
