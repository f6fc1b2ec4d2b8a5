"""Patterns of copies that collapsed on some hosts, and that no sharing model tells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.topology.tree import PcieTree

__all__ = ["DIVIDED_WRITES", "divided_writes", "divided_writes_text"]

#: What was seen of them, and where.
DIVIDED_WRITES = (
    "writes from one uplink to destinations behind different root ports fell to a tenth on one host "
    "(voipmonitor/rtx6kpro, ASUS ESC8000A-E13P), and no sharing model tells"
)


def _is_port(tree: PcieTree, lower: str, upper: str) -> bool:
    """Whether a link joins a root complex, or the root of a tree without one, with a device below it."""
    kinds = {tree.vertex(lower).kind, tree.vertex(upper).kind}
    if all(vertex.kind != "root_complex" for vertex in tree.vertices):
        return tree.root in (lower, upper)
    return "root_complex" in kinds and len(kinds) == 2 and "system" not in kinds


def divided_writes(
    tree: PcieTree, graph: NDArray[np.int64], source: NDArray[np.int64], target: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the graphs in which posted writes of one uplink go to destinations behind different root ports.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graph, source, target : ndarray of int64, shape (communications,)
        Number of the graph, and endpoint numbers, of each communication.

    Returns
    -------
    ndarray of int64
        Numbers of these graphs, ascending. Whether their copies overlap in time is not looked at.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("flat4x2", (4, 2))
    >>> divided_writes(tree, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([2, 4, 2, 3])).tolist()
    [0]
    """
    routes = tree.routes
    ends = np.full((routes.endpoints**2, 2), -1, dtype=np.int64)
    # Uplink and port are the links of switches at a root complex, not those between root complexes.
    ports = np.array([_is_port(tree, *names[:2]) for names in tree.link_names])
    for pair in np.flatnonzero(routes.crossing):
        own = routes.link[routes.offset[pair] : routes.offset[pair + 1]]
        up, down = own[own < routes.upstream_links], own[own >= routes.upstream_links]
        if up.size > 1 and down.size > 1 and ports[up].any() and ports[down].any():
            ends[pair] = up[ports[up]][-1], down[ports[down]][0]
    uplinks, uplink = np.unique(ends[:, 0], return_inverse=True)
    pairs = source * routes.endpoints + target
    shared = ends[pairs, 0] >= 0
    pairs, case = pairs[shared], graph[shared]
    stream, port = case * uplinks.size + uplink[pairs], ends[pairs, 1]
    # Of all writes of an uplink in a graph the last tells its port: those to another one divide it.
    last = np.empty((int(case.max(initial=-1)) + 1) * uplinks.size, dtype=np.int64)
    last[stream] = port
    divided: NDArray[np.int64] = np.unique(case[last[stream] != port])
    return divided


def divided_writes_text(count: int, example: str) -> str:
    """Return the warning of graphs with such writes.

    Examples
    --------
    >>> divided_writes_text(3, "a").removeprefix(DIVIDED_WRITES)
    ": 'a' and 2 more graphs"
    """
    more = f" and {count - 1} more {'graph' if count == 2 else 'graphs'}" if count > 1 else ""
    return f"{DIVIDED_WRITES}: '{example}'{more}"
