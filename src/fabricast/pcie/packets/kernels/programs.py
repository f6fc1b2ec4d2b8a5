"""Start of copies under a copy program: engines, barriers and round-robin order of flows.

An engine starts copies until they occupy it (`occupancy`, a share of the engine). A copy with barriers waits until all
earlier copies of each barrier are done. Among the copies that may start, an engine chooses the next flow in round-robin
order, or the first row.
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
    OCCUPIED,
    QUEUE_AFTER,
    READY,
    SKIPPED,
    STATE,
    TICK,
    WAITING,
)
from fabricast.runtime.compilation import allocation_free


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
    """Assign copies to each engine that is not occupied; copies without an engine become ready at once."""
    while _claim_once(first, graphs, state):
        pass


@allocation_free
def _claim_once(first, graphs, state):
    """Assign the next copy to each engine that is not occupied; return whether it may start another one."""
    counters, messages, engines = state.counters, state.messages, state.engines
    now = counters[TICK] + counters[SKIPPED]
    engines[BARRED] = 0
    engines[CHOSEN] = -1
    for c in range(counters[MESSAGE_COUNT]):
        if messages[STATE, c] == DONE:
            continue
        engine, one, other = graphs.engine[first + c], graphs.barrier[first + c, 0], graphs.barrier[first + c, 1]
        free = (one < 0 or engines[BARRED, one] == 0) and (other < 0 or engines[BARRED, other] == 0)
        if messages[STATE, c] == WAITING and messages[BEGIN, c] <= now and free:
            if engine < 0:
                messages[STATE, c] = READY
            elif engines[ENGINE_BUSY, engine] < OCCUPIED:
                best = engines[CHOSEN, engine]
                if best < 0 or _turn(first + c, engine, graphs, state) < _turn(first + best, engine, graphs, state):
                    engines[CHOSEN, engine] = c
        if one >= 0:
            engines[BARRED, one] = 1
        if other >= 0:
            engines[BARRED, other] = 1
    is_free = False
    for engine in range(engines.shape[1]):
        c = engines[CHOSEN, engine]
        if c < 0:
            continue
        last, flow = engines[LAST_FLOW, engine], graphs.flow[first + c]
        engines[ENGINE_BUSY, engine] += graphs.occupancy[first + c]
        is_free = is_free or engines[ENGINE_BUSY, engine] < OCCUPIED
        engines[LAST_FLOW, engine] = flow
        if last >= 0 and last != flow:
            messages[BEGIN, c] = now + graphs.pause_ticks[first + c]
        messages[STATE, c] = READY
    return is_free
