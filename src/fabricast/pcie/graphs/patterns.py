"""Communications whose order is free: halo exchanges and patterns of the user."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import read_csv
from fabricast.pcie.graphs.congestion_graphs import Arc
from fabricast.pcie.graphs.files import read_ends
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["Pattern", "halo_pattern", "read_pattern"]


@dataclass(frozen=True)
class Pattern:
    """Communications whose order is free, grouped by source.

    Parameters
    ----------
    name : str
        What it is.
    targets : tuple of tuple of int
        Targets of each endpoint, in naive order; endpoints that send nothing have none.
    size_bytes : tuple of tuple of float
        Size of each of these communications.

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
        """Number of schedules."""
        return math.prod(math.factorial(len(own)) for own in self.targets)

    @cached_property
    def arcs(self) -> list[Arc]:
        """All communications, by source and then in naive order."""
        return [(source, target) for source, own in enumerate(self.targets) for target in own]

    @cached_property
    def steps(self) -> int:
        """Number of steps: the most sends of one source."""
        return max(len(own) for own in self.targets)


def halo_pattern(grid: Sequence[int], endpoints: int, *, size_bytes: float | Sequence[float]) -> Pattern:
    """Return the halo exchange of a process grid, one process an endpoint, without wrap-around.

    Parameters
    ----------
    grid : sequence of int
        Extent of each axis; the first runs fastest, so 4 x 2 has the rows 0 1 2 3 and 4 5 6 7.
    endpoints : int
        Endpoints of the topology.
    size_bytes : float or sequence of float
        Size of each communication, or of those along each axis.

    Returns
    -------
    Pattern
        Sends to the neighbours of each process.

    Raises
    ------
    InputError
        If the grid does not fit.

    Examples
    --------
    >>> halo_pattern((4, 2), 8, size_bytes=1.0).targets[5]
    (4, 6, 1)
    """
    processes = math.prod(grid)
    if not grid or min(grid) < 1 or not 2 <= processes <= endpoints:
        shown = "x".join(map(str, grid))
        raise InputError(f"halo grid is {shown}, expected positive extents and 2 to {endpoints} processes")
    sizes = [float(size_bytes)] * len(grid) if isinstance(size_bytes, int | float) else [float(s) for s in size_bytes]
    if len(sizes) != len(grid) or not all(0 < size < math.inf for size in sizes):
        raise InputError(f"sizes are {sizes}, expected one positive number for each of {len(grid)} axes")
    targets: list[tuple[int, ...]] = []
    volumes: list[tuple[float, ...]] = []
    strides = [math.prod(grid[:axis]) for axis in range(len(grid))]
    for process in range(endpoints):
        own = []
        if process < processes:
            for axis, (extent, stride) in enumerate(zip(grid, strides, strict=True)):
                place = process // stride % extent
                own += [(process + move * stride, sizes[axis]) for move in (-1, 1) if 0 <= place + move < extent]
        targets.append(tuple(target for target, _ in own))
        volumes.append(tuple(size for _, size in own))
    return Pattern(f"halo {'x'.join(map(str, grid))}", tuple(targets), tuple(volumes))


def read_pattern(path: Path | str, tree: PcieTree, *, size_bytes: float) -> Pattern:
    """Read communications whose order is free from CSV.

    Parameters
    ----------
    path : Path or str
        File with the columns ``source,target[,size_bytes]``.
    tree : PcieTree
        Topology that the names belong to.
    size_bytes : float
        Size where the file has no such column.

    Returns
    -------
    Pattern
        The communications by source, in file order.

    Raises
    ------
    InputError
        On the first row that is wrong.
    """
    targets: list[list[int]] = [[] for _ in tree.endpoint_names]
    sizes: list[list[float]] = [[] for _ in tree.endpoint_names]
    for row in read_csv(path, ("source", "target"), ("size_bytes",)):
        source, target, size = read_ends(row, tree, size_bytes=size_bytes)
        if target in targets[source]:
            raise row.error(f"repeats {row['source']} to {row['target']}, expected each pair once")
        targets[source].append(target)
        sizes[source].append(size)
    return Pattern(Path(path).stem, tuple(map(tuple, targets)), tuple(map(tuple, sizes)))
