"""Max-min fair sharing on links: rates by progressive filling, and the time until all flows end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["completion_time_s", "max_min_rates"]


def max_min_rates(
    offset: NDArray[np.int64],
    link: NDArray[np.int64],
    capacity: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return weighted max-min fair rates.

    All flows grow until a link is full, which freezes those over it; the others grow on.

    Parameters
    ----------
    offset : ndarray of int64, shape (flows + 1,)
        Links of each flow.
    link : ndarray of int64
        Links, flow after flow.
    capacity : ndarray of float64, shape (links,)
        Bytes/s.
    weight : ndarray of float64, shape (flows,)
        Weights.

    Returns
    -------
    ndarray of float64, shape (flows,)
        Rates in bytes/s; infinite for a flow without links.

    Examples
    --------
    >>> max_min_rates(np.array([0, 1, 3]), np.array([0, 0, 1]), np.array([2.0, 0.5]), np.ones(2)).tolist()
    [1.5, 0.5]
    """
    from benchmarks.fluid_kernels import fill

    owner = np.repeat(np.arange(offset.size - 1), np.diff(offset))
    order = np.argsort(link, kind="stable")
    first = np.searchsorted(link[order], np.arange(capacity.size + 1)).astype(np.int64)
    rate = np.full(offset.size - 1, np.inf)
    fill(
        np.asarray(offset, dtype=np.int64), np.asarray(link, dtype=np.int64), capacity.astype(np.float64),
        weight.astype(np.float64), first, owner[order].astype(np.int64), rate,
    )  # fmt: skip
    return rate


def completion_time_s(
    offset: NDArray[np.int64], link: NDArray[np.int64], capacity: NDArray[np.float64], size_bytes: NDArray[np.float64],
    *, weighted: bool = False,
) -> float:  # fmt: skip
    """Return when the last flow ends if all start together and share fairly.

    Parameters
    ----------
    offset, link, capacity
        As for `max_min_rates`.
    size_bytes : ndarray of float64, shape (flows,)
        Bytes of each flow.
    weighted : bool, default False
        Whether weights are the bytes: then the time is exactly that of the busiest link.

    Returns
    -------
    float
        Time in s.
    """
    left = size_bytes.astype(np.float64).copy()
    alive = np.flatnonzero(left > 0)
    now = 0.0
    while alive.size:
        part = np.concatenate([[0], np.cumsum(np.diff(offset)[alive])])
        own = np.concatenate([link[offset[f] : offset[f + 1]] for f in alive.tolist()])
        weights = size_bytes[alive] if weighted else np.ones(alive.size)
        rate = max_min_rates(part, own, capacity, weights)
        step = float((left[alive] / rate).min())
        now += step
        left[alive] -= rate * step
        alive = alive[left[alive] > 1e-9 * size_bytes[alive]]
    return now
