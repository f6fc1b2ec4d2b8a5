"""Windowed tests of one pair: messages overlap, so that the longer of gap and transfer decides.

``T = max(g, n / r)``: the gap ``g`` between two messages, or the time of the bytes, as in LogGP (Alexandrov et al.,
SPAA 1995) for many messages in flight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_FEWEST = 4


class WindowedFit(NamedTuple):
    """Gap and rate of the messages of a pair, with the relative errors of the formula."""

    gap_s: float
    bytes_per_s: float
    median_error: float
    largest_error: float


def fit_windowed(size_bytes: NDArray[np.float64], time_s: NDArray[np.float64]) -> WindowedFit | None:
    """Return gap and rate with the least absolute log residuals; None for fewer than four sizes.

    The gap is the median of the times up to some size, the rate that of the sizes above it, so that a change of the
    protocol between them moves neither.

    >>> size = 2.0 ** np.arange(1, 21)
    >>> found = fit_windowed(size, np.maximum(2e-7, size / 24e9))
    >>> round(found.gap_s * 1e9), round(found.bytes_per_s / 1e9), round(found.largest_error, 6)
    (200, 24, 0.0)
    """
    order = np.argsort(size_bytes, kind="stable")
    size, time = size_bytes[order], time_s[order]
    if size.size < _FEWEST:
        return None
    best: tuple[float, float, float] | None = None
    for place in range(1, size.size):
        gap = float(np.median(time[:place]))
        rate = float(np.median(size[place:] / time[place:]))
        cost = float(np.abs(np.log(np.maximum(gap, size / rate) / time)).sum())
        if best is None or cost < best[0]:
            best = cost, gap, rate
    assert best is not None
    error = abs(np.maximum(best[1], size / best[2]) / time - 1)
    return WindowedFit(best[1], best[2], float(np.median(error)), float(error.max()))
