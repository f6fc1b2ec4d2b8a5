"""Detection of graphs that write from one uplink to several root ports."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.topology.tree import PcieTree


def _is_port(tree: PcieTree, lower: str, upper: str) -> bool:
    """Return whether a link is a port of a root complex, or else of the root."""
    kinds = {tree.vertex(lower).kind, tree.vertex(upper).kind}
    if all(vertex.kind != "root_complex" for vertex in tree.vertices):
        return tree.root in (lower, upper)
    return "root_complex" in kinds and len(kinds) == 2 and "system" not in kinds


def divided_writes(
    tree: PcieTree, graph: NDArray[np.int64], source: NDArray[np.int64], target: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the graphs that write from one uplink to several root ports.

    On one host, the bandwidth of such posted writes was a tenth of the expected value. The contention models do not
    reproduce this. Copies of a graph count even if they do not overlap in time.

    Shapes: graph, source, target (copies,).

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("flat4x2", (4, 2))
    >>> divided_writes(tree, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([2, 4, 2, 3])).tolist()
    [0]
    """
    routes = tree.routes
    ends = np.full((routes.endpoints**2, 2), -1, dtype=np.int64)
    # `ends` holds the uplink and the root port of each pair: links between a root complex and a switch, not between
    # root complexes.
    ports = np.array([_is_port(tree, *names[:2]) for names in tree.link_names])
    names = tree.endpoint_names
    for pair in np.flatnonzero(routes.crossing):
        # Copies over direct links use no root port.
        if tree.peer_links and tree.peer_link(names[pair // routes.endpoints], names[pair % routes.endpoints]):
            continue
        links = routes.link[routes.offset[pair] : routes.offset[pair + 1]]
        up, down = links[links < routes.upstream_links], links[links >= routes.upstream_links]
        if up.size > 1 and down.size > 1 and ports[up].any() and ports[down].any():
            ends[pair] = up[ports[up]][-1], down[ports[down]][0]
    uplinks, uplink = np.unique(ends[:, 0], return_inverse=True)
    pairs = source * routes.endpoints + target
    shared = ends[pairs, 0] >= 0
    pairs, case = pairs[shared], graph[shared]
    stream, port = case * uplinks.size + uplink[pairs], ends[pairs, 1]
    # The last write of each uplink in a graph defines a reference port: a write to another port divides the uplink.
    last = np.empty((int(case.max(initial=-1)) + 1) * uplinks.size, dtype=np.int64)
    last[stream] = port
    divided: NDArray[np.int64] = np.unique(case[last[stream] != port])
    return divided


def divided_writes_warning(count: int, example: str) -> CodedWarning:
    """Return the warning about graphs with such writes.

    >>> divided_writes_warning(3, "a").text.rpartition("; ")[2]
    "affects 'a' and 2 more graphs"
    """
    more = f" and {count - 1} more {'graph' if count == 2 else 'graphs'}" if count > 1 else ""
    text = (
        "writes from one uplink to destinations behind different root ports fell to a tenth of their rate on one host "
        f"(voipmonitor/rtx6kpro, ASUS ESC8000A-E13P), which no sharing model predicts; affects '{example}'{more}"
    )
    return CodedWarning(WarningCode.DIVIDED_WRITES, text)
