"""Which link limits each communication, and who shares it, as people read it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.topology.tree import PcieTree

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
    >>> from fabricast.pcie.graphs.congestion_graphs import from_arcs
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree, graphs = regular_tree("four", (4,)), from_arcs([[(0, 1), (2, 1)]], size_bytes=1.0)
    >>> receives = np.full(2, link_labels(tree).index("endpoint 1 receives"))
    >>> sharers(tree, graphs, receives, np.ones(2)).tolist()
    ['2>1', '0>1']
    """
    from fabricast.pcie.graphs.kernels.link_use import links_in_use
    from fabricast.pcie.models.kernels.sharers import digest_sharers, write_sharers

    routes, case = tree.routes, graphs.graph_of_communication
    first, end = graphs.offset[case], graphs.offset[case + 1]
    pair = graphs.source * routes.endpoints + graphs.target
    uses = links_in_use(routes.capacity.size, routes.offset, routes.link)
    digest, count = np.zeros(pair.size, dtype=np.uint64), np.zeros(pair.size, dtype=np.int64)
    digest_sharers(first, end, pair, bottleneck, graphs.start_s, end_s, uses, digest, count)
    # Graphs of few endpoints repeat the same sharers: each set is written out once.
    codes, sets = pd.factorize(digest)
    examples = np.empty(sets.size, dtype=np.int64)
    examples[codes] = np.arange(codes.size)
    names = [f"{source}>{target}".encode() for source in tree.endpoint_names for target in tree.endpoint_names]
    sizes = np.array([len(name) for name in names])
    # With what stands behind each name, and one byte for sets without any.
    text = np.empty(int(count[examples].sum() * (sizes.max(initial=0) + 1)) + sets.size, dtype=np.uint8)
    length = write_sharers(
        examples, first, end, pair, bottleneck, graphs.start_s, end_s, uses,
        np.frombuffer(b"".join(names), dtype=np.uint8), np.concatenate([[0], np.cumsum(sizes)]), text,
    )  # fmt: skip
    written = text[:length].tobytes().decode().split("\0")[:-1]
    return pd.Categorical.from_codes(codes, pd.Index(written))
