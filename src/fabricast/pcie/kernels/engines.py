"""Copies under a program: one engine an endpoint, barriers in order of issue, links that share evenly both ways.

Events are starts and ends of copies. Between them every active copy has the rate that max-min sharing gives it, where a
link carries less in one direction the more it carries in the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.runtime.compilation import allocation_free, njit

__all__ = ["Links", "Program", "run_program"]

#: Rounds of sharing in which both directions of links settle.
_SETTLE = 5
_DONE = 1e-12


class Links(NamedTuple):
    """Routes of flows and what their links carry."""

    offset: NDArray[np.int64]
    link: NDArray[np.int64]
    opposite: NDArray[np.int64]
    capacity: NDArray[np.float64]
    #: Links of which each must be in use for a link to limit anything, a row a link; -1 for none.
    needs: NDArray[np.int64]
    duplex_cost: float


class Program(NamedTuple):
    """Who executes each flow, which copies wait for each other, and in which order engines turn."""

    engine: NDArray[np.int64]
    barrier: NDArray[np.int64]
    size: NDArray[np.float64]
    earliest: NDArray[np.float64]
    repeats: int
    random_turns: bool
    switch_share: float


class _State(NamedTuple):
    """What changes from event to event: by flow, by endpoint, by link."""

    remaining: NDArray[np.float64]
    rate: NDArray[np.float64]
    starts_at: NDArray[np.float64]
    done: NDArray[np.int64]
    running: NDArray[np.bool_]
    end: NDArray[np.float64]
    engine_busy: NDArray[np.bool_]
    last_flow: NDArray[np.int64]
    barrier_busy: NDArray[np.bool_]
    barrier_next: NDArray[np.int64]
    load: NDArray[np.float64]
    spare: NDArray[np.float64]
    users: NDArray[np.int64]
    frozen: NDArray[np.bool_]
    #: Active flows and links in use, in order; only the first places count.
    acting: NDArray[np.int64]
    used: NDArray[np.int64]
    random: NDArray[np.uint64]


@njit(cache=True, error_model="numpy")
def _uniform(random: NDArray[np.uint64]) -> float:
    """Next number of xorshift64*, above 0 and up to 1."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0) + 1e-17


@allocation_free()
def _use(links: Links, state: _State, active: NDArray[np.bool_]) -> tuple[int, int]:
    """List the active flows, count the users of their links, and list these; return how many there are of each."""
    acting = 0
    for flow in range(active.size):
        if active[flow]:
            state.acting[acting] = flow
            acting += 1
            for place in range(links.offset[flow], links.offset[flow + 1]):
                state.users[links.link[place]] += 1
    used = 0
    for number in range(links.capacity.size):
        if state.users[number] > 0:
            state.used[used] = number
            used += 1
    return acting, used


@allocation_free()
def _share(links: Links, state: _State, active: NDArray[np.bool_]) -> None:
    """Give every active flow its max-min rate; each round lessens a direction by the traffic of the other."""
    # Weighted so, equal traffic both ways settles in one round, however much the directions cost each other.
    weight = 1.0 / (1.0 + links.duplex_cost)
    state.load[:] = 0.0
    for _ in range(_SETTLE):
        # All users of the links are gone when their flows have rates: each round counts them again.
        acting, used = _use(links, state, active)
        for number in state.used[:used]:
            state.spare[number] = links.capacity[number] - links.duplex_cost * state.load[links.opposite[number]]
            for needed in links.needs[number]:
                if needed >= 0 and state.users[needed] == 0:
                    state.spare[number] = np.inf
        for place in range(acting):
            state.frozen[state.acting[place]] = False
        left = acting
        while left > 0:
            least, tightest = np.inf, -1
            for number in state.used[:used]:
                if state.users[number] > 0 and state.spare[number] / state.users[number] < least:
                    least, tightest = state.spare[number] / state.users[number], number
            for flow in state.acting[:acting]:
                if state.frozen[flow]:
                    continue
                crosses = False
                for place in range(links.offset[flow], links.offset[flow + 1]):
                    crosses = crosses or links.link[place] == tightest
                if crosses:
                    state.frozen[flow] = True
                    state.rate[flow] = least
                    left -= 1
                    for place in range(links.offset[flow], links.offset[flow + 1]):
                        state.spare[links.link[place]] -= least
                        state.users[links.link[place]] -= 1
        for number in state.used[:used]:
            state.load[number] *= 1.0 - weight
        for flow in state.acting[:acting]:
            for place in range(links.offset[flow], links.offset[flow + 1]):
                state.load[links.link[place]] += weight * state.rate[flow]


@allocation_free()
def _is_ready(flow: int, now: float, program: Program, state: _State) -> bool:
    """Whether the next copy of a flow may start: it is issued, its barrier is free, and it is its turn there."""
    if state.running[flow] or state.done[flow] >= program.repeats or program.earliest[flow] > now:
        return False
    barrier = program.barrier[flow]
    return barrier < 0 or (not state.barrier_busy[barrier] and state.barrier_next[barrier] == flow)


@allocation_free()
def _choose(engine: int, now: float, program: Program, state: _State) -> int:
    """Return the flow that an engine executes next: the first ready one after the last, or any; -1 for none."""
    flows = program.engine.size
    ready = 0
    for flow in range(flows):
        if program.engine[flow] == engine and _is_ready(flow, now, program, state):
            ready += 1
    if ready == 0:
        return -1
    if program.random_turns:
        skip = min(int(_uniform(state.random) * ready), ready - 1)
        for flow in range(flows):
            if program.engine[flow] == engine and _is_ready(flow, now, program, state):
                if skip == 0:
                    return flow
                skip -= 1
    for step in range(1, flows + 1):
        flow = (state.last_flow[engine] + step) % flows
        if program.engine[flow] == engine and _is_ready(flow, now, program, state):
            return flow
    return -1


@allocation_free()
def _start(flow: int, now: float, program: Program, state: _State, alone: NDArray[np.float64]) -> None:
    """Start the next copy of a flow, after the pause of an engine that changes its stream."""
    engine, barrier = program.engine[flow], program.barrier[flow]
    pause = 0.0
    if engine >= 0:
        if program.switch_share > 0.0 and state.last_flow[engine] not in (-1, flow):
            pause = -np.log(_uniform(state.random)) * program.switch_share * program.size[flow] / alone[flow]
        state.engine_busy[engine] = True
        state.last_flow[engine] = flow
    if barrier >= 0:
        state.barrier_busy[barrier] = True
    state.running[flow] = True
    state.starts_at[flow] = now + pause
    state.remaining[flow] = program.size[flow]


@allocation_free()
def _finish(flow: int, now: float, program: Program, state: _State) -> None:
    """End a copy: its engine and its barrier are free, and the next copy in order of issue has its turn."""
    state.running[flow] = False
    state.done[flow] += 1
    state.end[flow] = now
    if program.engine[flow] >= 0:
        state.engine_busy[program.engine[flow]] = False
    barrier = program.barrier[flow]
    if barrier >= 0:
        state.barrier_busy[barrier] = False
        flows = program.barrier.size
        for step in range(1, flows + 1):
            following = (flow + step) % flows
            if program.barrier[following] == barrier and state.done[following] < program.repeats:
                state.barrier_next[barrier] = following
                break


@njit(cache=True, error_model="numpy")
def run_program(
    links: Links, program: Program, endpoints: int, alone: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Return when the last copy of each flow ends, in s.

    Parameters
    ----------
    links : Links
        Routes and capacities in bytes/s.
    program : Program
        Who executes what in which order, and from when in s; engine and barrier are endpoint numbers, -1 for none.
    endpoints : int
        Number of endpoints.
    alone : ndarray of float64, shape (flows,)
        Rate of each flow alone in bytes/s; pauses are counted in copies alone.
    seed : int
        Of random turns and pauses.

    Returns
    -------
    ndarray of float64, shape (flows,)
        Ends.
    """
    flows = program.engine.size
    state = _State(
        np.zeros(flows), np.zeros(flows), np.zeros(flows), np.zeros(flows, np.int64), np.zeros(flows, np.bool_),
        np.zeros(flows), np.zeros(endpoints, np.bool_), np.full(endpoints, -1, np.int64),
        np.zeros(endpoints, np.bool_), np.full(endpoints, -1, np.int64), np.zeros(links.capacity.size),
        np.zeros(links.capacity.size), np.zeros(links.capacity.size, np.int64), np.zeros(flows, np.bool_),
        np.zeros(flows, np.int64), np.zeros(links.capacity.size, np.int64),
        np.array([np.uint64(seed) * np.uint64(2654435769) + np.uint64(88172645463325252)], np.uint64),
    )  # fmt: skip
    for flow in range(flows - 1, -1, -1):
        if program.barrier[flow] >= 0:
            state.barrier_next[program.barrier[flow]] = flow
    active = np.zeros(flows, np.bool_)
    now, left = 0.0, flows * program.repeats
    while left > 0:
        for engine in range(endpoints):
            if not state.engine_busy[engine]:
                chosen = _choose(engine, now, program, state)
                if chosen >= 0:
                    _start(chosen, now, program, state, alone)
        for flow in range(flows):
            if program.engine[flow] < 0 and _is_ready(flow, now, program, state):
                _start(flow, now, program, state, alone)
        following = np.inf
        for flow in range(flows):
            active[flow] = state.running[flow] and state.starts_at[flow] <= now
            if state.running[flow] and state.starts_at[flow] > now:
                following = min(following, state.starts_at[flow])
            if program.earliest[flow] > now:
                following = min(following, program.earliest[flow])
        _share(links, state, active)
        for flow in range(flows):
            if active[flow]:
                following = min(following, now + state.remaining[flow] / state.rate[flow])
        for flow in range(flows):
            if active[flow]:
                state.remaining[flow] -= state.rate[flow] * (following - now)
                if state.remaining[flow] <= _DONE * program.size[flow] + state.rate[flow] * 1e-15 * following:
                    _finish(flow, following, program, state)
                    left -= 1
        now = following
    return state.end
