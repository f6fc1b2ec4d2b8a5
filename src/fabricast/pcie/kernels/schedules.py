"""Compiled kernels of the schedule search: millions of schedules from tables of distinct steps.

A step is a code: each source adds a digit, 0 when idle, else one more than the number of
the target it sends to. A schedule is a number `low + lows * high`: the permutations of the
first and of the last sources.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fabricast.pcie.kernels.bit_masks import bits, lowest, without_lowest
from fabricast.runtime.compilation import allocation_free, njit

__all__ = ["Sends", "asynchronous_times", "copy_rates", "copy_times", "smallest_images", "synchronised_times"]

#: Schedules that a thread runs side by side.
_ABREAST = 64
#: Kinds of phases; the next ones are the sends, source after source.
_END, _PAUSE = range(2)
#: What a source does and what waits are one number: the kind of its phase, and above it a bit for each waiting send.
_KIND_BITS = 16
_KIND_MASK = (1 << _KIND_BITS) - 1


class Sends(NamedTuple):
    """What sources go through: sends of kinds `first_kind[source]` on, one for each target, and pauses before them.

    A phase of kind k takes `amount[k]` seconds or bytes, is over when `limit[k]` is left, passes at `pace[k]` besides
    the rate of the source, and adds `part[k]` to the code of the active set. To begin the n-th of m waiting sends adds
    n times `weight[source, m]` to the number of a schedule.
    """

    first_kind: Any
    targets: Any
    amount: Any
    limit: Any
    pace: Any
    part: Any
    weight: Any
    latency_s: Any


class _Abreast(NamedTuple):
    """Schedules under way, by source and lane or by lane: `busy` counts sources, `ended` has bits of them.

    `step` is the time to the next event, and `runs` tells whether there is a schedule.
    """

    left: Any
    over: Any
    pace: Any
    held: Any
    now: Any
    code: Any
    number: Any
    busy: Any
    ended: Any
    step: Any
    runs: Any


class _Stack(NamedTuple):
    """Schedules that go on from where another one took the first of several sends; `told`: all whole numbers."""

    left: Any
    held: Any
    now: Any
    told: Any
    top: Any


@njit(cache=True, error_model="numpy", nogil=True)
def synchronised_times(first_high, last_high, low_codes, high_codes, step_s, elapsed_s):
    """Add the times of the steps of every schedule; fills the part of `elapsed_s` of these highs."""
    lows = low_codes.shape[0]
    steps = low_codes.shape[1]
    for high in range(first_high, last_high):
        base = high * lows
        for low in range(lows):
            total = 0.0
            for step in range(steps):
                total += step_s[low_codes[low, step] + high_codes[high, step]]
            elapsed_s[base + low] = total


@njit(cache=True, error_model="numpy", nogil=True)
def smallest_images(first_high, last_high, low_images, high_images, smallest, symmetry):
    """Fill in the smallest code that a symmetry gives each step of these highs, and which does."""
    symmetries, lows = low_images.shape
    for high in range(first_high, last_high):
        base = high * lows
        for low in range(lows):
            smallest[base + low] = low_images[0, low] + high_images[0, high]
            symmetry[base + low] = 0
        for g in range(1, symmetries):
            for low in range(lows):
                image = low_images[g, low] + high_images[g, high]
                is_smaller = image < smallest[base + low]
                smallest[base + low] = image if is_smaller else smallest[base + low]
                symmetry[base + low] = g if is_smaller else symmetry[base + low]


@njit(cache=True, error_model="numpy", nogil=True)
def copy_rates(smallest, symmetry, places, rates_bytes_per_s):
    """Give the active sets that were not evaluated the rates of their smallest image, source by source."""
    for code in range(smallest.size):
        image = smallest[code]
        if image != code:
            for s in range(rates_bytes_per_s.shape[1]):
                rates_bytes_per_s[code, s] = rates_bytes_per_s[image, places[symmetry[code], s]]


@allocation_free(inline="always")
def _hold(lane, source, kind, sends, state):
    """Note how a phase passes and when it is over: what differs between phases only."""
    if sends.latency_s > 0.0:
        state.pace[source, lane] = sends.pace[kind]
    if sends.limit.size > 1:
        state.over[source, lane] = sends.limit[kind]


@allocation_free(inline="always")
def _begin(lane, source, kind, waiting, sends, state):
    """Let a source of a lane begin a phase."""
    before = np.uint64(state.held[source, lane] & _KIND_MASK)
    state.code[lane] += sends.part[kind] - sends.part[before]
    state.left[source, lane] = sends.amount[kind]
    state.held[source, lane] = kind | (waiting << _KIND_BITS)
    _hold(lane, source, kind, sends, state)


@allocation_free(inline="always")
def _push(lane, source, kind, waiting, number, sends, state, stack):
    """Keep a lane as it is, but that a source begins another send."""
    top = np.uint64(stack.top[0])
    for s in range(sends.targets.size):
        stack.left[top, s] = state.left[s, lane]
        stack.held[top, s] = state.held[s, lane]
    before = np.uint64(state.held[source, lane] & _KIND_MASK)
    stack.left[top, source] = sends.amount[kind]
    stack.held[top, source] = kind | (waiting << _KIND_BITS)
    stack.now[top] = state.now[lane]
    stack.told[top, 0] = state.code[lane] + sends.part[kind] - sends.part[before]
    stack.told[top, 1] = number
    stack.told[top, 2] = state.busy[lane]
    stack.told[top, 3] = state.ended[lane]
    stack.top[0] += 1


@allocation_free(inline="always")
def _pop(lane, sends, state, stack):
    """Go on in a lane with what was kept last."""
    stack.top[0] -= 1
    top = np.uint64(stack.top[0])
    for s in range(sends.targets.size):
        state.left[s, lane] = stack.left[top, s]
        state.held[s, lane] = stack.held[top, s]
        _hold(lane, s, np.uint64(state.held[s, lane] & _KIND_MASK), sends, state)
    state.now[lane] = stack.now[top]
    state.code[lane] = stack.told[top, 0]
    state.number[lane] = stack.told[top, 1]
    state.busy[lane] = stack.told[top, 2]
    state.ended[lane] = stack.told[top, 3]


@allocation_free(inline="always")
def _go_on(lane, sends, state, stack):
    """Let the sources of a lane whose phase has ended begin the next one; keep what they might begin instead."""
    while state.ended[lane] != 0:
        s = np.uint64(lowest(state.ended[lane]))
        state.ended[lane] = without_lowest(state.ended[lane])
        waiting = state.held[s, lane] >> _KIND_BITS
        if waiting == 0:
            _begin(lane, s, _END, 0, sends, state)
            state.busy[lane] -= 1
        elif sends.latency_s > 0.0 and state.held[s, lane] & _KIND_MASK != _PAUSE:
            _begin(lane, s, _PAUSE, waiting, sends, state)
        else:
            number = state.number[lane]
            others = without_lowest(waiting)
            while others != 0:
                other = lowest(others)
                others = without_lowest(others)
                number += sends.weight[s, bits(waiting)]
                _push(lane, s, sends.first_kind[s] + other, waiting ^ (1 << other), number, sends, state, stack)
            _begin(lane, s, sends.first_kind[s] + lowest(waiting), without_lowest(waiting), sends, state)


@allocation_free(inline="always")
def _begin_schedules(lane, first_sends, weights, sends, state):
    """Begin in a lane all schedules that have the same first sends."""
    state.number[lane] = 0
    state.code[lane] = 0
    state.ended[lane] = 0
    state.busy[lane] = sends.targets.size
    # The first pauses end together.
    state.now[lane] = sends.latency_s
    for s in range(sends.targets.size):
        choice = first_sends // weights[s] % (sends.targets[s] + 1) - 1
        state.number[lane] += choice * sends.weight[s, sends.targets[s]]
        state.held[s, lane] = _END
        waiting = ((1 << sends.targets[s]) - 1) ^ (1 << choice)
        _begin(lane, s, sends.first_kind[s] + choice, waiting, sends, state)


@allocation_free(inline="always")
def _next_event(rate, rates_bytes_per_s, state):
    """Advance all lanes to when the next of their phases ends, and note which do."""
    sources, lanes = rate.shape
    left, over, pace, now, code, ended = state.left, state.over, state.pace, state.now, state.code, state.ended
    step = state.step
    for lane in range(lanes):
        active = np.uint64(code[lane])
        for s in range(sources):
            rate[s, lane] = rates_bytes_per_s[active, s]
    for lane in range(lanes):
        step[lane] = np.inf
        ended[lane] = 0
    for s in range(sources):
        for lane in range(lanes):
            time = left[s, lane] / (rate[s, lane] + pace[s, lane])
            step[lane] = time if time < step[lane] else step[lane]
    for s in range(sources):
        for lane in range(lanes):
            rest = left[s, lane] - (rate[s, lane] + pace[s, lane]) * step[lane]
            left[s, lane] = rest
            ended[lane] |= (1 << s) if rest <= over[s, lane] else 0
    for lane in range(lanes):
        now[lane] += step[lane]


@allocation_free()
def _run_abreast(
    position, last, first_sends, weights, sends, rates_bytes_per_s, state, stack, most_pushes, rate, elapsed_s
):
    """Run until no lane has a schedule: each goes on with what was kept last, else with other first sends.

    Returns where to go on with first sends once the stack has more room, -1 when all is done.
    """
    running = True
    while running:
        if stack.top[0] + most_pushes > stack.now.size:
            return position
        running = False
        for lane in range(state.now.size):
            if state.runs[lane]:
                # What is left may never end: literal readings can starve a communication for ever.
                state.runs[lane] = state.step[lane] < np.inf
                _go_on(lane, sends, state, stack)
                if state.busy[lane] == 0:
                    elapsed_s[state.number[lane]] = state.now[lane]
                    state.runs[lane] = False
            if not state.runs[lane]:
                if stack.top[0] > 0:
                    _pop(lane, sends, state, stack)
                    _go_on(lane, sends, state, stack)
                    state.runs[lane] = True
                elif position < last:
                    _begin_schedules(lane, first_sends[position], weights, sends, state)
                    position += 1
                    state.runs[lane] = True
            running = running or state.runs[lane]
        _next_event(rate, rates_bytes_per_s, state)
    return -1


@njit(cache=True, error_model="numpy", nogil=True)
def _stack_of(room, sources, top):
    """Return a stack with room for so many schedules."""
    return _Stack(
        np.empty((room, sources)), np.empty((room, sources), dtype=np.int64), np.empty(room),
        np.empty((room, 4), dtype=np.int64), top,
    )  # fmt: skip


@njit(cache=True, error_model="numpy", nogil=True)
def asynchronous_times(first, last, first_sends, weights, sends, rates_bytes_per_s, elapsed_s):
    """Run all schedules with some first sends in which a source starts its next send when its previous one ends.

    `rates_bytes_per_s[code, source]` are the rates of an active set. Where a source may go on with one of several
    sends, what went before is run once for all of them. Schedules advance side by side, an event of each at a time, as
    the processor computes many at once. Those of which a send never ends are left out.
    """
    sources = sends.targets.size
    shape = (sources, _ABREAST)
    # Lanes without a schedule have nothing that ends.
    state = _Abreast(
        np.full(shape, np.inf), np.full(shape, sends.limit[0]), np.zeros(shape), np.zeros(shape, dtype=np.int64),
        np.zeros(_ABREAST), np.zeros(_ABREAST, dtype=np.int64), np.zeros(_ABREAST, dtype=np.int64),
        np.zeros(_ABREAST, dtype=np.int64), np.zeros(_ABREAST, dtype=np.int64), np.empty(_ABREAST),
        np.zeros(_ABREAST, dtype=np.bool_),
    )  # fmt: skip
    # A lane keeps so much from its first sends to its last, and goes on twice in a round: as it is, and with another.
    deepest = 0
    for s in range(sources):
        deepest += (sends.targets[s] - 1) * (sends.targets[s] - 2) // 2
    most_pushes = 2 * _ABREAST * deepest
    stack = _stack_of(most_pushes + 1, sources, np.zeros(1, dtype=np.int64))
    rate = np.empty(shape)
    position = first
    while position >= 0:
        position = _run_abreast(
            position, last, first_sends, weights, sends, rates_bytes_per_s, state, stack, most_pushes, rate, elapsed_s
        )
        if position >= 0:
            larger = _stack_of(2 * stack.now.size, sources, stack.top)
            larger.left[: stack.now.size] = stack.left
            larger.held[: stack.now.size] = stack.held
            larger.now[: stack.now.size] = stack.now
            larger.told[: stack.now.size] = stack.told
            stack = larger


@njit(cache=True, error_model="numpy", nogil=True)
def copy_times(first_high, last_high, low_sends, high_sends, smallest, symmetry, low_images, high_images, elapsed_s):
    """Give each schedule of these highs whose first sends were not run the time of its image whose first sends were."""
    lows = low_sends.size
    for high in range(first_high, last_high):
        base = high * lows
        for low in range(lows):
            sends = low_sends[low] + high_sends[high]
            if smallest[sends] != sends:
                g = symmetry[sends]
                elapsed_s[base + low] = elapsed_s[low_images[g, low] + high_images[g, high]]
