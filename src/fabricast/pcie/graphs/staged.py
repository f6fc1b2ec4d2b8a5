"""Copies staged through host memory, for GPUs without peer access."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError, unknown_name
from fabricast.core.resources import published
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.topology.memory import nearest_memory
from fabricast.pcie.topology.tree import PcieTree

#: Transports of a forecast.
TRANSPORTS = ("auto", "p2p", "staged")

#: Program of staged copies: both halves of a copy run at the same time, chunk by chunk.
_PROGRAM = "independent"


def staged_copies(tree: PcieTree, graphs: CongestionGraphs, transport: str) -> NDArray[np.bool_]:
    """Return which copies pass through host memory.

    Shapes: result (copies,).
    """
    if transport not in TRANSPORTS:
        raise unknown_name("transport", transport, TRANSPORTS)
    if transport != "auto":
        return np.full(graphs.source.size, transport == "staged")
    names = tree.endpoint_names
    table = np.array([[tree.transport(one, other) == "staged" for other in names] for one in names])
    known = (graphs.source < len(names)) & (graphs.target < len(names))
    chosen: NDArray[np.bool_] = np.zeros(graphs.source.size, dtype=np.bool_)
    chosen[known] = table[graphs.source[known], graphs.target[known]]
    return chosen


def staged_graphs(
    tree: PcieTree, graphs: CongestionGraphs, is_staged: NDArray[np.bool_] | None = None
) -> CongestionGraphs:
    """Return graphs in which copies between GPUs pass through host memory next to their target.

    The driver copies chunk by chunk, so that the copy to host memory and the copy from it overlap: a staged copy
    becomes two copies in a row, and the slower half determines the time.

    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.topology.memory import with_host_memory
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = with_host_memory(regular_tree("flat4x2", (2, 4)))
    >>> staged = staged_graphs(tree, from_pairs([[(0, 1)]], size_bytes=1e6))
    >>> list(zip(staged.source.tolist(), staged.target.tolist()))
    [(0, 8), (8, 1)]
    """
    memory = nearest_memory(tree)
    is_memory = np.array([tree.vertex(name).host_memory for name in tree.endpoint_names])
    ends_in_memory = is_memory[graphs.source] | is_memory[graphs.target]
    if (ends_in_memory if is_staged is None else ends_in_memory & is_staged).any():
        raise InputError("is staged for copies of host memory, expected copies between GPUs", argument="transport")
    between = memory[graphs.target]
    halves = np.full(graphs.source.size, 2) if is_staged is None else np.where(is_staged, 2, 1)
    last = np.cumsum(halves) - 1
    first = last - halves + 1
    source, target = np.repeat(graphs.source, halves), np.repeat(graphs.target, halves)
    target[first[halves == 2]] = between[halves == 2]
    source[last[halves == 2]] = between[halves == 2]
    offset = np.concatenate([[0], np.cumsum(halves)])[graphs.offset]
    return CongestionGraphs(
        graphs.names,
        graphs.families,
        offset,
        source,
        target,
        np.repeat(graphs.size_bytes, halves),
        np.repeat(graphs.start_s, halves),
        (_PROGRAM,) * len(graphs),
    )


@cache
def chunk_overhead_s() -> float:
    """Return the time in s that the driver needs for its chunks, per byte of a staged copy.

    It is the difference of the times per byte of staged and of direct single copies, the median over the pairs of
    ``config/published/pcie_staged_copies.csv`` whose direct copies are the faster ones.

    >>> 4e-12 < chunk_overhead_s() < 7e-12
    True
    """
    import pandas as pd

    table = pd.read_csv(published() / "pcie_staged_copies.csv", comment="#")
    times_s = 1e-9 / table["staged_gb_per_s"] - 1e-9 / table["direct_gb_per_s"]
    return float(times_s[times_s > 0].median())
