"""Communication patterns of tasks on grids."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError

#: Upper limit of the number of tasks, well above the largest machine of the study.
LARGEST_TASKS = 2**22


@dataclass(frozen=True)
class Workload:
    """Pattern in which every task of a grid sends one message to each neighbour."""

    name: str  # Identifier of the workload
    grid: tuple[int, ...]  # Number of tasks in each dimension, last dimension fastest
    offsets: tuple[tuple[int, ...], ...]  # Coordinate differences of the neighbours
    size_bytes: float  # Bytes of each message
    wrap: bool = True  # Whether the grid is a torus
    random_targets: int = 0  # Number of targets drawn uniformly from all tasks; replaces the neighbours

    def __post_init__(self) -> None:
        if not self.grid or min(self.grid) < 1 or self.tasks > LARGEST_TASKS:
            raise InputError(f"grid of '{self.name}' is {self.grid}, expected 1 to {LARGEST_TASKS:,} tasks")
        if any(len(offset) != len(self.grid) for offset in self.offsets):
            raise InputError(f"dimensions of offsets and grid of '{self.name}' differ, expected equal numbers")
        if not 0 < self.size_bytes < float("inf"):
            raise InputError(f"size_bytes of '{self.name}' is {self.size_bytes}, expected a positive number")

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return int(np.prod(self.grid))

    @property
    def messages(self) -> int:
        """Number of messages per step on a torus; an upper bound for an open grid."""
        return self.tasks * (self.random_targets or len(self.offsets))

    @property
    def is_mutual(self) -> bool:
        """True if each message has a counterpart in the reverse direction.

        Each offset then has a counterpart with all signs reversed.

        >>> stencil("2D", (4, 4), 1.0).is_mutual
        True
        >>> Workload("shift", (4,), ((1,),), 1.0).is_mutual
        False
        """
        opposite = Counter(tuple(-step for step in offset) for offset in self.offsets)
        return opposite == Counter(self.offsets) and (0,) * len(self.grid) not in opposite and not self.random_targets

    def tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return grid, offsets and strides as arrays for the kernel.

        If all messages are mutual, only one offset of each pair is returned, because the kernel counts the
        message in the reverse direction with it.
        """
        mutual = self.is_mutual
        offsets = [one for one in self.offsets if not mutual or one > tuple(-step for step in one)]
        strides = np.cumprod([1, *self.grid[:0:-1]])[::-1]
        return (
            np.array(self.grid, dtype=np.int64),
            np.array(offsets, dtype=np.int64).reshape(len(offsets), len(self.grid)),
            np.ascontiguousarray(strides, dtype=np.int64),
        )


def stencil(name: str, grid: tuple[int, ...], size_bytes: float, *, wrap: bool = True) -> Workload:
    """Return a stencil with two neighbours in each dimension.

    >>> stencil("2D", (4, 4), 1.0).messages
    64
    """
    offsets = []
    for axis in range(len(grid)):
        for step in (-1, 1):
            offset = [0] * len(grid)
            offset[axis] = step
            offsets.append(tuple(offset))
    return Workload(name, grid, tuple(offsets), size_bytes, wrap)


def multicast(
    name: str, grid: tuple[int, ...], size_bytes: float, *, targets: str = "half", stride: int = 1024, wrap: bool = True
) -> Workload:
    """Return a multicast from each task to 14 targets, sent as 14 messages."""
    if targets == "half":
        if len(grid) != 3:
            raise InputError(f"grid of '{name}' is {grid}, expected three dimensions for half")
        forward = [o for o in itertools.product((-1, 0, 1), repeat=3) if o > (0, 0, 0)]
        return Workload(name, grid, (*forward, (0, 0, 2)), size_bytes, wrap)
    row = (int(np.prod(grid)),)
    if targets == "rand":
        return Workload(name, row, (), size_bytes, wrap, random_targets=14)
    if targets in ("near", "stride"):
        step = 1 if targets == "near" else stride
        offsets = tuple((sign * k * step,) for k in range(1, 8) for sign in (-1, 1))
        return Workload(name, row, offsets, size_bytes, wrap)
    raise InputError(f"targets of '{name}' is '{targets}', expected half, near, rand or stride")


#: Node grid of the SC11 slide example on two supernodes.
EXAMPLE_GRID = (16, 4)

#: Shapes of blocks that fill a node, drawer and supernode of PERCS, by number of dimensions. [assumed]
BLOCKS = {
    2: ((4, 8), (16, 16), (32, 32)),
    3: ((2, 4, 4), (4, 8, 8), (8, 8, 16)),
    4: ((2, 2, 2, 4), (4, 4, 4, 4), (4, 4, 8, 8)),
}


def blocks_of(grid: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the node, drawer and supernode blocks of a grid.

    >>> blocks_of((16, 16, 16, 16))[0]
    (2, 2, 2, 4)
    """
    if len(grid) not in BLOCKS:
        raise InputError(f"grid {grid} has {len(grid)} dimensions, expected 2, 3 or 4 for blocks")
    for block in BLOCKS[len(grid)]:
        if any(side % part for side, part in zip(grid, block, strict=True)):
            raise InputError(f"grid is {grid}, expected sides divisible by those of block {block}")
    return BLOCKS[len(grid)]
