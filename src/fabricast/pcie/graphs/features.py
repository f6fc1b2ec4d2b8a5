"""Features of congestion graphs, and their importance for the error of a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.feature_importance import explain_by_features
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.topology.tree import PcieTree

#: Grouped cross-validation is not meaningful with fewer isomorphism classes.
_FEWEST_CLASSES = 20
#: Sample size that bounds the training time.
_MOST_ROWS = 12_000


def isomorphism_class(pairs: list[tuple[int, int]]) -> str:
    """Return a string that is equal for isomorphic graphs, by colour refinement.

    Colour refinement (1-dimensional Weisfeiler-Leman) repeatedly refines the colour of a vertex by the colours of its
    successors and predecessors until the partition is stable. A few graphs that are not isomorphic have the same
    string. Such graphs share a cross-validation fold, which makes the validation stricter.

    >>> isomorphism_class([(0, 1), (2, 1)]) == isomorphism_class([(5, 3), (4, 3)])
    True
    >>> isomorphism_class([(0, 1), (2, 1)]) == isomorphism_class([(1, 0), (1, 2)])
    False
    """
    members = sorted({vertex for pair in pairs for vertex in pair})
    colour = dict.fromkeys(members, 0)
    history = []
    for _ in members:
        signature = {
            v: (
                colour[v],
                tuple(sorted(colour[t] for s, t in pairs if s == v)),
                tuple(sorted(colour[s] for s, t in pairs if t == v)),
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
    """Compute features of every copy from its graph and its route in the tree."""
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
    load_of_graph = load[case]
    crossing = routes.crossing[pair]

    def most(side: NDArray[np.bool_]) -> NDArray[np.int64]:
        most_users: NDArray[np.int64] = np.max(load_of_graph, axis=1, where=uses & side, initial=0)
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
            "users of all its links": (load_of_graph * uses).sum(axis=1),
            "copies sent by its target": out_degree[case, graphs.target],
            "most copies from one source": out_degree.max(axis=1)[case],
            "most copies to one target": in_degree.max(axis=1)[case],
            "saturated links in the graph": (load > 1).sum(axis=1)[case],
        }
    )


@dataclass(frozen=True)
class GraphFeatures:
    """Features of a sample of copies."""

    rows: NDArray[np.int64]  # Index of each sampled copy, shape (sample,)
    values: pd.DataFrame  # Features, one row per sampled copy and one column per feature
    classes: NDArray[np.int64]  # Isomorphism class of the graph of each sampled copy, shape (sample,)


def describe_graphs(tree: PcieTree, graphs: CongestionGraphs, *, generator: np.random.Generator) -> GraphFeatures:
    """Compute features and isomorphism classes for a sample of the copies."""
    rows = np.arange(graphs.source.size)
    if rows.size > _MOST_ROWS:
        rows = np.sort(generator.choice(rows, _MOST_ROWS, replace=False))
    case = graphs.graph_of_communication[rows]
    class_of_graph = {int(graph): isomorphism_class(graphs.pairs(int(graph))) for graph in np.unique(case)}
    classes = pd.factorize(pd.Series([class_of_graph[int(graph)] for graph in case]), sort=True)[0]
    return GraphFeatures(rows, feature_frame(tree, graphs).iloc[rows], classes.astype(np.int64))


def explain_errors(features: GraphFeatures, error: NDArray[np.float64]) -> pd.DataFrame:
    """Estimate which features explain the absolute error of a model.

    A gradient-boosting regressor predicts the absolute error from the features. Its permutation importance is estimated
    by cross-validation whose folds do not share isomorphism classes.

    Shapes: error (copies,).
    """
    if np.unique(features.classes).size < _FEWEST_CLASSES:
        return pd.DataFrame(columns=["feature", "importance", "spread", "r2"])
    from sklearn.ensemble import HistGradientBoostingRegressor

    return explain_by_features(
        features.values,
        np.abs(error)[features.rows],
        features.classes,
        lambda: HistGradientBoostingRegressor(random_state=0, max_iter=50),
    )
