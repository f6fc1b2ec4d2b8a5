"""Percentiles of loads: those of NumPy, to the last bit, in a fraction of the time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["percentiles"]


def percentiles(values: NDArray[np.float64], percents: Sequence[float]) -> list[float]:
    """Return percentiles with linear interpolation.

    Parameters
    ----------
    values : ndarray of float64, shape (values,)
        At least one; fast where few differ, as loads of links do.
    percents : sequence of float
        From 0 to 100.

    Returns
    -------
    list of float
        Equal to `numpy.percentile`.

    Examples
    --------
    >>> percentiles(np.array([4.0, 0.0, 1.0]), [50, 75])
    [1.0, 2.5]
    """
    from fabricast.percs.kernels.percentiles import order_statistics

    place = (values.size - 1) * (np.asarray(percents) / 100)
    below = np.floor(place).astype(np.int64)
    ranks, numbers = np.unique([below, np.minimum(below + 1, values.size - 1)], return_inverse=True)
    ordered = np.empty(ranks.size)
    order_statistics(values, values.min(), values.max(), ranks, ordered)
    low, high = ordered[numbers.reshape(2, -1)]
    share = place - below
    # From the nearer end, as NumPy does, so that results rise with the percentage.
    found: list[float] = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share)).tolist()
    return found
