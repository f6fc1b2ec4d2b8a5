"""Compiled kernels of the schedule search: millions of schedules from tables of distinct steps.

A step is a code: each source adds a digit, 0 when idle, else one more than the number of
the target it sends to. A schedule is a number `low + lows * high`: the permutations of the
first and of the last sources.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fabricast.pcie.schedules.kernels.bit_masks import bits, lowest, without_lowest
from fabricast.runtime.compilation import njit

__all__ = [
    "NO_SEND",
    "Rates",
    "Sends",
    "asynchronous_times",
    "copy_rates",
    "copy_times",
    "smallest_images",
    "synchronised_times",
]

#: Schedules that a thread runs side by side.
_ABREAST = 64
#: Of what a phase has to go, what is left when it counts as over.
_SAME = 1e-9
#: Sends are numbers from 0 on, and the bits of sets; this one stands for none.
NO_SEND = 62
#: A source holds what it adds to the code of the active set, and above it what its next send will, if only one waits.
_NEXT = 32
_NOW_MASK = (1 << _NEXT) - 1


class Sends(NamedTuple):
    """What sources go through: the sends of the bits in `own[source]`, and a pause of `latency_s` before each.

    A send k takes `amount_bytes[k]` and adds `part[k]` to the code of the active set. To begin the n-th of m waiting
    sends adds n times `weight[source, m]` to the number of a schedule. Sends are alike if all have one size and none
    waits for a pause.
    """

    own: Any
    amount_bytes: Any
    part: Any
    weight: Any
    latency_s: Any
    alike: Any


class Rates(NamedTuple):
    """Rates of active sets, of few values: the numbers of those in `bytes_per_s`, in words of `width` bits a source.

    The numbers of the sources of the active set with code c are in `words[c]`, the lowest bits those of the first.
    """

    words: Any
    width: Any
    bytes_per_s: Any


class _Abreast(NamedTuple):
    """Schedules under way, by source and lane or by lane: `waiting` has bits of sends, `asks` of sources.

    Those sources ask that may go on with one of several sends. Of a phase `left` is to go, in bytes or, while `pace` is
    1, in seconds, and it is over when `over` is left; `next_bytes` has the send that follows, if one alone is left.
    `busy` is 0 where all has ended, `step` is the time to the next event, `goes_on` tells where no source asks, and
    `runs` whether there is a schedule.
    """

    rate: Any
    left: Any
    over: Any
    pace: Any
    held: Any
    next_bytes: Any
    now: Any
    code: Any
    number: Any
    waiting: Any
    asks: Any
    busy: Any
    step: Any
    goes_on: Any
    runs: Any


class _Stack(NamedTuple):
    """Schedules that go on from where another one took the first of several sends; `told`: all whole numbers."""

    left: Any
    held: Any
    over: Any
    pace: Any
    next_bytes: Any
    now: Any
    told: Any
    top: Any


@njit
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


@njit
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


@njit
def copy_rates(smallest, symmetry, places, numbers):
    """Give the active sets that were not evaluated the rates of their smallest image, source by source."""
    for code in range(smallest.size):
        image = smallest[code]
        if image != code:
            for s in range(places.shape[1]):
                numbers[code, s] = numbers[image, places[symmetry[code], s]]


@njit(inline="always")
def _begin(lane, source, send, others, sends, state):
    """Let a source of a lane begin a send, which is a bit, while others wait."""
    kind = np.uint64(lowest(send))
    several = without_lowest(others)
    following = np.uint64(lowest(others | (1 << NO_SEND)) if several == 0 else NO_SEND)
    state.code[lane] += sends.part[kind]
    state.left[source, lane] = sends.amount_bytes[kind]
    state.held[source, lane] = sends.part[kind] | (sends.part[following] << _NEXT)
    state.waiting[lane] &= ~sends.own[source]
    state.waiting[lane] |= others if several != 0 else 0
    if not sends.alike:
        state.over[source, lane] = _SAME * sends.amount_bytes[kind]
        state.next_bytes[source, lane] = sends.amount_bytes[following]


@njit(inline="always")
def _push(lane, asks, sends, state, stack):
    """Keep a lane as it is."""
    top = np.uint64(stack.top[0])
    stack.top[0] += 1
    stack.now[top] = state.now[lane]
    stack.told[top, 0] = state.code[lane]
    stack.told[top, 1] = state.number[lane]
    stack.told[top, 2] = state.waiting[lane]
    stack.told[top, 3] = asks
    for s in range(sends.own.size):
        stack.left[top, s] = state.left[s, lane]
        stack.held[top, s] = state.held[s, lane]
    if not sends.alike:
        for s in range(sends.own.size):
            stack.over[top, s] = state.over[s, lane]
            stack.pace[top, s] = state.pace[s, lane]
            stack.next_bytes[top, s] = state.next_bytes[s, lane]


@njit(inline="always")
def _pop(lane, sends, state, stack):
    """Go on in a lane with what was kept last."""
    stack.top[0] -= 1
    top = np.uint64(stack.top[0])
    state.now[lane] = stack.now[top]
    state.code[lane] = stack.told[top, 0]
    state.number[lane] = stack.told[top, 1]
    state.waiting[lane] = stack.told[top, 2]
    state.asks[lane] = stack.told[top, 3]
    for s in range(sends.own.size):
        state.left[s, lane] = stack.left[top, s]
        state.held[s, lane] = stack.held[top, s]
    if not sends.alike:
        for s in range(sends.own.size):
            state.over[s, lane] = stack.over[top, s]
            state.pace[s, lane] = stack.pace[top, s]
            state.next_bytes[s, lane] = stack.next_bytes[top, s]


@njit(inline="always")
def _choose(lane, sends, state, stack):
    """Let the sources of a lane that ask go on with the first of their sends; keep what they might begin instead."""
    asks = state.asks[lane]
    while asks != 0:
        s = np.uint64(lowest(asks))
        asks = without_lowest(asks)
        choices = state.waiting[lane] & sends.own[s]
        code, number = state.code[lane], state.number[lane]
        others = without_lowest(choices)
        while others != 0:
            other = others & -others
            others ^= other
            state.code[lane] = code
            state.number[lane] += sends.weight[s, bits(choices)]
            _begin(lane, s, other, choices ^ other, sends, state)
            _push(lane, asks, sends, state, stack)
        state.code[lane] = code
        state.number[lane] = number
        _begin(lane, s, choices & -choices, without_lowest(choices), sends, state)


@njit(inline="always")
def _begin_schedules(lane, first_sends, sends, state):
    """Begin in a lane all schedules that have the same first sends."""
    state.number[lane] = 0
    state.code[lane] = 0
    # The first pauses end together.
    state.now[lane] = sends.latency_s
    for s in range(sends.own.size):
        own = sends.own[s]
        ways = bits(own) + 1
        choice = first_sends % ways - 1
        first_sends //= ways
        state.number[lane] += choice * sends.weight[s, ways - 1]
        send = (own & -own) << choice
        _begin(lane, s, send, own ^ send, sends, state)
        state.pace[s, lane] = 0.0


@njit(inline="always")
def _look_up(width, rates, state):
    """Fill in the rates of the active set of each lane; with a known width, the inner loop is written out."""
    for lane in range(state.code.size):
        for w in range(rates.words.shape[1]):
            word = rates.words[np.uint64(state.code[lane]), w]
            for s in range(64 // width):
                state.rate[w * (64 // width) + s, lane] = rates.bytes_per_s[word & np.uint64((1 << width) - 1)]
                word >>= np.uint64(width)


@njit(inline="always")
def _next_event(sends, rates, state):
    """Advance all lanes to when the next of their phases ends."""
    sources, lanes = state.left.shape
    rate, left, pace, step = state.rate, state.left, state.pace, state.step
    if rates.width == 8:
        _look_up(8, rates, state)
    elif rates.width == 16:
        _look_up(16, rates, state)
    else:
        _look_up(32, rates, state)
    for lane in range(lanes):
        step[lane] = np.inf
    for s in range(sources):
        for lane in range(lanes):
            time = left[s, lane] / (rate[s, lane] + pace[s, lane])
            step[lane] = time if time < step[lane] else step[lane]
    for lane in range(lanes):
        state.now[lane] += step[lane]
        state.asks[lane] = 0
        state.busy[lane] = state.waiting[lane]
    for s in range(sources):
        if sends.alike:
            _pass_alike(s, sends, state)
        else:
            _pass(s, sends, state)
    for lane in range(lanes):
        state.goes_on[lane] = (state.busy[lane] != 0) & (state.asks[lane] == 0) & (step[lane] < np.inf)


@njit(inline="always")
def _pass_alike(s, sends, state):
    """Let a source of all lanes go on for the time of the step, where all sends take as much and none pauses."""
    rate, left, held, step = state.rate, state.left, state.held, state.step
    code, waiting, asks, busy = state.code, state.waiting, state.asks, state.busy
    own, ask_bit, amount, limit = sends.own[s], 1 << s, sends.amount_bytes[0], _SAME * sends.amount_bytes[0]
    for lane in range(step.size):
        rest = left[s, lane] - rate[s, lane] * step[lane]
        ended = rest <= limit
        holds = held[s, lane]
        following = holds >> _NEXT
        ask = ask_bit if waiting[lane] & own != 0 else 0
        anew = amount if following != 0 else np.inf
        change = following - (holds & _NOW_MASK)
        now_held = following if ended else holds
        code[lane] += change if ended else 0
        asks[lane] |= ask if ended else 0
        held[s, lane] = now_held
        left[s, lane] = anew if ended else rest
        busy[lane] |= now_held


@njit(inline="always")
def _pass(s, sends, state):
    """Let a source of all lanes go on for the time of the step."""
    rate, left, over, pace, held, step = state.rate, state.left, state.over, state.pace, state.held, state.step
    code, waiting, asks, busy, next_bytes = state.code, state.waiting, state.asks, state.busy, state.next_bytes
    own, ask_bit, pause_s = sends.own[s], 1 << s, sends.latency_s
    for lane in range(step.size):
        rest = left[s, lane] - (rate[s, lane] + pace[s, lane]) * step[lane]
        holds = held[s, lane]
        following = holds >> _NEXT
        waits = (waiting[lane] & own) != 0
        follows = following != 0
        ended = rest <= over[s, lane]
        pauses = ended & (pause_s > 0.0) & (pace[s, lane] == 0.0) & (waits | follows)
        begins = ended & (not pauses)
        left_anew = next_bytes[s, lane] if follows else np.inf
        over_anew = _SAME * next_bytes[s, lane] if follows else 0.0
        # While it pauses, a source holds its next send alone.
        held_ended = following if begins else following << _NEXT
        held_anew = held_ended if ended else holds
        code[lane] += (held_anew & _NOW_MASK) - (holds & _NOW_MASK)
        ask = ask_bit if waits else 0
        asks[lane] |= ask if begins else 0
        busy[lane] |= held_anew
        held[s, lane] = held_anew
        left_ended = left_anew if begins else pause_s
        over_ended = over_anew if begins else _SAME * pause_s
        pace_ended = 0.0 if begins else 1.0
        left[s, lane] = left_ended if ended else rest
        over[s, lane] = over_ended if ended else over[s, lane]
        pace[s, lane] = pace_ended if ended else pace[s, lane]


@njit
def _run_abreast(position, last, first_sends, sends, rates, state, stack, most_pushes, elapsed_s):
    """Run until no lane has a schedule: each goes on with what was kept last, else with other first sends.

    Returns where to go on with first sends once the stack has more room, -1 when all is done.
    """
    running = True
    while running:
        if stack.top[0] + most_pushes > stack.now.size:
            return position
        running = False
        for lane in range(state.now.size):
            if not state.goes_on[lane]:
                if state.runs[lane] and state.busy[lane] == 0:
                    elapsed_s[state.number[lane]] = state.now[lane]
                # What is left may never end: literal readings can starve a communication for ever.
                if state.busy[lane] == 0 or state.step[lane] == np.inf:
                    state.runs[lane] = stack.top[0] > 0 or position < last
                    if stack.top[0] > 0:
                        _pop(lane, sends, state, stack)
                    elif position < last:
                        _begin_schedules(lane, first_sends[position], sends, state)
                        position += 1
                _choose(lane, sends, state, stack)
            running = running or state.runs[lane]
        _next_event(sends, rates, state)
    return -1


@njit
def _stack_of(room, sources, top):
    """Return a stack with room for so many schedules."""
    shape = (room, sources)
    return _Stack(
        np.empty(shape), np.empty(shape, dtype=np.int64), np.empty(shape), np.empty(shape), np.empty(shape),
        np.empty(room), np.empty((room, 4), dtype=np.int64), top,
    )  # fmt: skip


@njit
def _lanes(sources, rates):
    """Return lanes without a schedule: nothing in them ends."""
    shape = (sources, _ABREAST)
    whole = np.zeros((5, _ABREAST), dtype=np.int64)
    return _Abreast(
        rate=np.zeros((rates.words.shape[1] * (64 // rates.width), _ABREAST)), left=np.full(shape, np.inf),
        over=np.zeros(shape), pace=np.zeros(shape), held=np.zeros(shape, dtype=np.int64), next_bytes=np.zeros(shape),
        now=np.zeros(_ABREAST), code=whole[0], number=whole[1], waiting=whole[2], asks=whole[3], busy=whole[4],
        step=np.zeros(_ABREAST), goes_on=np.zeros(_ABREAST, dtype=np.bool_), runs=np.zeros(_ABREAST, dtype=np.bool_),
    )  # fmt: skip


@njit
def asynchronous_times(first, last, first_sends, sends, rates, elapsed_s):
    """Run all schedules with some first sends in which a source starts its next send when its previous one ends.

    Where a source may go on with one of several sends, what went before is run once for all of them. Schedules advance
    side by side, an event of each at a time, as the processor computes many at once. Those of which a send never ends
    are left out.
    """
    sources = sends.own.size
    state = _lanes(sources, rates)
    # A lane keeps so much from its first sends to its last.
    deepest = 0
    for s in range(sources):
        deepest += (bits(sends.own[s]) - 1) * (bits(sends.own[s]) - 2) // 2
    most_pushes = _ABREAST * deepest
    stack = _stack_of(most_pushes + 1, sources, np.zeros(1, dtype=np.int64))
    position = first
    while position >= 0:
        position = _run_abreast(position, last, first_sends, sends, rates, state, stack, most_pushes, elapsed_s)
        if position >= 0:
            larger = _stack_of(2 * stack.now.size, sources, stack.top)
            kept = slice(stack.now.size)
            larger.left[kept] = stack.left
            larger.held[kept] = stack.held
            larger.over[kept] = stack.over
            larger.pace[kept] = stack.pace
            larger.next_bytes[kept] = stack.next_bytes
            larger.now[kept] = stack.now
            larger.told[kept] = stack.told
            stack = larger


@njit
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
