"""Copies in file order, before they are grouped into congestion graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.graphs.programs import PROGRAMS


@dataclass(frozen=True)
class GraphRows:
    """Copies in file order.

    `names` are the graph names in the order of their first rows, and `codes` the index of the graph of each row in
    `names`.
    """

    names: list[str]
    codes: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    size_bytes: NDArray[np.float64]
    start_s: NDArray[np.float64]
    #: Index of the program of each row in `PROGRAMS`, -1 if unspecified; None if the file has no such column.
    program: NDArray[np.int64] | None = None

    def grouped(self) -> CongestionGraphs:
        """Return the graphs in the order of their first rows, copies in file order."""
        in_order = (self.codes[1:] >= self.codes[:-1]).all()
        order = slice(None) if in_order else np.argsort(self.codes, kind="stable")
        return CongestionGraphs(
            names=tuple(self.names),
            families=("user",) * len(self.names),
            offset=np.concatenate([[0], np.cumsum(np.bincount(self.codes))]).astype(np.int64),
            source=self.source[order],
            target=self.target[order],
            size_bytes=self.size_bytes[order].astype(np.float64),
            start_s=self.start_s[order].astype(np.float64),
            programs=() if self.program is None else self._programs(self.program[order]),
        )

    def _programs(self, by_graph: NDArray[np.int64]) -> tuple[str, ...]:
        counts = np.bincount(self.codes)
        first = by_graph[np.cumsum(counts) - counts]
        several = np.flatnonzero(by_graph != np.repeat(first, counts))
        if several.size:
            graph = self.names[np.repeat(np.arange(len(counts)), counts)[several[0]]]
            raise InputError(f"graph '{graph}' names several programs, expected one")
        names = [*PROGRAMS, ""]
        return tuple(names[index] for index in first.tolist())

    def _some(self, names: list[str], rows: slice, first_code: int) -> GraphRows:
        return GraphRows(
            names,
            self.codes[rows] - first_code,
            self.source[rows],
            self.target[rows],
            self.size_bytes[rows],
            self.start_s[rows],
            None if self.program is None else self.program[rows],
        )

    def parted(self) -> tuple[GraphRows, GraphRows]:
        """Return the rows of all graphs except the last, and the rows of the last graph."""
        last = len(self.names) - 1
        begins = int(np.searchsorted(self.codes, last))
        return self._some(self.names[:last], slice(begins), 0), self._some(self.names[last:], slice(begins, None), last)

    def followed_by(self, later: GraphRows) -> GraphRows:
        """Return these rows followed by `later`.

        The first graph of `later` may continue the last graph of these rows.
        """
        same = later.names[0] == self.names[-1]
        codes = later.codes + len(self.names) - same
        program = None
        if self.program is not None and later.program is not None:
            program = np.concatenate([self.program, later.program])
        return GraphRows(
            self.names + later.names[same:],
            np.concatenate([self.codes, codes]),
            np.concatenate([self.source, later.source]),
            np.concatenate([self.target, later.target]),
            np.concatenate([self.size_bytes, later.size_bytes]),
            np.concatenate([self.start_s, later.start_s]),
            program,
        )
