"""Which features of a congestion graph explain where a model errs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.feature_importance import explain_by_features
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["GraphFeatures", "describe_graphs", "explain_errors", "feature_frame", "isomorphism_class"]

#: From fewer classes of graphs nothing is learnt.
_FEWEST_CLASSES = 20
_MOST_ROWS = 12_000


def isomorphism_class(arcs: list[tuple[int, int]]) -> str:
    """Return a text that is equal for isomorphic graphs, by colour refinement.

    Parameters
    ----------
    arcs : list of (int, int)
        The graph.

    Returns
    -------
    str
        Equal for isomorphic graphs; a few different graphs may share one, which only
        makes the folds of a cross-validation stricter.

    Examples
    --------
    >>> isomorphism_class([(0, 1), (2, 1)]) == isomorphism_class([(5, 3), (4, 3)])
    True
    >>> isomorphism_class([(0, 1), (2, 1)]) == isomorphism_class([(1, 0), (1, 2)])
    False
    """
    members = sorted({vertex for arc in arcs for vertex in arc})
    colour = dict.fromkeys(members, 0)
    history = []
    for _ in members:
        signature = {
            v: (
                colour[v],
                tuple(sorted(colour[t] for s, t in arcs if s == v)),
                tuple(sorted(colour[s] for s, t in arcs if t == v)),
            )
            for v in members
        }
        rank = {key: number for number, key in enumerate(sorted(set(signature.values())))}
        history.append(sorted(signature.values()))
        settled = len(rank) == len(set(colour.values()))
        colour = {v: rank[signature[v]] for v in members}
        if settled:
            break
    return repr(history)


def feature_frame(tree: PcieTree, graphs: CongestionGraphs) -> pd.DataFrame:
    """Describe every communication by its place in the graph and in the tree.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        The graphs.

    Returns
    -------
    pandas.DataFrame
        One row per communication, one numeric column per feature.
    """
    routes = tree.routes
    case = graphs.graph_of_communication
    pair = graphs.source * routes.endpoints + graphs.target
    links = routes.capacity.size
    on_link = np.zeros((routes.endpoints**2, links), dtype=np.bool_)
    for number in range(routes.endpoints**2):
        on_link[number, routes.link[routes.offset[number] : routes.offset[number + 1]]] = True
    uses = on_link[pair]
    load = np.zeros((len(graphs), links), dtype=np.int64)
    np.add.at(load, case, uses)
    up = np.zeros(links, dtype=np.bool_)
    up[: routes.upstream_links] = True
    own = load[case]
    crossing = routes.crossing[pair]

    def most(side: NDArray[np.bool_]) -> NDArray[np.int64]:
        most_users: NDArray[np.int64] = np.max(own, axis=1, where=uses & side, initial=0)
        return most_users

    def per_graph(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(case, weights=values, minlength=len(graphs)).astype(np.int64)[case]

    out_degree = np.zeros((len(graphs), routes.endpoints), dtype=np.int64)
    in_degree = np.zeros((len(graphs), routes.endpoints), dtype=np.int64)
    np.add.at(out_degree, (case, graphs.source), 1)
    np.add.at(in_degree, (case, graphs.target), 1)
    return pd.DataFrame(
        {
            "communications in the graph": per_graph(np.ones_like(case)),
            "crosses the root complex": crossing.astype(np.int64),
            "crossing communications": per_graph(crossing.astype(np.int64)),
            "hops": uses.sum(axis=1),
            "copies from its source": out_degree[case, graphs.source],
            "copies to its target": in_degree[case, graphs.target],
            "most users upstream": most(up),
            "most users downstream": most(~up),
            "users of all its links": (own * uses).sum(axis=1),
            "copies sent by its target": out_degree[case, graphs.target],
            "most copies from one source": out_degree.max(axis=1)[case],
            "most copies to one target": in_degree.max(axis=1)[case],
            "saturated links in the graph": (load > 1).sum(axis=1)[case],
        }
    )


@dataclass(frozen=True)
class GraphFeatures:
    """Features of a sample of communications.

    Parameters
    ----------
    rows : ndarray of int64, shape (sample,)
        Which communications.
    values : pandas.DataFrame
        One row each, one column a feature.
    classes : ndarray of int64, shape (sample,)
        Number of the isomorphism class of the graph.
    """

    rows: NDArray[np.int64]
    values: pd.DataFrame
    classes: NDArray[np.int64]


def describe_graphs(tree: PcieTree, graphs: CongestionGraphs, *, generator: np.random.Generator) -> GraphFeatures:
    """Compute the features from which errors are learnt.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        The graphs.
    generator : numpy.random.Generator
        Source of randomness; at most 12,000 communications are used.

    Returns
    -------
    GraphFeatures
        Features and isomorphism classes.
    """
    rows = np.arange(graphs.source.size)
    if rows.size > _MOST_ROWS:
        rows = np.sort(generator.choice(rows, _MOST_ROWS, replace=False))
    case = graphs.graph_of_communication[rows]
    known = {int(graph): isomorphism_class(graphs.arcs(int(graph))) for graph in np.unique(case)}
    classes = pd.factorize(pd.Series([known[int(graph)] for graph in case]), sort=True)[0]
    return GraphFeatures(rows, feature_frame(tree, graphs).iloc[rows], classes.astype(np.int64))


def explain_errors(features: GraphFeatures, error: NDArray[np.float64]) -> pd.DataFrame:
    """Learn the absolute error from features and say which of them matter.

    Parameters
    ----------
    features : GraphFeatures
        Features of a sample.
    error : ndarray of float64, shape (communications,)
        Relative errors of a model on all communications.

    Returns
    -------
    pandas.DataFrame
        Columns feature, importance, spread (loss of the cross-validated R2 when the feature
        is shuffled, mean and standard deviation over folds), r2 (cross-validated by
        isomorphism class), sorted by importance; no rows if there are fewer than 20 classes.
    """
    if np.unique(features.classes).size < _FEWEST_CLASSES:
        return pd.DataFrame(columns=["feature", "importance", "spread", "r2"])
    from sklearn.ensemble import HistGradientBoostingRegressor

    return explain_by_features(
        features.values, np.abs(error)[features.rows], features.classes,
        lambda: HistGradientBoostingRegressor(random_state=0, max_iter=50),
    )  # fmt: skip
