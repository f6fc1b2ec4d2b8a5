"""Which communications may start under a program: one at a time for an engine, none behind an earlier one."""

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
from fabricast.runtime.compilation import njit

__all__ = ["claim_engines", "count_users"]


@njit
def count_users(c, change, state):
    """Count a communication that starts or ends on every link of its route."""
    step = state.messages[FIRST_STEP, c]
    while True:
        state.links[ACTIVE_USERS, state.steps[LINK, step]] += change
        if state.steps[QUEUE_AFTER, step] < 0:
            break
        step += 1


@njit(inline="always")
def _turn(row, engine, graphs, state):
    """Return how many flows come before that of a row after the last one of an engine."""
    return (graphs.flow[row] - state.engines[LAST_FLOW, engine] - 1) % graphs.turns if graphs.turns > 0 else 0


@njit
def claim_engines(first, graphs, state):
    """Give idle engines the communication whose turn it is among those that wait for no other."""
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
