"""Expected error of forecasts on clusters: that of public machines that are left out of the fit of the constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from fabricast.collectives.clusters.cluster import SLINGSHOT, Cluster
from fabricast.collectives.clusters.evidence import (
    ERROR_COLUMNS,
    LARGEST_BYTES,
    LARGEST_SIZES,
    MANY_NODES,
    MANY_NODES_WORDS,
    cluster_class,
    operation_class,
    public_cases,
)
from fabricast.collectives.expected import size_class
from fabricast.collectives.reference import MEDIAN_BANDS
from fabricast.core.resources import published
from fabricast.inputs.csv_files import CsvRow, read_csv
from fabricast.nccl.costs import Operation

#: Operations over several nodes without public measurements.
UNMEASURED = (Operation.BROADCAST, Operation.REDUCE)
#: Number of public machines below which their error is none of others.
_FEW = 3


@dataclass(frozen=True)
class ClusterError:
    """Error of one class of machines, operations and sizes."""

    size_class: str  # Class of sizes
    machines: int  # Number of public machines
    #: Median of the absolute relative error, also with two measured rows of the machine.
    median: float
    with_two_rows: float
    #: Range of the ratio of measured to forecast times.
    shortest: float
    longest: float
    coverage: float  # Share of the times of each machine within the range of the others; NaN for one machine

    def words(self, *, is_calibrated: bool) -> str:
        """Return the error in words."""
        error = self.with_two_rows if is_calibrated else self.median
        if self.machines < _FEW and not is_calibrated:
            count = "one machine" if self.machines == 1 else f"{self.machines} machines"
            return f"{100 * error:.2g} % {at_sizes(self.size_class)} (of {count}, which says little about others)"
        count = "1 machine" if self.machines == 1 else f"{self.machines} machines"
        return f"{100 * error:.2g} % {at_sizes(self.size_class)} ({count})"


def at_sizes(band: str) -> str:
    """Return a band of sizes as part of a sentence.

    >>> at_sizes("64 to 512 KiB"), at_sizes("from 1 MiB")
    ('at 64 to 512 KiB', 'from 1 MiB')
    """
    return f"at {band}" if band[:1].isdigit() else band


@cache
def recorded_cluster_errors() -> tuple[CsvRow, ...]:
    """Return the rows of config/published/collectives/cluster_model_errors.csv."""
    return tuple(read_csv(published() / "collectives" / "cluster_model_errors.csv", ERROR_COLUMNS))


@cache
def _errors() -> dict[tuple[str, str, str], ClusterError]:
    return {
        (row["machine_class"], row["operations"], row["size_class"]): ClusterError(
            row["size_class"],
            int(row.number("machines")),
            row.number("median"),
            row.number("with_two_rows") if row["with_two_rows"] else float("nan"),
            row.number("shortest"),
            row.number("longest"),
            row.number("coverage") if row["coverage"] else float("nan"),
        )
        for row in recorded_cluster_errors()
    }


@cache
def _interpolation_errors() -> dict[tuple[str, str], tuple[float, float, int]]:
    columns = ("network", "band", "machines", "rows", "median", "third_quartile", "within_band", "worst")
    rows = read_csv(published() / "collectives" / "cluster_errors.csv", (*columns, "median_with_two_rows"))
    return {
        (row["network"], row["band"]): (row.number("median"), row.number("within_band"), int(row.number("machines")))
        for row in rows
    }


def interpolation_error_text(cluster: Cluster, sizes: Sequence[float]) -> str:
    """Return the error of interpolations between public machines, each left out, for some sizes in words."""
    network = "one node" if cluster.nodes == 1 else cluster.network
    parts = []
    for name in dict.fromkeys(map(size_class, sizes)):
        median, within, machines = _interpolation_errors().get((network, name), (float("nan"), 0.0, 0))
        count = "1 machine" if machines == 1 else f"{machines} machines"
        held = f"{100 * within:.0f} % of times within 15 %"
        parts.append(f"{100 * median:.3g} % {name} ({count}, {held})" if machines else f"unknown {name}")
    return f"expected error of the interpolation, each public machine left out (median): {', '.join(parts)}"


class MedianError(NamedTuple):
    """Error of the median of public machines of a class of nodes in a band of sizes, each left out."""

    band: str
    median: float
    machines: int


@cache
def _median_errors() -> tuple[MedianError, ...]:
    columns = ("band", "machines", "rows", "median", "worst")
    rows = read_csv(published() / "collectives" / "class_errors.csv", columns)
    return tuple(MedianError(row["band"], row.number("median"), int(row.number("machines"))) for row in rows)


def median_errors(sizes: Sequence[float]) -> list[MedianError]:
    """Return the errors of medians in the bands of some sizes.

    >>> [one.band for one in median_errors([2.0**23, 2.0**30, 2.0**33])]
    ['4 to 32 MiB', 'from 512 MiB']
    """
    bands = [band for band, (low, high) in MEDIAN_BANDS.items() if any(low <= size < high for size in sizes)]
    return [one for one in _median_errors() if one.band in bands]


def cluster_error(cluster: Cluster, operation: Operation, size_bytes: float) -> ClusterError | None:
    """Return the error of a class; None if no public machine has it.

    None uses fewer GPUs than cards, and those over Slingshot have a card for each GPU.
    """
    shares_cards = cluster.nodes > 1 and cluster.network == SLINGSHOT and cluster.cards < cluster.gpus
    if cluster.has_more_cards_than_gpus or shares_cards or (cluster.nodes > 1 and operation in UNMEASURED):
        return None
    names = cluster_class(cluster), operation_class(operation)
    error = _errors().get((*names, size_class(size_bytes)))
    largest = _errors().get((*names, LARGEST_SIZES)) if size_bytes >= LARGEST_BYTES else None
    if error is None or largest is None:
        return error
    return replace(error, shortest=largest.shortest, longest=largest.longest, coverage=largest.coverage)


def most_public_nodes(cluster: Cluster, operation: Operation) -> int:
    """Return the largest number of nodes of the public machines whose error is that of a cluster.

    >>> from fabricast.collectives.clusters.cluster import node_of
    >>> from dataclasses import replace
    >>> most_public_nodes(replace(node_of("hgx_h100"), nodes=32), Operation.ALL_REDUCE)
    10
    """
    wanted = cluster_class(cluster), operation_class(operation)
    found = [
        case.cluster.nodes
        for case in public_cases()
        if (cluster_class(case.cluster), operation_class(case.operation)) == wanted
    ]
    return max(found, default=0)


def many_nodes_range(cluster: Cluster, operation: Operation, size_bytes: float) -> ClusterError | None:
    """Return the range of measured to forecast times: above 64 nodes that of both classes, which is the wider one."""
    own = cluster_error(cluster, operation, size_bytes)
    if cluster.nodes <= MANY_NODES:
        return own
    wanted = operation_class(operation), size_class(size_bytes)
    many = [one for (name, *rest), one in _errors().items() if MANY_NODES_WORDS in name and tuple(rest) == wanted]
    fewer = cluster_error(replace(cluster, nodes=MANY_NODES), operation, size_bytes)
    found = [one for one in (own, *many, fewer) if one is not None]
    if not found:
        return None
    shortest, longest = min(one.shortest for one in found), max(one.longest for one in found)
    return replace(found[0], shortest=shortest, longest=longest)
