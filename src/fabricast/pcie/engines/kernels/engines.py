"""Event loop of the engine models: copies with engines, barriers and shared links.

A flow repeats copies of one size, one after another. Events are issue times, ends of pauses, and ends of copies; rates
are constant between events. `_run` repeats these steps until all copies have ended:

1. Start copies. Each engine starts ready copies (`_choose`) until its copies occupy it: the next flow in cyclic order
   after the last one it executed, or a random one. A copy is ready if it is issued, the previous copy of its flow has
   ended, and its barriers are idle and grant its flow the next turn. Flows without an engine start when they are ready.
   An engine that changes to another flow first pauses, by default for an exponentially distributed time.
2. Share links: max-min fairly (`max_min_rates`), or by arbitration at ports with back-pressure (`shared_rates`).
3. Advance to the next event. Copies with no bytes left end (`_finish`): their engines and barriers become idle, and a
   barrier passes its turn to the next flow in order of issue that has copies left.

If waiting times are requested, each interval counts at the bottleneck link of each active flow, and at the link between
a flow and its engine or barrier while one of its copies is issued but not started.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.engines.kernels.links import Links
from fabricast.pcie.engines.kernels.max_min import Sharing, max_min_rates, new_sharing
from fabricast.pcie.engines.kernels.ports import Ports, shared_rates
from fabricast.pcie.models.kernels.bottlenecks import Waits, add_waits
from fabricast.runtime.compilation import allocation_free, njit

_DONE = 1e-12
#: Free occupancy up to which an engine starts no further copy.
_FREE = 1e-3


class Program(NamedTuple):
    """Engine, barriers, size in bytes and issue time in s of the copies of each flow."""

    engine: NDArray[np.int64]
    #: Up to two endpoints at which a flow waits for its turn, shape (flows, 2); -1 for none.
    barrier: NDArray[np.int64]
    size: NDArray[np.float64]
    earliest: NDArray[np.float64]
    repeats: int
    #: Share of its engine that each copy occupies.
    occupancy: NDArray[np.float64]
    random_turns: bool
    switch_share: float
    random_pauses: bool


class Explanation(NamedTuple):
    """Waiting times of flows at links, and the link at which each flow waits for its engine; empty to skip them."""

    waits: Waits
    queue: NDArray[np.int64]


class _State(NamedTuple):
    """State of a run: by flow, by endpoint, by link."""

    remaining: NDArray[np.float64]
    rate: NDArray[np.float64]
    starts_at: NDArray[np.float64]
    done: NDArray[np.int64]
    running: NDArray[np.bool_]
    end: NDArray[np.float64]
    #: Occupancy of each engine: it starts further copies below 1.
    engine_load: NDArray[np.float64]
    last_flow: NDArray[np.int64]
    barrier_busy: NDArray[np.bool_]
    barrier_next: NDArray[np.int64]
    #: Flows whose copies transfer bytes, in ascending order; only the first entries are valid.
    acting: NDArray[np.int64]
    random: NDArray[np.uint64]
    #: Flows of all engines, grouped by engine, and the first index of each engine.
    engine_flows: NDArray[np.int64]
    engine_begin: NDArray[np.int64]
    #: Flows with a started copy in ascending order, and an array with their number.
    started: NDArray[np.int64]
    started_count: NDArray[np.int64]


@allocation_free(inline="always")
def _uniform(random: NDArray[np.uint64]) -> float:
    """Return the next number of xorshift64*, above 0 and at most 1."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0) + 1e-17


@allocation_free(inline="always")
def _is_ready(flow: int, now: float, program: Program, state: _State) -> bool:
    """Return whether the next copy of a flow may start."""
    if state.running[flow] or state.done[flow] >= program.repeats or program.earliest[flow] > now:
        return False
    for barrier in program.barrier[flow]:
        if barrier >= 0 and (state.barrier_busy[barrier] or state.barrier_next[barrier] != flow):
            return False
    return True


@allocation_free(inline="always")
def _choose(engine: int, now: float, program: Program, state: _State) -> int:
    """Return the next flow of an engine, in cyclic or random order; -1 if none is ready."""
    ready, first, after = 0, -1, -1
    for index in range(state.engine_begin[engine], state.engine_begin[engine + 1]):
        flow = state.engine_flows[index]
        if _is_ready(flow, now, program, state):
            ready += 1
            first = flow if first < 0 else first
            after = flow if after < 0 and flow > state.last_flow[engine] else after
    chosen = after if after >= 0 else first
    if ready > 0 and program.random_turns:
        skip = min(int(_uniform(state.random) * ready), ready - 1)
        for index in range(state.engine_begin[engine], state.engine_begin[engine + 1]):
            flow = state.engine_flows[index]
            if _is_ready(flow, now, program, state):
                chosen = flow if skip == 0 else chosen
                skip -= 1
    return chosen


@allocation_free(inline="always")
def _start(flow: int, now: float, program: Program, state: _State, alone: NDArray[np.float64]) -> None:
    """Start the next copy of a flow, with a pause if its engine changes to another flow."""
    engine = program.engine[flow]
    pause = 0.0
    if engine >= 0:
        if program.switch_share > 0.0 and state.last_flow[engine] not in (-1, flow):
            pause = program.switch_share * program.size[flow] / alone[flow]
            if program.random_pauses:
                pause *= -np.log(_uniform(state.random))
        state.engine_load[engine] += program.occupancy[flow]
        state.last_flow[engine] = flow
    for barrier in program.barrier[flow]:
        if barrier >= 0:
            state.barrier_busy[barrier] = True
    state.running[flow] = True
    state.starts_at[flow] = now + pause
    state.remaining[flow] = program.size[flow]
    index = state.started_count[0]
    while index > 0 and state.started[index - 1] > flow:
        state.started[index] = state.started[index - 1]
        index -= 1
    state.started[index] = flow
    state.started_count[0] += 1


@allocation_free(inline="always")
def _finish(flow: int, now: float, program: Program, state: _State) -> None:
    """End a copy: release its engine and pass its barrier to the next flow."""
    state.running[flow] = False
    state.done[flow] += 1
    state.end[flow] = now
    if program.engine[flow] >= 0:
        state.engine_load[program.engine[flow]] -= program.occupancy[flow]
    flows = program.engine.size
    for barrier in program.barrier[flow]:
        if barrier >= 0:
            state.barrier_busy[barrier] = False
            for step in range(1, flows + 1):
                following = (flow + step) % flows
                is_waiting = program.barrier[following, 0] == barrier or program.barrier[following, 1] == barrier
                if is_waiting and state.done[following] < program.repeats:
                    state.barrier_next[barrier] = following
                    break


@allocation_free
def _add_waits(
    now: float,
    following: float,
    acting: int,
    program: Program,
    state: _State,
    sharing: Sharing,
    ports: Ports,
    explanation: Explanation,
) -> None:
    """Add an interval to the waiting time of each flow with an issued copy."""
    if ports.bytes_per_s > 0.0:
        add_waits(acting, following - now, ports.memory, explanation.waits)
    else:
        for flow in state.acting[:acting]:
            explanation.waits.limited_s[flow, sharing.bottleneck[flow]] += following - now
    for flow in range(program.engine.size):
        is_due = program.earliest[flow] <= now and state.done[flow] < program.repeats
        if is_due and (not state.running[flow] or state.starts_at[flow] > now):
            explanation.waits.limited_s[flow, explanation.queue[flow]] += following - now


@allocation_free
def _run(
    links: Links,
    program: Program,
    endpoints: int,
    alone: NDArray[np.float64],
    state: _State,
    sharing: Sharing,
    ports: Ports,
    explanation: Explanation,
) -> None:
    """Run all copies event by event."""
    flows = program.engine.size
    without_engine, last_issue = False, 0.0
    for flow in range(flows - 1, -1, -1):
        without_engine = without_engine or program.engine[flow] < 0
        last_issue = max(last_issue, program.earliest[flow])
        for barrier in program.barrier[flow]:
            if barrier >= 0:
                state.barrier_next[barrier] = flow
    now, left = 0.0, flows * program.repeats
    while left > 0:
        for engine in range(endpoints):
            while state.engine_load[engine] < 1.0 - _FREE:
                chosen = _choose(engine, now, program, state)
                if chosen < 0:
                    break
                _start(chosen, now, program, state, alone)
        if without_engine:
            for flow in range(flows):
                if program.engine[flow] < 0 and _is_ready(flow, now, program, state):
                    _start(flow, now, program, state, alone)
        following = np.inf
        if now < last_issue:
            for flow in range(flows):
                if program.earliest[flow] > now:
                    following = min(following, program.earliest[flow])
        acting = 0
        for flow in state.started[: state.started_count[0]]:
            if state.starts_at[flow] > now:
                following = min(following, state.starts_at[flow])
                continue
            state.acting[acting] = flow
            acting += 1
        if ports.bytes_per_s > 0.0:
            shared_rates(state.acting, acting, links, ports, explanation.queue.size > 0, state.rate)
        else:
            max_min_rates(links, sharing, state.acting, acting, state.rate)
        for flow in state.acting[:acting]:
            following = min(following, now + state.remaining[flow] / state.rate[flow])
        if explanation.queue.size > 0:
            _add_waits(now, following, acting, program, state, sharing, ports, explanation)
        for flow in state.acting[:acting]:
            state.remaining[flow] -= state.rate[flow] * (following - now)
            if state.remaining[flow] <= _DONE * program.size[flow] + state.rate[flow] * 1e-15 * following:
                _finish(flow, following, program, state)
                left -= 1
        kept = 0
        for flow in state.started[: state.started_count[0]]:
            if state.running[flow]:
                state.started[kept] = flow
                kept += 1
        state.started_count[0] = kept
        now = following


@njit
def run_program(
    links: Links,
    program: Program,
    endpoints: int,
    alone: NDArray[np.float64],
    seed: int,
    ports: Ports,
    explanation: Explanation,
) -> NDArray[np.float64]:
    """Return the completion time of each flow in s.

    Shapes: `alone` (flows,); result (flows,).
    """
    flows, without_engine = program.engine.size, np.sum(program.engine < 0)
    state = _State(
        np.zeros(flows),
        np.zeros(flows),
        np.zeros(flows),
        np.zeros(flows, np.int64),
        np.zeros(flows, np.bool_),
        np.zeros(flows),
        np.zeros(endpoints),
        np.full(endpoints, -1, np.int64),
        np.zeros(endpoints, np.bool_),
        np.full(endpoints, -1, np.int64),
        np.zeros(flows, np.int64),
        np.array([np.uint64(seed) * np.uint64(2654435769) + np.uint64(88172645463325252)], np.uint64),
        np.argsort(program.engine, kind="mergesort")[without_engine:],
        np.searchsorted(np.sort(program.engine)[without_engine:], np.arange(endpoints + 1)),
        np.zeros(flows, np.int64),
        np.zeros(1, np.int64),
    )
    sharing = new_sharing(links.capacity.size, flows)
    _run(links, program, endpoints, alone, state, sharing, ports, explanation)
    return state.end
