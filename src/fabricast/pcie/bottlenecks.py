"""Which link limits each communication, and who shares it, as people read it."""

from __future__ import annotations

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
) -> pd.Categorical[str]:
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
    pandas.Categorical
        Such as ``"2>5 3>5"``; empty for those that have it for themselves. Each text is held once.

    Examples
    --------
    >>> from fabricast.pcie.graphs import from_arcs
    >>> from fabricast.pcie.regular_tree import regular_tree
    >>> tree, graphs = regular_tree("four", (4,)), from_arcs([[(0, 1), (2, 1)]], size_bytes=1.0)
    >>> receives = np.full(2, link_labels(tree).index("endpoint 1 receives"))
    >>> sharers(tree, graphs, receives, np.ones(2)).tolist()
    ['2>1', '0>1']
    """
    from fabricast.pcie.kernels.sharers import links_in_use, list_sharers

    routes, case = tree.routes, graphs.graph_of_communication
    pair = graphs.source * routes.endpoints + graphs.target
    uses = links_in_use(routes.capacity.size, routes.offset, routes.link)

    def listed(rows: NDArray[np.int64], columns: int) -> tuple[NDArray[np.uint64], NDArray[np.int64], _Table]:
        digest, count = np.zeros(rows.size, dtype=np.uint64), np.zeros(rows.size, dtype=np.int64)
        table = np.zeros((rows.size, columns), dtype=np.int64)
        first, last = graphs.offset[case[rows]], graphs.offset[case[rows] + 1]
        list_sharers(rows, first, last, pair, bottleneck, graphs.start_s, end_s, uses, digest, count, table)
        return digest, count, table

    digest, count, _ = listed(np.arange(pair.size), 0)
    # Graphs of few endpoints repeat the same sharers: each set is written out once.
    codes, sets = pd.factorize(digest)
    examples = np.empty(sets.size, dtype=np.int64)
    examples[codes] = np.arange(codes.size)
    _, own_count, table = listed(examples, int(count[examples].max(initial=0)))
    names = tree.endpoint_names
    arcs = [f"{source}>{target}" for source in names for target in names]
    return pd.Categorical.from_codes(codes, pd.Index(_joined(arcs, table, own_count)))


_Table = NDArray[np.int64]


def _joined(words: list[str], table: _Table, count: NDArray[np.int64]) -> list[str]:
    """Return the first `count` words of each row with a space between them, all rows in one go."""
    # Every word comes with what follows it: a space, or the end of its row.
    followed = np.array([word + " " for word in words] + [word + "\0" for word in words] + ["\0"], dtype=object)
    place = np.arange(table.shape[1] + 1)
    number = np.pad(table, ((0, 0), (0, 1)))
    number[place == count[:, None] - 1] += len(words)
    number[(place == 0) & (count[:, None] == 0)] = 2 * len(words)
    taken = number[place < np.maximum(count, 1)[:, None]]
    return "".join(followed[taken].tolist()).split("\0")[:-1]
