"""Congestion graphs: communications on one topology, as arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["OPTIONAL", "REQUIRED", "Arc", "CongestionGraphs", "all_to_all", "from_arcs", "gather", "joined", "scatter"]

Arc = tuple[int, int]


@dataclass(frozen=True)
class CongestionGraphs:
    """A set of congestion graphs on one topology, as arrays.

    Parameters
    ----------
    names : tuple of str
        Name of each graph.
    families : tuple of str
        Family of each graph.
    offset : ndarray of int64, shape (graphs + 1,)
        Where each graph starts in the arrays of communications.
    source, target : ndarray of int64, shape (communications,)
        Endpoint numbers.
    size_bytes, start_s : ndarray of float64, shape (communications,)
        Size and start of each communication.
    programs : tuple of str, default ()
        Name of the program that copies each graph, empty where none is told; nothing if none is of any graph.
    """

    names: tuple[str, ...]
    families: tuple[str, ...]
    offset: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    size_bytes: NDArray[np.float64]
    start_s: NDArray[np.float64]
    programs: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def graph_of_communication(self) -> NDArray[np.int64]:
        """Number of the graph that each communication belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.offset))

    @property
    def number_in_graph(self) -> NDArray[np.int64]:
        """Number of each communication within its graph, from 0."""
        lengths = np.diff(self.offset)
        return np.arange(self.source.size) - np.repeat(self.offset[:-1], lengths)

    def rows_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the communications of some graphs, in the order in which the graphs are named."""
        lengths = np.diff(self.offset)[numbers]
        begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        rows: NDArray[np.int64] = np.arange(lengths.sum()) + np.repeat(self.offset[:-1][numbers] - begins, lengths)
        return rows

    def chosen(self, numbers: NDArray[np.int64]) -> CongestionGraphs:
        """Return some of the graphs, in the order in which they are named."""
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

    def arcs(self, graph: int) -> list[Arc]:
        """Return the (source, target) pairs of graph number `graph`."""
        part = slice(int(self.offset[graph]), int(self.offset[graph + 1]))
        return list(zip(self.source[part].tolist(), self.target[part].tolist(), strict=True))


def from_arcs(
    graphs: Sequence[Sequence[Arc]],
    *,
    size_bytes: float,
    names: Sequence[str] | None = None,
    families: Sequence[str] | None = None,
) -> CongestionGraphs:
    """Build a set of graphs whose communications start together with equal sizes.

    Parameters
    ----------
    graphs : sequence of sequence of (int, int)
        (source, target) pairs of each graph.
    size_bytes : float
        Size of every communication.
    names, families : sequence of str, optional
        One per graph; numbers and ``"user"`` if left out.

    Returns
    -------
    CongestionGraphs
        The set.

    Examples
    --------
    >>> graphs = from_arcs([[(0, 1)], [(0, 2), (1, 2)]], size_bytes=1e6)
    >>> len(graphs), graphs.source.size
    (2, 3)
    """
    lengths = [len(arcs) for arcs in graphs]
    pairs = np.array(list(itertools.chain.from_iterable(graphs)), dtype=np.int64).reshape(-1, 2)
    return CongestionGraphs(
        names=tuple(names) if names is not None else tuple(str(i) for i in range(len(graphs))),
        families=tuple(families) if families is not None else ("user",) * len(graphs),
        offset=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        source=pairs[:, 0].copy(),
        target=pairs[:, 1].copy(),
        size_bytes=np.full(len(pairs), size_bytes, dtype=np.float64),
        start_s=np.zeros(len(pairs), dtype=np.float64),
    )


def joined(parts: Sequence[CongestionGraphs]) -> CongestionGraphs:
    """Return the graphs of several sets as one set, in their order.

    Parameters
    ----------
    parts : sequence of CongestionGraphs
        At least one; of all of them, or of none, programs are told.

    Returns
    -------
    CongestionGraphs
        All graphs.

    Examples
    --------
    >>> one, other = from_arcs([[(0, 1)]], size_bytes=1e6), from_arcs([[(0, 2), (1, 2)]], size_bytes=1e6)
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


def scatter(root: int, others: Iterable[int]) -> list[Arc]:
    """Return one copy from `root` to each of `others`.

    Examples
    --------
    >>> scatter(0, [1, 2])
    [(0, 1), (0, 2)]
    """
    return [(root, other) for other in others if other != root]


def gather(root: int, others: Iterable[int]) -> list[Arc]:
    """Return one copy to `root` from each of `others`.

    Examples
    --------
    >>> gather(0, [1, 2])
    [(1, 0), (2, 0)]
    """
    return [(other, root) for other in others if other != root]


def all_to_all(members: Iterable[int]) -> list[Arc]:
    """Return one copy between each ordered pair of `members`.

    Examples
    --------
    >>> all_to_all([0, 1])
    [(0, 1), (1, 0)]
    """
    return list(itertools.permutations(members, 2))


REQUIRED = ("graph", "source", "target")
OPTIONAL = ("size_bytes", "start_s")
