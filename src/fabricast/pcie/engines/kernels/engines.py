"""Event loop of the engine model: copies with engines, barriers and max-min fair rates.

A flow repeats copies of one size, one after another. Events are issue times, ends of pauses, and ends of copies; rates
are constant between events. `_run` repeats these steps until all copies have ended:

1. Start copies. Each idle engine starts at most one ready copy (`_choose`): the next flow in cyclic order after the
   last one it executed, or a random one. A copy is ready if it is issued, the previous copy of its flow has ended, and
   its barrier is idle and grants its flow the next turn. Flows without an engine start when they are ready. An engine
   that changes to another flow first pauses for an exponentially distributed time.
2. Share links (`_share`) by progressive filling: the link that offers the least equal share to its flows without a rate
   is the bottleneck; these flows get this share as their rate and reduce the capacity of their other links. This
   repeats until all active flows have a rate.
3. Account for bidirectional traffic. The capacity of a link is C - d * L, where L is the load of the reverse direction
   and d the cost `duplex_cost`. Filling is repeated `_SETTLE` times with a damped load: the new load has the weight
   1 / (1 + d), for which equal traffic in both directions converges after one round.
4. Advance to the next event. Copies with no bytes left end (`_finish`): their engines and barriers become idle, and a
   barrier passes its turn to the next flow in order of issue that has copies left.

If waiting times are requested, each interval counts at the bottleneck link of each active flow, and at the link between
a flow and its engine or barrier while one of its copies is issued but not started.

A shared limit with `needs` applies only while all links named there have active flows. The cost of an event is
proportional to the number of bottlenecks times the number of active flows and links.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.runtime.compilation import allocation_free, njit

__all__ = ["Links", "Program", "Waits", "run_program"]

#: Rounds of progressive filling for loads of both directions, if `duplex_cost` is positive.
_SETTLE = 5
_DONE = 1e-12


class Links(NamedTuple):
    """Routes of flows, and links with their capacities in bytes/s."""

    offset: NDArray[np.int64]
    link: NDArray[np.int64]
    opposite: NDArray[np.int64]
    capacity: NDArray[np.float64]
    #: One row per link: links that must all be in use for this link to be a limit; -1 for none.
    needs: NDArray[np.int64]
    #: Bit set of the links of each flow, in words of 64 bits.
    crosses: NDArray[np.uint64]
    duplex_cost: float


class Program(NamedTuple):
    """Engine, barrier, size in bytes and issue time in s of the copies of each flow."""

    engine: NDArray[np.int64]
    barrier: NDArray[np.int64]
    size: NDArray[np.float64]
    earliest: NDArray[np.float64]
    repeats: int
    random_turns: bool
    switch_share: float


class Waits(NamedTuple):
    """Waiting time of each flow (row) at each link (column) in s, and the link at which a flow waits for its engine."""

    waited_s: NDArray[np.float64]
    queue: NDArray[np.int64]


class _State(NamedTuple):
    """State of a run: by flow, by endpoint, by link."""

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
    #: Equal share that each link offers to its flows without a rate.
    offer: NDArray[np.float64]
    #: Number of active flows on each link, and number of those without a rate.
    sharers: NDArray[np.int64]
    users: NDArray[np.int64]
    frozen: NDArray[np.bool_]
    #: Active flows and used links, in ascending order; only the first entries are valid.
    acting: NDArray[np.int64]
    used: NDArray[np.int64]
    random: NDArray[np.uint64]
    #: Flows of all engines, grouped by engine, and the first index of each engine.
    engine_flows: NDArray[np.int64]
    engine_begin: NDArray[np.int64]
    #: Flows with a started copy in ascending order, and an array with their number.
    started: NDArray[np.int64]
    started_count: NDArray[np.int64]
    #: Link that determines the rate of each active flow.
    bottleneck: NDArray[np.int64]


@allocation_free(inline="always")
def _uniform(random: NDArray[np.uint64]) -> float:
    """Return the next number of xorshift64*, above 0 and at most 1."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0) + 1e-17


@allocation_free
def _use(links: Links, state: _State, acting: int) -> int:
    """Count the active flows on each link, list the used links, and return their number."""
    state.sharers[:] = 0
    for active in range(acting):
        flow = np.uint32(state.acting[active])
        for hop in range(links.offset[flow], links.offset[flow + 1]):
            state.sharers[np.uint32(links.link[hop])] += 1
    used = 0
    for number in range(links.capacity.size):
        if state.sharers[number] > 0:
            state.used[used] = number
            used += 1
    return used


@allocation_free(inline="always")
def _offer_all(links: Links, state: _State, used: int) -> None:
    """Compute the equal share of each used link, reduced by reverse traffic."""
    for index in range(used):
        number = np.uint32(state.used[index])
        state.users[number] = state.sharers[number]
        spare = links.capacity[number] - links.duplex_cost * state.load[np.uint32(links.opposite[number])]
        for needed in links.needs[number]:
            if needed >= 0 and state.sharers[needed] == 0:
                spare = np.inf
        state.spare[number] = spare
        state.offer[number] = spare / state.users[number]


@allocation_free(inline="always")
def _freeze(flow: np.uint32, rate: float, links: Links, state: _State) -> None:
    """Fix the rate of a flow and subtract it from its links."""
    state.frozen[flow] = True
    state.rate[flow] = rate
    for hop in range(links.offset[flow], links.offset[flow + 1]):
        number = np.uint32(links.link[hop])
        state.spare[number] -= rate
        state.users[number] -= 1
        state.offer[number] = state.spare[number] / state.users[number] if state.users[number] > 0 else np.inf


@allocation_free
def _share(links: Links, state: _State, acting: int) -> None:
    """Compute max-min fair rates of all active flows with bidirectional links."""
    # With this weight, equal traffic in both directions converges in one round for any cost.
    weight = 1.0 / (1.0 + links.duplex_cost)
    state.load[:] = 0.0
    used = _use(links, state, acting)
    for _ in range(_SETTLE if links.duplex_cost > 0.0 else 1):
        _offer_all(links, state, used)
        for active in range(acting):
            state.frozen[np.uint32(state.acting[active])] = False
        left = acting
        while left > 0:
            least, tightest = np.inf, np.uint64(0)
            for place in range(used):
                number = np.uint32(state.used[place])
                if state.offer[number] < least:
                    least, tightest = state.offer[number], np.uint64(number)
            word, bit = tightest >> np.uint64(6), tightest & np.uint64(63)
            for active in range(acting):
                flow = np.uint32(state.acting[active])
                if not state.frozen[flow] and (links.crosses[flow, word] >> bit) & np.uint64(1) != 0:
                    _freeze(flow, least, links, state)
                    state.bottleneck[flow] = np.int64(tightest)
                    left -= 1
        for place in range(used):
            state.load[np.uint32(state.used[place])] *= 1.0 - weight
        for active in range(acting):
            flow = np.uint32(state.acting[active])
            for place in range(links.offset[flow], links.offset[flow + 1]):
                state.load[np.uint32(links.link[place])] += weight * state.rate[flow]


@allocation_free(inline="always")
def _is_ready(flow: int, now: float, program: Program, state: _State) -> bool:
    """Return whether the next copy of a flow may start."""
    if state.running[flow] or state.done[flow] >= program.repeats or program.earliest[flow] > now:
        return False
    barrier = program.barrier[flow]
    return barrier < 0 or (not state.barrier_busy[barrier] and state.barrier_next[barrier] == flow)


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


@allocation_free
def _add_waits(now: float, following: float, acting: int, program: Program, state: _State, waits: Waits) -> None:
    """Add an interval to the waiting time of each flow with an issued copy."""
    for flow in state.acting[:acting]:
        waits.waited_s[flow, state.bottleneck[flow]] += following - now
    for flow in range(program.engine.size):
        is_due = program.earliest[flow] <= now and state.done[flow] < program.repeats
        if is_due and (not state.running[flow] or state.starts_at[flow] > now):
            waits.waited_s[flow, waits.queue[flow]] += following - now


@allocation_free
def _run(
    links: Links, program: Program, endpoints: int, alone: NDArray[np.float64], state: _State, waits: Waits
) -> None:
    """Run all copies event by event."""
    flows = program.engine.size
    without_engine, last_issue = False, 0.0
    for flow in range(flows - 1, -1, -1):
        without_engine = without_engine or program.engine[flow] < 0
        last_issue = max(last_issue, program.earliest[flow])
        if program.barrier[flow] >= 0:
            state.barrier_next[program.barrier[flow]] = flow
    now, left = 0.0, flows * program.repeats
    while left > 0:
        for engine in range(endpoints):
            if not state.engine_busy[engine]:
                chosen = _choose(engine, now, program, state)
                if chosen >= 0:
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
        _share(links, state, acting)
        for flow in state.acting[:acting]:
            following = min(following, now + state.remaining[flow] / state.rate[flow])
        if waits.queue.size > 0:
            _add_waits(now, following, acting, program, state, waits)
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
    links: Links, program: Program, endpoints: int, alone: NDArray[np.float64], seed: int, waits: Waits
) -> NDArray[np.float64]:
    """Return the completion time of each flow in s.

    Parameters
    ----------
    links : Links
        Routes and capacities in bytes/s.
    program : Program
        Engines, barriers and order. Engines and barriers are endpoint numbers, or -1 for none.
    endpoints : int
        Number of endpoints.
    alone : ndarray of float64, shape (flows,)
        Rate of an isolated copy of each flow in bytes/s. Pauses are relative to the time of an isolated copy.
    seed : int
        Seed of random order and pauses.
    waits : Waits
        Waiting times, to which those of this run are added; empty arrays to skip them.

    Returns
    -------
    ndarray of float64, shape (flows,)
        Time at which the last copy of each flow ends.
    """
    flows, without_engine = program.engine.size, np.sum(program.engine < 0)
    state = _State(
        np.zeros(flows), np.zeros(flows), np.zeros(flows), np.zeros(flows, np.int64), np.zeros(flows, np.bool_),
        np.zeros(flows), np.zeros(endpoints, np.bool_), np.full(endpoints, -1, np.int64),
        np.zeros(endpoints, np.bool_), np.full(endpoints, -1, np.int64), np.zeros(links.capacity.size),
        np.zeros(links.capacity.size), np.zeros(links.capacity.size), np.zeros(links.capacity.size, np.int64),
        np.zeros(links.capacity.size, np.int64), np.zeros(flows, np.bool_),
        np.zeros(flows, np.int64), np.zeros(links.capacity.size, np.int64),
        np.array([np.uint64(seed) * np.uint64(2654435769) + np.uint64(88172645463325252)], np.uint64),
        np.argsort(program.engine, kind="mergesort")[without_engine:],
        np.searchsorted(np.sort(program.engine)[without_engine:], np.arange(endpoints + 1)),
        np.zeros(flows, np.int64), np.zeros(1, np.int64), np.zeros(flows, np.int64),
    )  # fmt: skip
    _run(links, program, endpoints, alone, state, waits)
    return state.end
