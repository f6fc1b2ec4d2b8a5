"""Compiled kernels of the schedule search: millions of schedules from tables of distinct steps.

A step is a code: each source adds a digit, 0 when idle, else one more than the number of
the target it sends to. A schedule is a number `low + lows * high`: the permutations of the
first and of the last sources.
"""

from __future__ import annotations

import numpy as np

from fabricast.pcie.kernels.bit_masks import lowest, without_lowest
from fabricast.runtime.compilation import njit

__all__ = ["asynchronous_times", "smallest_images", "synchronised_times"]

#: Schedules that a thread runs side by side.
_ABREAST = 64


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
    """Fill in the smallest number that a symmetry gives each schedule or step of these highs, and which does."""
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
def asynchronous_times(
    first, last, schedules, counts, begins, amount, limit, pace, part, rates_bytes_per_s, elapsed_s
):  # fmt: skip
    """Run schedules in which a source starts its next send when its previous one ends.

    A source goes through phases, from `begins[source, order]` on: pauses, sends, and at last
    one without end. Phase p takes `amount[p]` seconds or bytes, is over when `limit[p]` is
    left, passes at `pace[p]` besides the rate of the source, and adds `part[p]` to the code
    of the active set, whose rates are `rates_bytes_per_s[code, source]`. Schedules advance
    side by side, an event of each at a time, as the processor computes many at once.
    """
    sources = counts.size
    shape = (sources, _ABREAST)
    left, over, paces, rate = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    phase = np.empty(shape, dtype=np.int64)
    place, code = np.full(_ABREAST, -1, dtype=np.int64), np.zeros(_ABREAST, dtype=np.int64)
    busy, ended = np.zeros(_ABREAST, dtype=np.int64), np.empty(_ABREAST, dtype=np.int64)
    now, step = np.empty(_ABREAST), np.empty(_ABREAST)
    left[:] = np.inf
    over[:] = 0.0
    paces[:] = 0.0
    position = first
    running = 1
    while running > 0:
        running = 0
        for lane in range(_ABREAST):
            if busy[lane] == 0:
                if place[lane] >= 0:
                    elapsed_s[place[lane]] = now[lane]
                    place[lane] = -1
                if position == last:
                    continue
                number = schedules[position]
                code[lane] = 0
                for s in range(sources):
                    p = begins[s, number % counts[s]]
                    number //= counts[s]
                    phase[s, lane] = p
                    left[s, lane] = amount[p]
                    over[s, lane] = limit[p]
                    paces[s, lane] = pace[p]
                    code[lane] += part[p]
                now[lane] = 0.0
                busy[lane] = sources
                place[lane] = position
                position += 1
            running += 1
        for lane in range(_ABREAST):
            active = np.uint64(code[lane])
            for s in range(sources):
                rate[s, lane] = rates_bytes_per_s[active, s]
        for lane in range(_ABREAST):
            step[lane] = np.inf
            ended[lane] = 0
        for s in range(sources):
            for lane in range(_ABREAST):
                time = left[s, lane] / (rate[s, lane] + paces[s, lane])
                step[lane] = time if time < step[lane] else step[lane]
        for s in range(sources):
            for lane in range(_ABREAST):
                rest = left[s, lane] - (rate[s, lane] + paces[s, lane]) * step[lane]
                left[s, lane] = rest
                ended[lane] |= (1 << s) if rest <= over[s, lane] else 0
        for lane in range(_ABREAST):
            now[lane] += step[lane]
            if step[lane] == np.inf:
                # What is left never ends: only literal readings can starve a communication for ever.
                busy[lane] = 0
            while ended[lane] > 0:
                s = lowest(ended[lane])
                ended[lane] = without_lowest(ended[lane])
                p = phase[s, lane] + 1
                phase[s, lane] = p
                left[s, lane] = amount[p]
                over[s, lane] = limit[p]
                paces[s, lane] = pace[p]
                code[lane] += part[p] - part[p - 1]
                busy[lane] -= np.int64(amount[p] == np.inf)
