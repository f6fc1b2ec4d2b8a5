"""Labels of links, and the copies that share the bottleneck of each copy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["link_labels", "sharers"]

#: Pairs of copies that are compared at once: bounds the memory.
_PAIRS_AT_ONCE = 2_000_000


def link_labels(tree: PcieTree) -> list[str]:
    """Return a label for each directed link: an endpoint that sends or receives, or a link between two vertices.

    Parameters
    ----------
    tree : PcieTree
        Topology.

    Returns
    -------
    list of str
        Labels by link number.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
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
    """Return the other copies that use the bottleneck of each copy while it runs.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        Congestion graphs.
    bottleneck : ndarray of int64, shape (copies,)
        Number of the link that limits each copy; -1 if none does.
    end_s : ndarray of float64, shape (copies,)
        Completion time of each copy in s.

    Returns
    -------
    pandas.Categorical
        Copies as ``"2>5 3>5"``; empty for copies that do not share their bottleneck.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_arcs
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree, graphs = regular_tree("four", (4,)), from_arcs([[(0, 1), (2, 1)]], size_bytes=1.0)
    >>> receives = np.full(2, link_labels(tree).index("endpoint 1 receives"))
    >>> sharers(tree, graphs, receives, np.ones(2)).tolist()
    ['2>1', '0>1']
    """
    from fabricast.pcie.graphs.kernels.link_use import links_in_use

    routes, pair = tree.routes, graphs.source * tree.routes.endpoints + graphs.target
    uses = links_in_use(routes.capacity.size, routes.offset, routes.link)
    rows, others = [], []
    for row, other in _pairs_in_graphs(graphs):
        link = bottleneck[row]
        word, bit = uses[pair[other], link >> 6], (link & 63).astype(np.uint64)
        shared = (link >= 0) & (row != other) & (word >> bit & np.uint64(1) == 1)
        shared &= (graphs.start_s[row] < end_s[other]) & (graphs.start_s[other] < end_s[row])
        rows.append(row[shared])
        others.append(pair[other[shared]])
    row, other = np.concatenate(rows or [np.zeros(0, int)]), np.concatenate(others or [np.zeros(0, int)])
    count = np.bincount(row, minlength=pair.size)
    first = np.cumsum(count) - count
    names = [f"{source}>{target}" for source in tree.endpoint_names for target in tree.endpoint_names]
    codes, texts = np.zeros(pair.size, dtype=np.int64), [""]
    for size in np.unique(count[count > 0]):
        members = np.flatnonzero(count == size)
        sets = other[first[members][:, np.newaxis] + np.arange(size)]
        label, examples = _distinct_rows(sets, len(names))
        codes[members] = len(texts) + label
        texts += [" ".join(names[number] for number in sets[example]) for example in examples]
    return pd.Categorical.from_codes(codes, pd.Index(texts))


def _pairs_in_graphs(graphs: CongestionGraphs) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield all ordered pairs of copies of the same graph, in blocks of whole graphs."""
    copies = np.diff(graphs.offset)
    block = np.cumsum(copies**2) // _PAIRS_AT_ONCE
    for number in np.unique(block):
        some = np.flatnonzero(block == number)
        size = np.repeat(copies[some], copies[some])
        row = np.arange(graphs.offset[some[0]], graphs.offset[some[-1] + 1])
        first = np.repeat(graphs.offset[some], copies[some])
        end = np.cumsum(size)
        yield np.repeat(row, size), np.arange(end[-1] if end.size else 0) - np.repeat(end - size - first, size)


def _distinct_rows(table: NDArray[np.int64], values: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each row among the distinct rows of a table of numbers, and an example of each."""
    label = np.zeros(len(table), dtype=np.int64)
    for column in table.T:
        label = pd.factorize(label * values + column)[0]
    examples = np.empty(label.max(initial=-1) + 1, dtype=np.int64)
    examples[label] = np.arange(label.size)
    return label, examples
