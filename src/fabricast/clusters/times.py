"""Times of copies that start together in a cluster: event by event, or by the busiest link of large patterns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.clusters.routes import ClusterLinks

_Floats = NDArray[np.float64]
#: Most copies, and most products of copies and links, that are simulated.
_MOST_COPIES, _MOST_CELLS = 5_000, 40_000_000
#: Copies that end within this share of the elapsed time after another one keep their rates until they end.
_TOGETHER = 1e-3


class CopyRun(NamedTuple):
    """Times of copies."""

    end_s: _Floats  # Time from the start to the end of each copy in s, shape (copies,)
    bottleneck: NDArray[np.int64]  # Link that limits each copy for the longest time, shape (copies,)
    limited_s: _Floats  # Time during which links of each layer limit each copy in s, shape (copies, layers)


def is_simulated(links: ClusterLinks) -> bool:
    """Return whether copies are few enough for a simulation."""
    copies = links.crosses.size
    return copies <= _MOST_COPIES and copies * links.layer.size <= _MOST_CELLS


def run_copies(cluster_links: ClusterLinks, size_bytes: _Floats) -> CopyRun:
    """Return the times of copies with max-min fair rates, which change whenever a copy ends.

    Shapes: size_bytes (copies,).
    """
    from fabricast.pcie.engines.kernels.max_min import max_min_rates, new_sharing

    links, copies = cluster_links.links, size_bytes.size
    sharing, rates = new_sharing(links.capacity.size, copies), np.zeros(copies)
    left, end_s = size_bytes.astype(np.float64).copy(), np.zeros(copies)
    limited = np.zeros((copies, int(cluster_links.layer.max(initial=0)) + 1))
    longest, bottleneck = np.zeros(copies), np.zeros(copies, dtype=np.int64)
    since, current = np.zeros(copies), np.full(copies, -1, dtype=np.int64)
    acting, now = np.arange(copies), 0.0
    while acting.size:
        max_min_rates(links, sharing, acting, acting.size, rates)
        times = left[acting] / rates[acting]
        step = float(times.min())
        # Nearly equal copies end in one event, each at its time.
        is_done = times <= step + _TOGETHER * (now + step)
        step = float(times[is_done].max())
        tight = sharing.bottleneck[acting]
        limited[acting, cluster_links.layer[tight]] += step
        since[acting] = np.where(current[acting] == tight, since[acting], 0.0) + step
        current[acting] = tight
        is_longer = since[acting] > longest[acting]
        longest[acting[is_longer]], bottleneck[acting[is_longer]] = since[acting[is_longer]], tight[is_longer]
        end_s[acting[is_done]] = now + times[is_done]
        left[acting] -= rates[acting] * step
        now += step
        acting = acting[~is_done]
    return CopyRun(end_s, bottleneck, limited)


def busiest_link(cluster_links: ClusterLinks, size_bytes: _Floats) -> tuple[float, int]:
    """Return the time of the busiest link in s, a lower bound of the time of all copies, and the link.

    Traffic of the reverse direction reduces the capacity of a link by `duplex_cost` of its load.
    """
    links = cluster_links.links
    load = np.bincount(links.link, np.repeat(size_bytes, np.diff(links.offset)), links.capacity.size)
    whole = load + links.duplex_cost * load[links.opposite]
    # A shared limit of two directions applies only while both are in use.
    needed = links.needs.max(axis=1) >= 0
    applies = ~needed | (load[links.needs].min(axis=1) > 0)
    time = np.where((load > 0) & applies, whole / links.capacity, 0.0)
    busiest = int(time.argmax())
    return float(time[busiest]), busiest
