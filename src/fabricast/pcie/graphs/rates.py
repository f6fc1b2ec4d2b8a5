"""Rates and completion times of concurrent copies: calibrated rates of links, and results of forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.pcie.graphs.congestion_graphs import MOST_COPIES
from fabricast.pcie.topology.parts import PeerLink
from fabricast.pcie.topology.paths import CopyClass

#: Rate of concurrent copies that a benchmark prints.
Statistic = Literal["total", "sum_of_copies", "sum_of_targets", "sum_of_sources", "last_listed"]


class Limit(StrEnum):
    """Bandwidth limits that several copies share in addition to the links of the tree."""

    MEMORY_READ = "memory_read"
    MEMORY_WRITE = "memory_write"
    MEMORY_BOTH_WAYS = "memory_both_ways"
    MEMORY_READ_OF_A_NODE = "memory_read_of_a_node"
    MEMORY_WRITE_OF_A_NODE = "memory_write_of_a_node"
    MEMORY_BOTH_WAYS_OF_A_NODE = "memory_both_ways_of_a_node"
    HOST_BOTH_WAYS = "host_both_ways"
    ROOT_COMPLEX = "root_complex"
    ROOT_COMPLEX_BOTH_WAYS = "root_complex_both_ways"
    ROOT_COMPLEX_LINK = "root_complex_link"
    ROOT_COMPLEX_LINK_BOTH_WAYS = "root_complex_link_both_ways"
    REMOTE_MEMORY = "remote_memory"
    REMOTE_MEMORY_BOTH_WAYS = "remote_memory_both_ways"

    @property
    def is_bidirectional(self) -> bool:
        """True if the limit applies to both directions together."""
        return "both_ways" in self

    @property
    def one_way(self) -> Limit:
        """Limit of one direction; the limit itself if it has no unidirectional form."""
        return Limit(self.removesuffix("_both_ways")) if self.endswith("_both_ways") and self in _PAIRED else self


#: Limits with both a unidirectional and a bidirectional form.
_PAIRED = (Limit.ROOT_COMPLEX_BOTH_WAYS, Limit.ROOT_COMPLEX_LINK_BOTH_WAYS, Limit.REMOTE_MEMORY_BOTH_WAYS)


@dataclass(frozen=True)
class Estimate:
    """A measured bandwidth limit."""

    bytes_per_s: float  # Limit in bytes/s
    source: str  # Measurements that it is based on
    is_lower_bound: bool = False  # Whether the links limited the measured copies, so that the limit is this or more
    copies: float = np.inf  # Number of copies that reached the limit; more copies reach it too


@dataclass(frozen=True)
class Rates:
    """Rates and bandwidth limits of a machine with their sources, calibrated by measured copies or assumed.

    A path class that is not slower than the links of the tree needs no rate: its rate stays None.
    """

    one_way_bytes_per_s: float  # Rate of an isolated copy in bytes/s
    two_way_bytes_per_s: float  # Rate of each copy of a bidirectional pair in bytes/s
    #: Rate of an isolated copy between GPUs in bytes/s: across the root complex, and between sockets. Without a rate
    #: between sockets, `crossing_bytes_per_s` is used there too.
    crossing_bytes_per_s: float | None = None
    between_roots_bytes_per_s: float | None = None
    #: Rate of an isolated copy from host memory, and to host memory, in bytes/s.
    host_in_bytes_per_s: float | None = None
    host_out_bytes_per_s: float | None = None
    #: Rate of an isolated copy from and to host memory of another socket in bytes/s. Without it, the rate of host
    #: memory is used.
    remote_in_bytes_per_s: float | None = None
    remote_out_bytes_per_s: float | None = None
    tau: float = 0.0  # Performance reduction for crossing the root complex. Used by the port model only
    #: Time per byte behind the root complex, relative to other links. Used by the port model only.
    crossing_cost: float = 1.0
    #: Rates in bytes/s of isolated copies that are slower than the rate of their path class: of host memory by GPU and
    #: path class, and between GPUs by PHB or NODE and ``crossing``.
    group_rates: Mapping[tuple[str, CopyClass], float] = field(default_factory=dict)
    #: Rates in bytes/s of links that are slower than the topology states, by label
    #: (`fabricast.pcie.topology.paths.link_labels`).
    link_rates: Mapping[str, float] = field(default_factory=dict)
    estimates: Mapping[Limit, Estimate] = field(default_factory=dict)  # Measured limits that several copies share
    rate_sources: Mapping[str, str] = field(default_factory=dict)  # Source of each rate by name
    used: frozenset[str] = frozenset()  # Names of the graphs used for calibration; these are excluded from validation
    #: Direct links between GPUs, with the measured rates of single copies or the rates in the topology.
    direct_links: tuple[PeerLink, ...] = ()
    direct_links_measured: bool = False  # Whether single copies over direct links were measured
    #: Whether the rate of a link is known; if not, the rate is that of copies through the root complex.
    links_calibrated: bool = True
    #: Path classes with a measured single copy or bidirectional pair; None if there are no measurements.
    measured_classes: frozenset[CopyClass] | None = None
    #: Largest link width, relative to a link of capacity 1, for which a path class is calibrated. Path classes not
    #: listed are calibrated for all widths.
    calibrated_widths: Mapping[CopyClass, float] = field(default_factory=dict)
    #: Whether bidirectional pairs across a root complex are much slower than single copies.
    slow_bidirectional: bool = False

    def __post_init__(self) -> None:
        one, two = self.one_way_bytes_per_s, self.two_way_bytes_per_s
        if not 0 < one < 1e13 or not one / 2 <= two <= one * (1 + 1e-9):
            raise InputError(
                f"rate of an isolated copy is {one / 1e9:.4g} GB/s and of each copy of a bidirectional pair "
                f"{two / 1e9:.4g} GB/s, expected a rate below 10,000 GB/s, and between half and all of it"
            )

    def of_class(self, way: CopyClass) -> float | None:
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

    def estimate(self, limit: Limit) -> Estimate | None:
        """Return the estimate of a limit; None if no probe measured it."""
        return self.estimates.get(limit)

    def limit(self, limit: Limit) -> float | None:
        """Return a measured limit in bytes/s; None if it is unknown or a lower bound."""
        estimate = self.estimates.get(limit)
        return None if estimate is None or estimate.is_lower_bound else estimate.bytes_per_s

    def lower_bound(self, limit: Limit) -> float | None:
        """Return a lower bound in bytes/s; None if it is unknown or the limit is measured."""
        estimate = self.estimates.get(limit)
        return estimate.bytes_per_s if estimate is not None and estimate.is_lower_bound else None

    @property
    def sources(self) -> dict[str, str]:
        """Source of each rate and limit by name."""
        return {**self.rate_sources, **{str(limit): estimate.source for limit, estimate in self.estimates.items()}}

    @property
    def values(self) -> dict[str, float | None]:
        """Rates and limits in bytes/s, with the same names as in `sources`."""
        direct = [link.bytes_per_s for link in self.direct_links if link.bytes_per_s is not None]
        return {
            **({"direct_link": float(np.median(direct))} if direct else {}),
            "one_way": self.one_way_bytes_per_s,
            "two_way": self.two_way_bytes_per_s,
            "crossing": self.crossing_bytes_per_s,
            "between_roots": self.between_roots_bytes_per_s,
            "host_in": self.host_in_bytes_per_s,
            "host_out": self.host_out_bytes_per_s,
            "remote_in": self.remote_in_bytes_per_s,
            "remote_out": self.remote_out_bytes_per_s,
            "tau": self.tau,
            "crossing_cost": self.crossing_cost,
            **_medians_of_groups(self.group_rates),
            **{str(limit): estimate.bytes_per_s for limit, estimate in self.estimates.items()},
        }


def _medians_of_groups(rates: Mapping[tuple[str, CopyClass], float]) -> dict[str, float]:
    """Return the median rate in bytes/s of the slow groups of each path class, by the name of the parameter."""
    of_class: dict[str, list[float]] = {}
    for (_, way), rate in rates.items():
        of_class.setdefault(f"{way}_of_slow_groups", []).append(rate)
    return {name: float(np.median(of_way)) for name, of_way in of_class.items()}


@dataclass(frozen=True)
class TotalRate:
    """Aggregate rate of concurrent flows."""

    #: Median, minimum and maximum over random draws of order and pauses, in bytes/s; equal for a deterministic program.
    bytes_per_s: float
    low_bytes_per_s: float
    high_bytes_per_s: float
    #: Mean rate of each flow until its last copy ends in bytes/s, median over draws, shape (flows,).
    flow_bytes_per_s: NDArray[np.float64]


@dataclass(frozen=True)
class CopyTimes:
    """Completion times of copies in seconds."""

    #: Mean, minimum and maximum over random draws of order and pauses; equal for a deterministic program, shape
    #: (copies,).
    end_s: NDArray[np.float64]
    earliest_s: NDArray[np.float64]
    latest_s: NDArray[np.float64]
    #: Label of the link of its route at which each copy waits longest, for its share or for a copy engine of that
    #: endpoint; empty tuple unless requested.
    bottleneck: tuple[str, ...] = ()
    #: Name of the shared resource that limits the copy there, such as host memory; empty text otherwise.
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
