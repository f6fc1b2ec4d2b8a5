"""Communication patterns of tasks on grids, generated on the fly, and the users' matrices."""

from __future__ import annotations

import io
import itertools
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.files import read_bytes, read_text

__all__ = ["BLOCKS", "EXAMPLE_GRID", "Workload", "blocks_of", "multicast", "read_matrix", "stencil"]

_LARGEST_TASKS = 2**22


@dataclass(frozen=True)
class Workload:
    """Every task of a grid sends one message to each of its neighbours.

    Parameters
    ----------
    name : str
        Identifier.
    grid : tuple of int
        Tasks in each direction, the last fastest.
    offsets : tuple of tuple of int
        Neighbours as differences of coordinates.
    size_bytes : float
        Bytes of each message.
    wrap : bool, default True
        Whether the grid is a torus.
    random_targets : int, default 0
        Targets drawn evenly among all tasks instead of neighbours.
    """

    name: str
    grid: tuple[int, ...]
    offsets: tuple[tuple[int, ...], ...]
    size_bytes: float
    wrap: bool = True
    random_targets: int = 0

    def __post_init__(self) -> None:
        if not self.grid or min(self.grid) < 1 or self.tasks > _LARGEST_TASKS:
            raise InputError(f"grid of '{self.name}' is {self.grid}, expected 1 to {_LARGEST_TASKS:,} tasks")
        if any(len(offset) != len(self.grid) for offset in self.offsets):
            raise InputError(f"offsets of '{self.name}' have other dimensions than its grid")
        if not 0 < self.size_bytes < float("inf"):
            raise InputError(f"size_bytes of '{self.name}' is {self.size_bytes}, expected a positive number")

    @property
    def tasks(self) -> int:
        """Tasks of the grid."""
        return int(np.prod(self.grid))

    @property
    def messages(self) -> int:
        """Messages of a step on a torus; an upper bound without wrap-around."""
        return self.tasks * (self.random_targets or len(self.offsets))

    @property
    def is_mutual(self) -> bool:
        """Whether each message to another task is answered by one: each neighbour has an opposite one.

        Examples
        --------
        >>> stencil("2D", (4, 4), 1.0).is_mutual
        True
        >>> Workload("shift", (4,), ((1,),), 1.0).is_mutual
        False
        """
        opposite = Counter(tuple(-step for step in offset) for offset in self.offsets)
        return opposite == Counter(self.offsets) and (0,) * len(self.grid) not in opposite and not self.random_targets

    def tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return what the kernel reads: grid, offsets, and the stride of each dimension.

        Of two opposite neighbours, one where all are mutual: the message back is counted with it.
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
    """Return a stencil: one neighbour each way in every direction.

    Examples
    --------
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
    """Return a multicast of each task to 14 targets, as 14 messages.

    Parameters
    ----------
    name : str
        Identifier.
    grid : tuple of int
        Three dimensions for ``half``; otherwise all tasks stand in a row.
    size_bytes : float
        Bytes of each message.
    targets : {'half', 'near', 'rand', 'stride'}
        The forward half of the 26 neighbours and (0, 0, 2); ranks within 7; 14 random ones; seven
        strides either way. [assumed]
    stride : int, default 1024
        Distance of ``stride``.
    wrap : bool, default True
        Whether the grid is a torus.

    Returns
    -------
    Workload
        The pattern.
    """
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


#: Nodes of the talk's example on two supernodes.
EXAMPLE_GRID = (16, 4)

#: Shapes of blocks that fill a node, a drawer and a supernode of PERCS, by dimensions. [assumed]
BLOCKS = {
    2: ((4, 8), (16, 16), (32, 32)),
    3: ((2, 4, 4), (4, 8, 8), (8, 8, 16)),
    4: ((2, 2, 2, 4), (4, 4, 4, 4), (4, 4, 8, 8)),
}


def blocks_of(grid: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of node, drawer and supernode blocks of a grid.

    Raises
    ------
    InputError
        If the blocks do not divide the grid.

    Examples
    --------
    >>> blocks_of((16, 16, 16, 16))[0]
    (2, 2, 2, 4)
    """
    if len(grid) not in BLOCKS:
        raise InputError(f"grid {grid} has {len(grid)} dimensions, expected 2, 3 or 4 for blocks")
    for block in BLOCKS[len(grid)]:
        if any(side % part for side, part in zip(grid, block, strict=True)):
            raise InputError(f"grid {grid} is not divided by blocks of {block}")
    return BLOCKS[len(grid)]


def read_matrix(path: Path | str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    """Read bytes between ranks from a square CSV matrix, a CSV list, or MatrixMarket.

    Parameters
    ----------
    path : Path or str
        ``.mtx``; or one row of numbers a rank, with commas or blanks; or CSV with the header
        ``source,target,size_bytes``.

    Returns
    -------
    (ndarray of int64, ndarray of int64, ndarray of float64, int)
        Source, target and bytes of every pair that communicates, and the number of ranks.

    Raises
    ------
    InputError
        If the file is not as expected.
    """
    path = Path(path)
    if path.suffix.lower() == ".mtx":
        return _read_matrix_market(path)
    lines = [line for line in read_text(path, strict=True).splitlines() if line.strip() and not line.startswith("#")]
    if lines and "source" in lines[0]:
        return _read_pairs(path)
    # CommBench prints rows of numbers with blanks between, others commas.
    separator = "," if lines and "," in lines[0] else None
    widths = sorted({len(line.split(separator)) for line in lines[:_LARGEST_MATRIX]})
    if len(lines) > _LARGEST_MATRIX or widths != [len(lines)]:
        raise InputError(
            f"has {len(lines):,} rows of {', '.join(map(str, widths[:3]))} numbers, expected a square matrix of at "
            f"most {_LARGEST_MATRIX:,} ranks, or the header source,target,size_bytes",
            path=path,
        )
    if any("_" in line for line in lines):
        raise InputError("is no matrix of numbers: holds '_'", path=path)
    try:
        dense = np.array([line.split(separator) for line in lines], dtype=np.float64)
    except ValueError as error:
        raise InputError(f"is no matrix of numbers: {error}", path=path) from error
    source, target = np.nonzero(dense)
    return _communication(source.astype(np.int64), target.astype(np.int64), dense[source, target], len(dense), path)


def _read_pairs(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    rows = read_csv(path, ("source", "target", "size_bytes"))
    table = np.array([[r.number("source"), r.number("target"), r.number("size_bytes")] for r in rows])
    ends = table[:, :2]
    wrong = ((ends < 0) | (ends != np.round(ends)) | (ends >= _LARGEST_TASKS)).any(axis=1)
    wrong |= (table[:, 2] < 0) | (table[:, 2] > _LARGEST_BYTES)
    if wrong.any():
        raise rows[int(np.argmax(wrong))].error(
            f"expected ranks that are whole numbers from 0 to {_LARGEST_TASKS - 1:,}, and 0 to {_LARGEST_BYTES:g} bytes"
        )
    source, target = ends.astype(np.int64).T
    return _communication(source, target, table[:, 2], int(ends.max()) + 1, path)


#: Ranks of a dense matrix; larger ones are given as pairs.
_LARGEST_MATRIX = 8192
_LARGEST_PAIRS = 20_000_000
#: More bytes between two ranks are a typing error.
_LARGEST_BYTES = 1e18


def _read_matrix_market(
    path: Path,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    # Here, as every start of Snakemake would wait for it.
    from scipy.io import mminfo, mmread
    from scipy.sparse import coo_array

    content = read_bytes(path)
    try:
        rows, columns, entries, _, field, _ = mminfo(io.BytesIO(content))
        if rows != columns:
            raise InputError(f"has the shape {rows:,} x {columns:,}, expected as many columns as rows", path=path)
        if field in ("complex", "pattern"):
            raise InputError(f"is a {field} matrix, expected real or integer bytes", path=path)
        dense = content[:200].split(b"\n")[0].split()[2:3] == [b"array"]
        if rows > (_LARGEST_MATRIX if dense else _LARGEST_TASKS) or entries > _LARGEST_PAIRS:
            raise InputError(
                f"declares {rows:,} ranks with {entries:,} entries, expected at most "
                f"{_LARGEST_MATRIX if dense else _LARGEST_TASKS:,} ranks and {_LARGEST_PAIRS:,} entries",
                path=path,
            )
        matrix = coo_array(mmread(io.BytesIO(content)))
        size = matrix.data.astype(np.float64)
    except InputError:
        raise
    except (ValueError, TypeError, OverflowError, IndexError, LookupError, MemoryError) as error:
        raise InputError(f"is no MatrixMarket file: {error or type(error).__name__}", path=path) from error
    source, target = (ends.astype(np.int64) for ends in matrix.coords)
    return _communication(source, target, size, int(rows), path)


def _communication(
    source: NDArray[np.int64], target: NDArray[np.int64], size: NDArray[np.float64], ranks: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    """Return what is sent between different ranks, once it is checked."""
    if not ((size >= 0) & (size <= _LARGEST_BYTES)).all():
        raise InputError(f"holds bytes that are negative, missing or beyond {_LARGEST_BYTES:g}", path=path)
    return _without_self(source, target, size, ranks, path)


def _without_self(
    source: NDArray[np.int64], target: NDArray[np.int64], size: NDArray[np.float64], ranks: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    keep = (source != target) & (size > 0)
    if not keep.any():
        raise InputError("holds no communication between different ranks", path=path)
    return source[keep], target[keep], size[keep], ranks
