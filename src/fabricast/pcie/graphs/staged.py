"""Copies staged through host memory, for GPUs without peer access."""

from __future__ import annotations

import numpy as np

from fabricast.core.errors import InputError
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.topology.memory import nearest_memory
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["staged_graphs"]

#: Program of staged copies: both halves of a copy run at the same time, chunk by chunk.
_PROGRAM = "independent"


def staged_graphs(tree: PcieTree, graphs: CongestionGraphs) -> CongestionGraphs:
    """Return graphs in which each copy between GPUs passes through host memory next to its target.

    The driver copies chunk by chunk, so that the copy to host memory and the copy from it overlap: copy number c of the
    result is copies 2 c and 2 c + 1. The slower half determines the time.

    Parameters
    ----------
    tree : PcieTree
        Topology with host memory as endpoints.
    graphs : CongestionGraphs
        Copies between GPUs.

    Raises
    ------
    InputError
        If a copy has host memory at one end.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_arcs
    >>> from fabricast.pcie.topology.memory import with_host_memory
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = with_host_memory(regular_tree("flat4x2", (2, 4)))
    >>> staged = staged_graphs(tree, from_arcs([[(0, 1)]], size_bytes=1e6))
    >>> list(zip(staged.source.tolist(), staged.target.tolist()))
    [(0, 8), (8, 1)]
    """
    memory = nearest_memory(tree)
    is_memory = np.array([tree.vertex(name).host_memory for name in tree.endpoint_names])
    if (is_memory[graphs.source] | is_memory[graphs.target]).any():
        raise InputError("is staged for copies of host memory, expected copies between GPUs", argument="transport")
    between = memory[graphs.target]
    return CongestionGraphs(
        graphs.names, graphs.families, graphs.offset * 2,
        np.column_stack([graphs.source, between]).reshape(-1), np.column_stack([between, graphs.target]).reshape(-1),
        np.repeat(graphs.size_bytes, 2), np.repeat(graphs.start_s, 2), (_PROGRAM,) * len(graphs),
    )  # fmt: skip
