"""Copy patterns whose order is free: halo exchanges and user-defined patterns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import read_csv
from fabricast.pcie.graphs.congestion_graphs import Pair
from fabricast.pcie.graphs.files import read_ends
from fabricast.pcie.topology.tree import PcieTree


@dataclass(frozen=True)
class Pattern:
    """Copies whose order is free, grouped by source.

    A schedule is an order of the copies of each source. The naive schedule is the order in which the copies are listed.

    Parameters
    ----------
    name : str
        Name of the pattern.
    targets : tuple of tuple of int
        Targets of each endpoint in naive order; empty for endpoints that do not send.
    size_bytes : tuple of tuple of float
        Size of each of these copies in bytes.

    Examples
    --------
    >>> pattern = halo_pattern((2, 2, 2), 8, size_bytes=1.0)
    >>> pattern.schedules
    1679616
    >>> halo_pattern((4, 2), 8, size_bytes=1.0).schedules
    20736
    """

    name: str
    targets: tuple[tuple[int, ...], ...]
    size_bytes: tuple[tuple[float, ...], ...]

    @cached_property
    def schedules(self) -> int:
        """Number of schedules: the product of the number of orders of each source."""
        return math.prod(math.factorial(len(targets)) for targets in self.targets)

    @cached_property
    def pairs(self) -> list[Pair]:
        """All copies as (source, target), by source and then in naive order."""
        return [(source, target) for source, targets in enumerate(self.targets) for target in targets]

    @cached_property
    def steps(self) -> int:
        """Number of steps: the largest number of copies of one source."""
        return max(len(targets) for targets in self.targets)


def halo_pattern(grid: Sequence[int], endpoints: int, *, size_bytes: float | Sequence[float]) -> Pattern:
    """Return the halo exchange of a process grid without periodic boundaries.

    Process k uses endpoint k and sends to its neighbours along each axis.

    >>> halo_pattern((4, 2), 8, size_bytes=1.0).targets[5]
    (4, 6, 1)
    """
    processes = math.prod(grid)
    if not grid or min(grid) < 1 or not 2 <= processes <= endpoints:
        shown = "x".join(map(str, grid))
        most = f" to {endpoints}" if endpoints > 2 else ""
        few = f"; the topology has {endpoints} GPU" if endpoints < 2 else ""
        raise InputError(f"halo grid is {shown}, expected positive extents and 2{most} processes{few}")
    sizes = [float(size_bytes)] * len(grid) if isinstance(size_bytes, int | float) else [float(s) for s in size_bytes]
    if len(sizes) != len(grid) or not all(0 < size < math.inf for size in sizes):
        raise InputError(f"sizes are {sizes}, expected one positive number for each of {len(grid)} axes")
    targets: list[tuple[int, ...]] = []
    volumes: list[tuple[float, ...]] = []
    strides = [math.prod(grid[:axis]) for axis in range(len(grid))]
    for process in range(endpoints):
        neighbours = []
        if process < processes:
            for axis, (extent, stride) in enumerate(zip(grid, strides, strict=True)):
                coordinate = process // stride % extent
                neighbours += [
                    (process + move * stride, sizes[axis]) for move in (-1, 1) if 0 <= coordinate + move < extent
                ]
        targets.append(tuple(target for target, _ in neighbours))
        volumes.append(tuple(size for _, size in neighbours))
    return Pattern(f"halo {'x'.join(map(str, grid))}", tuple(targets), tuple(volumes))


def read_pattern(path: Path | str, tree: PcieTree, *, size_bytes: float) -> Pattern:
    """Read a pattern of copies whose order is free from a CSV file."""
    targets: list[list[int]] = [[] for _ in tree.endpoint_names]
    sizes: list[list[float]] = [[] for _ in tree.endpoint_names]
    for row in read_csv(path, ("source", "target"), ("size_bytes",)):
        source, target, size = read_ends(row, tree, size_bytes=size_bytes)
        if target in targets[source]:
            raise row.error(f"repeats {row['source']} to {row['target']}, expected each pair once")
        targets[source].append(target)
        sizes[source].append(size)
    return Pattern(Path(path).stem, tuple(map(tuple, targets)), tuple(map(tuple, sizes)))
