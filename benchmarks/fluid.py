"""Max-min fair sharing on links: rates by progressive filling, and completion time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["completion_time_s", "max_min_rates"]


def max_min_rates(
    offset: NDArray[np.int64], link: NDArray[np.int64], capacity: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return weighted max-min fair rates.

    All rates grow until a link is saturated, which freezes the flows over it; the other rates continue to grow.

    Parameters
    ----------
    offset : ndarray of int64, shape (flows + 1,)
        Offsets into `link` of each flow.
    link : ndarray of int64
        Link numbers of all flows.
    capacity : ndarray of float64, shape (links,)
        Capacity of each link in bytes/s.
    weight : ndarray of float64, shape (flows,)
        Weight of each flow.

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
        np.asarray(offset, dtype=np.int64),
        np.asarray(link, dtype=np.int64),
        capacity.astype(np.float64),
        weight.astype(np.float64),
        first,
        owner[order].astype(np.int64),
        rate,
    )
    return rate


def completion_time_s(
    offset: NDArray[np.int64],
    link: NDArray[np.int64],
    capacity: NDArray[np.float64],
    size_bytes: NDArray[np.float64],
    *,
    weighted: bool = False,
) -> float:
    """Return the completion time of flows that start together with fair sharing.

    Parameters
    ----------
    offset, link, capacity
        As for `max_min_rates`.
    size_bytes : ndarray of float64, shape (flows,)
        Size of each flow in bytes.
    weighted : bool, default False
        Weight flows by their size; the result is then exactly the time of the busiest link.

    Returns
    -------
    float
        Completion time in seconds.
    """
    left = size_bytes.astype(np.float64).copy()
    alive = np.flatnonzero(left > 0)
    now = 0.0
    while alive.size:
        part = np.concatenate([[0], np.cumsum(np.diff(offset)[alive])])
        alive_links = np.concatenate([link[offset[f] : offset[f + 1]] for f in alive.tolist()])
        weights = size_bytes[alive] if weighted else np.ones(alive.size)
        rate = max_min_rates(part, alive_links, capacity, weights)
        step = float((left[alive] / rate).min())
        now += step
        left[alive] -= rate * step
        alive = alive[left[alive] > 1e-9 * size_bytes[alive]]
    return now
