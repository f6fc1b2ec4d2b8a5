"""Compiled kernels of the schedule search: millions of schedules from tables of distinct steps.

A step is a code: each source adds a digit, 0 when idle, else one more than the number of
the target it sends to. A schedule is a number `low + lows * high`: the permutations of the
first and of the last sources.
"""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import njit

__all__ = ["asynchronous_times", "smallest_images", "synchronised_times"]

_SAME_TIME = 1e-9


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


@njit(cache=True, error_model="numpy")
def smallest_images(low_images, high_images):
    """Return the smallest number that a symmetry gives each schedule, itself included."""
    symmetries, lows = low_images.shape
    highs = high_images.shape[1]
    smallest = np.empty(lows * highs, dtype=np.int64)
    for high in range(highs):
        for low in range(lows):
            own = low + lows * high
            best = own
            for g in range(symmetries):
                image = low_images[g, low] + high_images[g, high]
                if image < best:
                    best = image
            smallest[own] = best
    return smallest


@njit(cache=True, error_model="numpy", nogil=True)
def asynchronous_times(
    first, last, schedules, counts, degrees, permutations, weights, size_bytes, rates, bandwidth_bytes_per_s,
    latency_s, elapsed_s
):  # fmt: skip
    """Run schedules in which a source starts its next send when its previous one ends.

    `counts` are the permutations of each source, `permutations[source, number, k]` its k-th
    target, `rates[code, source]` the congestion factors of an active set.
    """
    sources = counts.size
    order = np.empty(sources, dtype=np.int64)
    done = np.empty(sources, dtype=np.int64)
    digit = np.empty(sources, dtype=np.int64)
    remaining = np.empty(sources, dtype=np.float64)
    waiting = np.empty(sources, dtype=np.float64)
    for position in range(first, last):
        number = schedules[position]
        code = 0
        busy = 0
        for s in range(sources):
            order[s] = number % counts[s]
            number //= counts[s]
            done[s] = 0
            waiting[s] = latency_s
            if degrees[s] > 0:
                choice = permutations[s, order[s], 0]
                digit[s] = choice + 1
                remaining[s] = size_bytes[s, choice]
                busy += 1
                if latency_s == 0.0:
                    code += weights[s] * digit[s]
            else:
                digit[s] = 0
        now = 0.0
        while busy > 0:
            step = np.inf
            for s in range(sources):
                if digit[s] > 0:
                    if waiting[s] > 0.0:
                        step = min(step, waiting[s])
                    else:
                        step = min(step, remaining[s] / (bandwidth_bytes_per_s * rates[code, s]))
            now += step
            moved = code
            for s in range(sources):
                if digit[s] == 0:
                    continue
                if waiting[s] > 0.0:
                    waiting[s] -= step
                    if waiting[s] <= _SAME_TIME * latency_s:
                        waiting[s] = 0.0
                        code += weights[s] * digit[s]
                    continue
                size = size_bytes[s, digit[s] - 1]
                remaining[s] -= bandwidth_bytes_per_s * rates[moved, s] * step
                if remaining[s] > _SAME_TIME * size:
                    continue
                code -= weights[s] * digit[s]
                done[s] += 1
                if done[s] == degrees[s]:
                    digit[s] = 0
                    busy -= 1
                    continue
                choice = permutations[s, order[s], done[s]]
                digit[s] = choice + 1
                remaining[s] = size_bytes[s, choice]
                if latency_s > 0.0:
                    waiting[s] = latency_s
                else:
                    code += weights[s] * digit[s]
        elapsed_s[position] = now
