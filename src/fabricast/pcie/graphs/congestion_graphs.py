"""Congestion graphs: sets of copies on one topology, stored as arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError, unknown_name
from fabricast.core.quantities import LARGEST_BYTES, SMALLEST_BYTES
from fabricast.pcie.graphs.programs import PROGRAMS

__all__ = [
    "MOST_COPIES",
    "OPTIONAL",
    "REQUIRED",
    "CongestionGraphs",
    "Pair",
    "all_to_all",
    "from_pairs",
    "gather",
    "joined",
    "scatter",
]

Pair = tuple[int, int]

#: Maximum number of copies of one graph: the time of a forecast grows with its square.
MOST_COPIES = 4096
#: Sizes in bytes and start times in s beyond these are typing errors.
LATEST_START_S = 1e6


@dataclass(frozen=True)
class CongestionGraphs:
    """Set of congestion graphs on one topology, stored as arrays.

    A congestion graph is a set of copies between the endpoints of a PCIe tree that compete for its links. The copies of
    all graphs are stored one graph after the other; `offset` delimits the graphs. The SC16 paper calls a copy a
    communication, as do some attribute and column names.

    Parameters
    ----------
    names : tuple of str
        Name of each graph.
    families : tuple of str
        Family of each graph.
    offset : ndarray of int64, shape (graphs + 1,)
        Index of the first copy of each graph, followed by the number of copies.
    source, target : ndarray of int64, shape (copies,)
        Endpoint numbers.
    size_bytes, start_s : ndarray of float64, shape (copies,)
        Size of each copy in bytes and its start time in seconds from the start of the graph.
    programs : tuple of str, default ()
        Copy program of each graph, or ``''`` if unspecified. Empty tuple if no graph has one.

    Raises
    ------
    InputError
        If the arrays do not fit each other, or a copy has impossible endpoints, size or start time.
    """

    names: tuple[str, ...]
    families: tuple[str, ...]
    offset: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    size_bytes: NDArray[np.float64]
    start_s: NDArray[np.float64]
    programs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        offset, copies = self.offset, self.source.size
        for name in ("offset", "source", "target"):
            if getattr(self, name).dtype.kind != "i":
                raise InputError(f"{name} has elements of type {getattr(self, name).dtype}, expected integers")
        arrays = (self.source, self.target, self.size_bytes, self.start_s)
        if any(array.shape != (copies,) for array in arrays):
            sizes = ", ".join(str(array.size) for array in arrays)
            raise InputError(f"source, target, size_bytes and start_s have {sizes} elements, expected equal numbers")
        counts = {len(self.names), len(self.families), offset.size - 1, len(self.programs) or len(self.names)}
        if len(counts) > 1 or offset.size == 0 or offset[0] != 0 or offset[-1] != copies or (np.diff(offset) < 0).any():
            raise InputError(
                f"names, families, offset and programs do not delimit {copies} copies, expected one name and family "
                "per graph, and an offset that ascends from 0 to the number of copies"
            )
        unknown = sorted(set(self.programs) - {*PROGRAMS, ""})
        if unknown:
            raise unknown_name("program", unknown[0], PROGRAMS)
        lengths = np.diff(offset)
        if lengths.max(initial=0) > MOST_COPIES:
            largest = int(lengths.argmax())
            raise InputError(
                f"graph '{self.names[largest]}' has {lengths[largest]:,} copies, expected at most {MOST_COPIES:,}"
            )
        valid = (self.source >= 0) & (self.target >= 0) & (self.source != self.target)
        valid &= (self.size_bytes >= SMALLEST_BYTES) & (self.size_bytes <= LARGEST_BYTES)
        valid &= (self.start_s >= 0) & (self.start_s <= LATEST_START_S)
        if not valid.all():
            number = int(np.argmin(valid))
            graph = self.names[int(np.searchsorted(offset, number, side="right")) - 1]
            raise InputError(
                f"graph '{graph}' has a copy from {self.source[number]} to {self.target[number]} with size_bytes "
                f"{self.size_bytes[number]:g} and start_s {self.start_s[number]:g}, expected two different endpoints, "
                f"a size from {SMALLEST_BYTES:g} to {LARGEST_BYTES:g} and a start from 0 to {LATEST_START_S:g}"
            )

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        counts = ((len(self), "graph", "graphs"), (self.source.size, "copy", "copies"))
        return f"CongestionGraphs({', '.join(f'{n:,} {one if n == 1 else many}' for n, one, many in counts)})"

    def _repr_html_(self) -> str:
        from fabricast.pcie.graphs.drawing import graph_svg

        if not len(self):
            return f"<p>{escape(repr(self))}</p>"
        first = slice(self.offset[0], self.offset[1])
        copies = list(zip(self.source[first].tolist(), self.target[first].tolist(), strict=True))
        more = "" if len(self) == 1 else f", of which '{self.names[0]}' is drawn"
        return f"{graph_svg(self.names[0], copies)}<p>{escape(repr(self) + more)}</p>"

    @property
    def graph_of_communication(self) -> NDArray[np.int64]:
        """Index of the graph of each copy, shape (copies,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.offset))

    @property
    def number_in_graph(self) -> NDArray[np.int64]:
        """Index of each copy within its graph, counted from 0, shape (copies,)."""
        lengths = np.diff(self.offset)
        return np.arange(self.source.size) - np.repeat(self.offset[:-1], lengths)

    def rows_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of the copies of selected graphs, in the order of `numbers`."""
        lengths = np.diff(self.offset)[numbers]
        begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        rows: NDArray[np.int64] = np.arange(lengths.sum()) + np.repeat(self.offset[:-1][numbers] - begins, lengths)
        return rows

    def chosen(self, numbers: NDArray[np.int64]) -> CongestionGraphs:
        """Return the selected graphs as a new set, in the order of `numbers`."""
        rows = self.rows_of(numbers)
        return CongestionGraphs(
            names=tuple(self.names[number] for number in numbers),
            families=tuple(self.families[number] for number in numbers),
            offset=np.concatenate([[0], np.cumsum(np.diff(self.offset)[numbers])]).astype(np.int64),
            source=self.source[rows],
            target=self.target[rows],
            size_bytes=self.size_bytes[rows],
            start_s=self.start_s[rows],
            programs=tuple(self.programs[number] for number in numbers) if self.programs else (),
        )

    def pairs(self, graph: int) -> list[Pair]:
        """Return the (source, target) pairs of the graph with index `graph`."""
        rows = slice(int(self.offset[graph]), int(self.offset[graph + 1]))
        return list(zip(self.source[rows].tolist(), self.target[rows].tolist(), strict=True))


def from_pairs(
    graphs: Sequence[Sequence[Pair]],
    *,
    size_bytes: float,
    names: Sequence[str] | None = None,
    families: Sequence[str] | None = None,
) -> CongestionGraphs:
    """Build a set of graphs in which all copies have one size and start at time 0.

    Parameters
    ----------
    graphs : sequence of sequence of (int, int)
        (source, target) pairs of each graph.
    size_bytes : float
        Size of every copy in bytes.
    names, families : sequence of str, optional
        Name and family of each graph; by default ``"0"``, ``"1"``, ... and ``"user"``.

    Returns
    -------
    CongestionGraphs
        Set of graphs.

    Examples
    --------
    >>> graphs = from_pairs([[(0, 1)], [(0, 2), (1, 2)]], size_bytes=1e6)
    >>> len(graphs), graphs.source.size
    (2, 3)
    """
    lengths = [len(pairs) for pairs in graphs]
    copies = np.array(list(itertools.chain.from_iterable(graphs)), dtype=np.int64).reshape(-1, 2)
    return CongestionGraphs(
        names=tuple(names) if names is not None else tuple(str(i) for i in range(len(graphs))),
        families=tuple(families) if families is not None else ("user",) * len(graphs),
        offset=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        source=copies[:, 0].copy(),
        target=copies[:, 1].copy(),
        size_bytes=np.full(len(copies), size_bytes, dtype=np.float64),
        start_s=np.zeros(len(copies), dtype=np.float64),
    )


def joined(parts: Sequence[CongestionGraphs]) -> CongestionGraphs:
    """Return the graphs of several sets as one set, in their order.

    Parameters
    ----------
    parts : sequence of CongestionGraphs
        One or more sets. Either all or none of them define `programs`.

    Returns
    -------
    CongestionGraphs
        Graphs of all sets.

    Examples
    --------
    >>> one, other = from_pairs([[(0, 1)]], size_bytes=1e6), from_pairs([[(0, 2), (1, 2)]], size_bytes=1e6)
    >>> joined([one, other, one]).offset
    array([0, 1, 3, 4])
    """
    lengths = np.concatenate([np.diff(part.offset) for part in parts])
    return CongestionGraphs(
        names=tuple(name for part in parts for name in part.names),
        families=tuple(family for part in parts for family in part.families),
        offset=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        source=np.concatenate([part.source for part in parts]),
        target=np.concatenate([part.target for part in parts]),
        size_bytes=np.concatenate([part.size_bytes for part in parts]),
        start_s=np.concatenate([part.start_s for part in parts]),
        programs=tuple(program for part in parts for program in part.programs),
    )


def scatter(root: int, others: Iterable[int]) -> list[Pair]:
    """Return one copy from `root` to each of `others`, except to `root` itself.

    Examples
    --------
    >>> scatter(0, [1, 2])
    [(0, 1), (0, 2)]
    """
    return [(root, target) for target in others if target != root]


def gather(root: int, others: Iterable[int]) -> list[Pair]:
    """Return one copy to `root` from each of `others`, except from `root` itself.

    Examples
    --------
    >>> gather(0, [1, 2])
    [(1, 0), (2, 0)]
    """
    return [(source, root) for source in others if source != root]


def all_to_all(members: Iterable[int]) -> list[Pair]:
    """Return one copy for each ordered pair of different `members`.

    Examples
    --------
    >>> all_to_all([0, 1])
    [(0, 1), (1, 0)]
    """
    return list(itertools.permutations(members, 2))


#: Required and optional columns of files with congestion graphs.
REQUIRED = ("graph", "source", "target")
OPTIONAL = ("size_bytes", "start_s")
