"""Errors of forecasts against measured copies: their distribution, and which features of the graphs explain them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fabricast.core.error_statistics import error_histogram
from fabricast.pcie.graphs.congestion_graphs import from_arcs
from fabricast.pcie.graphs.features import GraphFeatures, explain_errors, feature_frame, isomorphism_class
from fabricast.pcie.measurements.measured_graph import MeasuredGraph, flows_of
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["FORECASTS", "error_rows", "feature_rows"]

#: Columns of a forecast, and the name of the model behind each.
FORECASTS = {
    "forecast_bytes_per_s": "endpoint_engines",
    "packets_bytes_per_s": "packets_with_engines",
    "sharing_bytes_per_s": "sharing_on_the_tree",
    "no_contention_bytes_per_s": "no_contention",
}


def _errors(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return the relative errors of judged graphs for which a model has a forecast, by place."""
    known = rows["judged"] & rows[column].notna()
    return rows.loc[known, column] / rows.loc[known, "measured_bytes_per_s"] - 1


def error_rows(rows: pd.DataFrame, machine: str) -> pd.DataFrame:
    """Return how errors are distributed, over all judged graphs of a machine and by class.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the table measured_copy of one machine.
    machine : str
        Its name.

    Returns
    -------
    pandas.DataFrame
        Rows of the table error_histogram.
    """
    frames = []
    for column, model in FORECASTS.items():
        error = _errors(rows, column)
        kinds = rows.loc[error.index, "graph_class"]
        for subset in ["all", *sorted(set(kinds))]:
            chosen = error if subset == "all" else error[kinds == subset]
            if not chosen.empty:
                frames.append(error_histogram(chosen.to_numpy()).assign(subset=subset, model=model))
    names = ["subset", "model", "bin", "lower", "upper", "communications"]
    found = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)
    return found.assign(study="pcie", kind="measured", origin=machine)


def feature_rows(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame, machine: str
) -> pd.DataFrame:  # fmt: skip
    """Return which features of its graphs explain the errors on a machine.

    Parameters
    ----------
    tree : PcieTree
        The machine.
    graphs : sequence of MeasuredGraph
        Its measurements.
    rows : pandas.DataFrame
        Rows of the table measured_copy, in their order.
    machine : str
        Its name.

    Returns
    -------
    pandas.DataFrame
        Rows of the table error_feature; none where the judged graphs are of fewer than 20 isomorphism classes.
    """
    whole = with_host_memory(tree)
    arcs = [list(flows_of(whole, graph)) for graph in graphs]
    # A measured rate is of a whole graph: the largest value of any of its communications.
    described = from_arcs(arcs, size_bytes=1.0)
    features = feature_frame(whole, described).groupby(described.graph_of_communication).max()
    classes = pd.factorize(pd.Series([isomorphism_class(one) for one in arcs]), sort=True)[0].astype(np.int64)
    frames = []
    for column, model in FORECASTS.items():
        error = _errors(rows, column)
        place = error.index.to_numpy()
        known = GraphFeatures(np.arange(place.size), features.iloc[place], classes[place])
        learnt = explain_errors(known, error.to_numpy())
        if not learnt.empty:
            frames.append(learnt.assign(model=model))
    names = ["feature", "importance", "spread", "r2", "model"]
    found = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)
    return found.assign(study="pcie", kind="measured", origin=machine, subset="all")
