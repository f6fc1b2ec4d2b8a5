"""Compiled kernels of the schedule search: millions of schedules from tables of distinct steps.

A step is a code: each source adds a digit, 0 when idle, else one more than the number of
the target it sends to. A schedule is a number `low + lows * high`: the permutations of the
first and of the last sources.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fabricast.pcie.kernels.bit_masks import lowest, without_lowest
from fabricast.runtime.compilation import njit

__all__ = ["Phases", "asynchronous_times", "smallest_images", "synchronised_times"]

#: Schedules that a thread runs side by side.
_ABREAST = 64


class Phases(NamedTuple):
    """What sources go through: from place `begins[source, order]` of `kinds` on pauses, sends, and one without end.

    A phase of kind k takes `amount[k]` seconds or bytes, is over when `limit[k]` is left, passes at `pace[k]` besides
    the rate of the source, and adds `part[k]` to the code of the active set.
    """

    begins: Any
    kinds: Any
    amount: Any
    limit: Any
    pace: Any
    part: Any


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
def asynchronous_times(first, last, schedules, counts, phases, rates_bytes_per_s, elapsed_s):
    """Run schedules in which a source starts its next send when its previous one ends.

    `rates_bytes_per_s[code, source]` are the rates of an active set. Schedules advance side by
    side, an event of each at a time, as the processor computes many at once.
    """
    begins, kinds = phases.begins, phases.kinds
    amount, limit, pace, part = phases.amount, phases.limit, phases.pace, phases.part
    sources = counts.size
    shape = (sources, _ABREAST)
    # Places without a schedule have nothing that ends.
    left, over, paces, rate = np.full(shape, np.inf), np.zeros(shape), np.zeros(shape), np.empty(shape)
    phase = np.empty(shape, dtype=np.int64)
    place, code = np.full(_ABREAST, -1, dtype=np.int64), np.zeros(_ABREAST, dtype=np.int64)
    busy, ended = np.zeros(_ABREAST, dtype=np.int64), np.empty(_ABREAST, dtype=np.int64)
    now, step = np.empty(_ABREAST), np.empty(_ABREAST)
    position = first
    running = True
    while running:
        running = False
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
                    k = kinds[p]
                    phase[s, lane] = p
                    left[s, lane] = amount[k]
                    over[s, lane] = limit[k]
                    paces[s, lane] = pace[k]
                    code[lane] += part[k]
                now[lane] = 0.0
                busy[lane] = sources
                place[lane] = position
                position += 1
            running = True
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
                k = kinds[p]
                phase[s, lane] = p
                left[s, lane] = amount[k]
                over[s, lane] = limit[k]
                paces[s, lane] = pace[k]
                code[lane] += part[k] - part[kinds[p - 1]]
                busy[lane] -= np.int64(amount[k] == np.inf)
