"""Which link limits each communication, and who shares it, as people read it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.pcie.graphs import CongestionGraphs
from fabricast.pcie.tree import PcieTree

__all__ = ["link_labels", "sharers"]


def link_labels(tree: PcieTree) -> list[str]:
    """Return what each directed link is: an endpoint that sends or receives, or a link between two vertices.

    Parameters
    ----------
    tree : PcieTree
        Topology.

    Returns
    -------
    list of str
        By the number of the link.

    Examples
    --------
    >>> from fabricast.pcie.regular_tree import regular_tree
    >>> link_labels(regular_tree("pair", (2,)))
    ['endpoint 0 sends', 'endpoint 1 sends', 'endpoint 0 receives', 'endpoint 1 receives']
    """
    labels = []
    for source, target, _, port in tree.link_names:
        if tree.is_endpoint(source):
            labels.append(f"endpoint {source} sends")
        elif tree.is_endpoint(target):
            labels.append(f"endpoint {target} receives")
        else:
            labels.append(f"link {source} > {target}" + (f" (port {port})" if port else ""))
    return labels


def sharers(
    tree: PcieTree, graphs: CongestionGraphs, bottleneck: NDArray[np.int64], end_s: NDArray[np.float64]
) -> list[str]:
    """Return which other communications use the bottleneck of each one while it runs.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        The graphs.
    bottleneck : ndarray of int64, shape (communications,)
        Number of the link that limits each communication; -1 where none does.
    end_s : ndarray of float64, shape (communications,)
        When each communication ends.

    Returns
    -------
    list of str
        Such as ``"2>5 3>5"``; empty for those that have it for themselves.

    Examples
    --------
    >>> from fabricast.pcie.graphs import from_arcs
    >>> from fabricast.pcie.regular_tree import regular_tree
    >>> tree, graphs = regular_tree("four", (4,)), from_arcs([[(0, 1), (2, 1)]], size_bytes=1.0)
    >>> receives = np.full(2, link_labels(tree).index("endpoint 1 receives"))
    >>> sharers(tree, graphs, receives, np.ones(2))
    ['2>1', '0>1']
    """
    routes, case = tree.routes, graphs.graph_of_communication
    pair = graphs.source * routes.endpoints + graphs.target
    hops = np.diff(routes.offset)[pair]
    user = np.repeat(np.arange(pair.size), hops)
    place = np.arange(user.size) - np.repeat(np.cumsum(hops) - hops, hops)
    used = pd.DataFrame({"key": case[user] * len(tree.link_names), "user": user})
    used["key"] += routes.link[routes.offset[pair][user] + place]
    limited = pd.DataFrame({"key": case * len(tree.link_names) + bottleneck, "limited": np.arange(pair.size)})
    both = limited[bottleneck >= 0].merge(used, on="key")
    first, second = both["limited"].to_numpy(), both["user"].to_numpy()
    together = (graphs.start_s[first] < end_s[second]) & (graphs.start_s[second] < end_s[first]) & (first != second)
    first, second = first[together], second[together]
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    names = tree.endpoint_names
    arcs = np.array([f"{source}>{target}" for source in names for target in names], dtype=object)[pair]
    words = arcs[second].tolist()
    bounds = np.searchsorted(first, np.arange(pair.size + 1)).tolist()
    return [" ".join(words[begin:end]) for begin, end in pairwise(bounds)]
