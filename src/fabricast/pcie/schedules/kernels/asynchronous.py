"""Enumeration of all schedules of a pattern, synchronised and asynchronous.

A schedule is one permutation of the copies of each source. Its number is `low + lows * high`, where `low` and `high`
number the permutations of the first and of the last sources. An active set (a set of at most one copy per source) is a
code in mixed radix: the digit of a source is 0 if it is idle, otherwise 1 plus the index of the target.

Synchronised schedules (`synchronised_times`): all sources start their k-th copies together. The time of a schedule is
the sum of the times of its steps, which the caller has evaluated once for each distinct code.

Asynchronous schedules (`asynchronous_times`): each source starts its next copy when its previous one ends.

1. Rates depend only on the active set, so the caller evaluates the model once per code and stores the rates in a table
   (`Rates`). Codes that a symmetry of tree and pattern maps to each other are evaluated once (`smallest_images`,
   `copy_rates`).
2. Schedules form a tree that branches where a source has several copies left to choose from. Schedules with a common
   beginning share its events: at a branch, `_choose` continues with the first copy and pushes the state with each other
   choice on a stack. A source with one copy left continues without a branch.
3. Each thread advances 64 schedules in lanes, one event at a time (`_next_event`): look up the rates of each lane,
   advance to the next end of a copy, and update codes and remaining bytes. The inner loops over lanes vectorise. With a
   latency, a pause is a separate phase, counted in seconds with `pace` 1.
4. A lane whose schedule has ended stores the time by schedule number. It continues with the top of the stack, or with
   the next combination of first copies (`_run_abreast`).
5. Only one combination of first copies per symmetry class is run. `copy_times` copies the times of the other schedules
   from their images.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from fabricast.pcie.schedules.kernels.bit_masks import bits, lowest, without_lowest
from fabricast.runtime.compilation import allocation_free, njit

#: Number of lanes: schedules that a thread advances together.
_ABREAST = 64
#: Relative remainder below which a phase counts as ended.
_SAME = 1e-9
#: Number that represents no copy. Copies are numbered from 0 and are bits of sets.
NO_SEND = 62
#: Shift of the upper half of `held`. The lower half is the term of the active copy in the code, the upper half that of
#: the next copy if a single one waits.
_NEXT = 32
_NOW_MASK = (1 << _NEXT) - 1


#: Copies of all sources, each preceded by a pause of `latency_s`. The bits of `copies[source]` are the copies of a
#: source. Copy k has `amount_bytes[k]` bytes and adds `part[k]` to the code of the active set. Choosing the n-th of m
#: waiting copies adds n times `weight[source, m]` to the number of the schedule. `alike` is true if all copies have the
#: same size and there is no pause.
Sends = namedtuple("Sends", "copies amount_bytes part weight latency_s alike")


#: Table of the rates of all active sets. The rates have few distinct values (`bytes_per_s`). `words[c]` has the index
#: of the rate of each source in the active set with code c, `width` bits per source, beginning with the lowest bits.
Rates = namedtuple("Rates", "words width bytes_per_s")


#: State of the lanes, by source and lane or by lane. `left` is the remainder of the phase of a source in bytes, or in
#: seconds during a pause (`pace` is 1). The phase ends when `left` is at most `over`. `next_bytes` is the size of the
#: next copy if a single one waits. `waiting` has the bits of copies, `asks` the bits of sources that must choose one of
#: several copies. `busy` is 0 when all copies have ended, `step` is the time to the next event, `goes_on` is true if no
#: source must choose, and `runs` is true if the lane has a schedule.
_Abreast = namedtuple(
    "_Abreast", "rate left over pace held next_bytes now code number waiting asks busy step goes_on runs"
)


#: Stack of schedules to continue from a branch; `state` has all integer fields.
_Stack = namedtuple("_Stack", "left held over pace next_bytes now state top")


@allocation_free(inline="always")
def _begin(lane, source, send, others, sends, state):
    """Start a copy (a bit) of a source, with the bits of its waiting copies in `others`."""
    kind = np.uint64(lowest(send))
    several = without_lowest(others)
    following = np.uint64(lowest(others | (1 << NO_SEND)) if several == 0 else NO_SEND)
    state.code[lane] += sends.part[kind]
    state.left[source, lane] = sends.amount_bytes[kind]
    state.held[source, lane] = sends.part[kind] | (sends.part[following] << _NEXT)
    state.waiting[lane] &= ~sends.copies[source]
    state.waiting[lane] |= others if several != 0 else 0
    if not sends.alike:
        state.over[source, lane] = _SAME * sends.amount_bytes[kind]
        state.next_bytes[source, lane] = sends.amount_bytes[following]


@allocation_free(inline="always")
def _push(lane, asks, sends, state, stack):
    """Push the state of a lane on the stack."""
    top = np.uint64(stack.top[0])
    stack.top[0] += 1
    stack.now[top] = state.now[lane]
    stack.state[top, 0] = state.code[lane]
    stack.state[top, 1] = state.number[lane]
    stack.state[top, 2] = state.waiting[lane]
    stack.state[top, 3] = asks
    for s in range(sends.copies.size):
        stack.left[top, s] = state.left[s, lane]
        stack.held[top, s] = state.held[s, lane]
    if not sends.alike:
        for s in range(sends.copies.size):
            stack.over[top, s] = state.over[s, lane]
            stack.pace[top, s] = state.pace[s, lane]
            stack.next_bytes[top, s] = state.next_bytes[s, lane]


@allocation_free(inline="always")
def _pop(lane, sends, state, stack):
    """Restore the state of a lane from the top of the stack."""
    stack.top[0] -= 1
    top = np.uint64(stack.top[0])
    state.now[lane] = stack.now[top]
    state.code[lane] = stack.state[top, 0]
    state.number[lane] = stack.state[top, 1]
    state.waiting[lane] = stack.state[top, 2]
    state.asks[lane] = stack.state[top, 3]
    for s in range(sends.copies.size):
        state.left[s, lane] = stack.left[top, s]
        state.held[s, lane] = stack.held[top, s]
    if not sends.alike:
        for s in range(sends.copies.size):
            state.over[s, lane] = stack.over[top, s]
            state.pace[s, lane] = stack.pace[top, s]
            state.next_bytes[s, lane] = stack.next_bytes[top, s]


@allocation_free(inline="always")
def _choose(lane, sends, state, stack):
    """Start the first waiting copy of each source that must choose; push the alternatives."""
    asks = state.asks[lane]
    while asks != 0:
        s = np.uint64(lowest(asks))
        asks = without_lowest(asks)
        choices = state.waiting[lane] & sends.copies[s]
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


@allocation_free(inline="always")
def _begin_schedules(lane, first_sends, sends, state):
    """Start the schedules with a combination of first copies in a lane."""
    state.number[lane] = 0
    state.code[lane] = 0
    # All sources have their first pause at the same time.
    state.now[lane] = sends.latency_s
    for s in range(sends.copies.size):
        copies = sends.copies[s]
        options = bits(copies) + 1
        choice = first_sends % options - 1
        first_sends //= options
        state.number[lane] += choice * sends.weight[s, options - 1]
        send = (copies & -copies) << choice
        _begin(lane, s, send, copies ^ send, sends, state)
        state.pace[s, lane] = 0.0


@allocation_free(inline="always")
def _look_up(width, rates, state):
    """Look up the rates of the active set of each lane.

    A constant `width` lets the compiler unroll the inner loop.
    """
    for lane in range(state.code.size):
        for w in range(rates.words.shape[1]):
            word = rates.words[np.uint64(state.code[lane]), w]
            for s in range(64 // width):
                state.rate[w * (64 // width) + s, lane] = rates.bytes_per_s[word & np.uint64((1 << width) - 1)]
                word >>= np.uint64(width)


@allocation_free(inline="always")
def _next_event(sends, rates, state):
    """Advance each lane to the next end of a phase."""
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


@allocation_free(inline="always")
def _pass_alike(s, sends, state):
    """Advance one source in all lanes, for copies of equal size without pauses."""
    rate, left, held, step = state.rate, state.left, state.held, state.step
    code, waiting, asks, busy = state.code, state.waiting, state.asks, state.busy
    copies, ask_bit, amount, limit = sends.copies[s], 1 << s, sends.amount_bytes[0], _SAME * sends.amount_bytes[0]
    for lane in range(step.size):
        rest = left[s, lane] - rate[s, lane] * step[lane]
        ended = rest <= limit
        holds = held[s, lane]
        following = holds >> _NEXT
        ask = ask_bit if waiting[lane] & copies != 0 else 0
        anew = amount if following != 0 else np.inf
        change = following - (holds & _NOW_MASK)
        now_held = following if ended else holds
        code[lane] += change if ended else 0
        asks[lane] |= ask if ended else 0
        held[s, lane] = now_held
        left[s, lane] = anew if ended else rest
        busy[lane] |= now_held


@allocation_free(inline="always")
def _pass(s, sends, state):
    """Advance one source in all lanes, with pauses and copies of any size."""
    rate, left, over, pace, held, step = state.rate, state.left, state.over, state.pace, state.held, state.step
    code, waiting, asks, busy, next_bytes = state.code, state.waiting, state.asks, state.busy, state.next_bytes
    copies, ask_bit, pause_s = sends.copies[s], 1 << s, sends.latency_s
    for lane in range(step.size):
        rest = left[s, lane] - (rate[s, lane] + pace[s, lane]) * step[lane]
        holds = held[s, lane]
        following = holds >> _NEXT
        waits = (waiting[lane] & copies) != 0
        follows = following != 0
        ended = rest <= over[s, lane]
        pauses = ended & (pause_s > 0.0) & (pace[s, lane] == 0.0) & (waits | follows)
        begins = ended & (not pauses)
        left_anew = next_bytes[s, lane] if follows else np.inf
        over_anew = _SAME * next_bytes[s, lane] if follows else 0.0
        # During a pause, only the upper half of `held` is set: the term of the next copy.
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


@allocation_free
def _run_abreast(position, last, first_sends, sends, rates, state, stack, most_pushes, elapsed_s):
    """Run until no lane has a schedule or the stack may overflow.

    A lane without a schedule continues with the top of the stack, or with the next first copies. Returns the index of
    the next first copies if the stack must be enlarged, or -1 when all schedules have ended.
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
                # Some copies never end: with literal formulas, the model can assign a rate of 0.
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
    """Return a stack for `room` schedules."""
    shape = (room, sources)
    return _Stack(
        np.empty(shape),
        np.empty(shape, dtype=np.int64),
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(room),
        np.empty((room, 4), dtype=np.int64),
        top,
    )


@njit
def _lanes(sources, rates):
    """Return lanes without schedules; their phases never end."""
    shape = (sources, _ABREAST)
    whole = np.zeros((5, _ABREAST), dtype=np.int64)
    return _Abreast(
        rate=np.zeros((rates.words.shape[1] * (64 // rates.width), _ABREAST)),
        left=np.full(shape, np.inf),
        over=np.zeros(shape),
        pace=np.zeros(shape),
        held=np.zeros(shape, dtype=np.int64),
        next_bytes=np.zeros(shape),
        now=np.zeros(_ABREAST),
        code=whole[0],
        number=whole[1],
        waiting=whole[2],
        asks=whole[3],
        busy=whole[4],
        step=np.zeros(_ABREAST),
        goes_on=np.zeros(_ABREAST, dtype=np.bool_),
        runs=np.zeros(_ABREAST, dtype=np.bool_),
    )


@njit
def asynchronous_times(first, last, first_sends, sends, rates, elapsed_s):
    """Compute the times of all asynchronous schedules with a range of first copies.

    Fills `elapsed_s` by schedule number. Schedules with a copy that never ends keep their initial value.
    """
    sources = sends.copies.size
    state = _lanes(sources, rates)
    # Maximum number of pushes of a lane from the first to the last copies of a schedule.
    deepest = 0
    for s in range(sources):
        deepest += (bits(sends.copies[s]) - 1) * (bits(sends.copies[s]) - 2) // 2
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
            larger.state[kept] = stack.state
            stack = larger
