"""Rates and completion times of concurrent copies: calibrated rates of links, and results of forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.pcie.graphs.congestion_graphs import MOST_COPIES
from fabricast.pcie.topology.paths import PathClass

__all__ = ["CopyTimes", "LinkRates", "Statistic", "TotalRate", "check_flows", "printed_rates"]

#: Rate of concurrent copies that a benchmark prints.
Statistic = Literal["total", "sum_of_copies", "sum_of_targets", "sum_of_sources", "last_listed"]


@dataclass(frozen=True)
class LinkRates:
    """Link rates of a machine, calibrated by isolated copies and bidirectional pairs.

    A path class that is not slower than the links of the tree needs no rate: its rate stays None.

    Parameters
    ----------
    one_way_bytes_per_s : float
        Rate of an isolated copy in bytes/s.
    two_way_bytes_per_s : float
        Rate of each copy of a bidirectional pair in bytes/s.
    crossing_bytes_per_s, between_roots_bytes_per_s : float or None, default None
        Rate of an isolated copy between GPUs in bytes/s: across the root complex, and between sockets. Without a rate
        between sockets, `crossing_bytes_per_s` is used there too.
    host_in_bytes_per_s, host_out_bytes_per_s : float or None, default None
        Rate of an isolated copy from host memory, and to host memory, in bytes/s.
    remote_in_bytes_per_s, remote_out_bytes_per_s : float or None, default None
        Rate of an isolated copy from and to host memory of another socket in bytes/s. Without it, the rate of host
        memory is used.
    tau : float, default 0
        Performance reduction for crossing the root complex. Used by the port model only.
    crossing_cost : float, default 1
        Time per byte behind the root complex, relative to other links. Used by the port model only.
    group_rates : mapping of (str, str) to float, optional
        Rates in bytes/s of isolated copies that are slower than the rate of their path class: of host memory by GPU and
        path class, and between GPUs by PHB or NODE and ``crossing``.
    link_rates : mapping of str to float, optional
        Rates in bytes/s of links that are slower than the topology states, by label
        (`fabricast.pcie.topology.paths.link_labels`).
    """

    one_way_bytes_per_s: float
    two_way_bytes_per_s: float
    crossing_bytes_per_s: float | None = None
    between_roots_bytes_per_s: float | None = None
    host_in_bytes_per_s: float | None = None
    host_out_bytes_per_s: float | None = None
    remote_in_bytes_per_s: float | None = None
    remote_out_bytes_per_s: float | None = None
    tau: float = 0.0
    crossing_cost: float = 1.0
    group_rates: Mapping[tuple[str, PathClass], float] = field(default_factory=dict)
    link_rates: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one, two = self.one_way_bytes_per_s, self.two_way_bytes_per_s
        if not 0 < one < 1e13 or not one / 2 <= two <= one * (1 + 1e-9):
            raise InputError(
                f"rate of an isolated copy is {one / 1e9:.4g} GB/s and of each copy of a bidirectional pair "
                f"{two / 1e9:.4g} GB/s, expected a rate below 10,000 GB/s, and between half and all of it"
            )

    def of_class(self, way: PathClass) -> float | None:
        """Return the isolated rate of a path class in bytes/s, or None if the tree links limit it."""
        inter_socket = self.between_roots_bytes_per_s
        rate = {
            "crossing": self.crossing_bytes_per_s,
            "host_in": self.host_in_bytes_per_s,
            "host_out": self.host_out_bytes_per_s,
            "remote_in": self.remote_in_bytes_per_s or self.host_in_bytes_per_s,
            "remote_out": self.remote_out_bytes_per_s or self.host_out_bytes_per_s,
            "between_roots": self.crossing_bytes_per_s if inter_socket is None else inter_socket,
        }.get(way)
        return rate if rate is not None and rate < self.one_way_bytes_per_s else None

    @property
    def duplex_cost(self) -> float:
        """Capacity lost per byte sent in the reverse direction (acknowledgements and credits)."""
        return self.one_way_bytes_per_s / min(self.two_way_bytes_per_s, self.one_way_bytes_per_s) - 1.0


@dataclass(frozen=True)
class TotalRate:
    """Aggregate rate of concurrent flows.

    Parameters
    ----------
    bytes_per_s, low_bytes_per_s, high_bytes_per_s : float
        Median, minimum and maximum over random draws of order and pauses, in bytes/s; equal for a deterministic
        program.
    flow_bytes_per_s : ndarray of float64, shape (flows,)
        Mean rate of each flow until its last copy ends in bytes/s, median over draws.
    """

    bytes_per_s: float
    low_bytes_per_s: float
    high_bytes_per_s: float
    flow_bytes_per_s: NDArray[np.float64]


@dataclass(frozen=True)
class CopyTimes:
    """Completion times of copies in seconds.

    Parameters
    ----------
    end_s, earliest_s, latest_s : ndarray of float64, shape (copies,)
        Mean, minimum and maximum over random draws of order and pauses; equal for a deterministic program.
    bottleneck : tuple of str, one per copy
        Label of the link of its route at which each copy waits longest, for its share or for a copy engine of that
        endpoint; empty tuple unless requested.
    caused_by : tuple of str, one per copy
        Name of the shared resource that limits the copy there, such as host memory; empty text otherwise.
    """

    end_s: NDArray[np.float64]
    earliest_s: NDArray[np.float64]
    latest_s: NDArray[np.float64]
    bottleneck: tuple[str, ...] = ()
    caused_by: tuple[str, ...] = ()


def check_flows(flows: Sequence[tuple[int, int]]) -> None:
    """Raise `InputError` for no flows, too many flows, or equal source and target."""
    if not flows or len(flows) > MOST_COPIES:
        raise InputError(f"number of flows is {len(flows)}, expected 1 to {MOST_COPIES:,}")
    loop = next((flow for flow in flows if flow[0] == flow[1]), None)
    if loop is not None:
        raise InputError(f"flow is {loop[0]} to {loop[1]}, expected two different endpoints")


def printed_rates(
    pairs: NDArray[np.int64], size_bytes: float, ends_s: NDArray[np.float64], statistic: Statistic
) -> NDArray[np.float64]:
    """Return the rate that a benchmark prints, for each run.

    Shapes: pairs (flows, 2); ends_s (runs, flows); result (runs,).

    >>> pairs, ends_s = np.array([[0, 1], [2, 1], [3, 2]]), np.array([[1.0, 2.0, 4.0]])
    >>> [printed_rates(pairs, 1.0, ends_s, name).item() for name in ("total", "sum_of_copies", "sum_of_targets")]
    [0.75, 1.75, 1.25]
    >>> printed_rates(pairs, 1.0, ends_s[:, [0, 2, 1]], "last_listed").item()
    1.5
    """
    if statistic == "sum_of_copies":
        return np.asarray((size_bytes / ends_s).sum(axis=1))
    if statistic in ("total", "last_listed"):
        end_s = ends_s.max(axis=1) if statistic == "total" else ends_s[:, -1]
        return np.asarray(len(pairs) * size_bytes / end_s)
    column = pairs[:, 1] if statistic == "sum_of_targets" else pairs[:, 0]
    rates = np.zeros(len(ends_s))
    for endpoint in np.unique(column):
        flows = column == endpoint
        rates += flows.sum() * size_bytes / ends_s[:, flows].max(axis=1)
    return rates
