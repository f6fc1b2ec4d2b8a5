"""Forecast errors for measured copies: histograms and explanatory graph features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fabricast.core.error_statistics import error_histogram
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.graphs.features import GraphFeatures, explain_errors, feature_frame, isomorphism_class
from fabricast.pcie.measurements.measured_graph import MeasuredGraph, flows_of
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.tree import PcieTree

#: Forecast columns of the table measured_copy, with the name of the model.
FORECASTS = {
    "forecast_bytes_per_s": "ports_and_engines",
    "engines_bytes_per_s": "endpoint_engines",
    "packets_bytes_per_s": "packets_with_engines",
    "sharing_bytes_per_s": "sharing_on_the_tree",
    "no_contention_bytes_per_s": "no_contention",
}


def _errors(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return relative errors of validated graphs with a forecast, indexed by row."""
    validated = rows["judged"] & rows[column].notna()
    return rows.loc[validated, column] / rows.loc[validated, "measured_bytes_per_s"] - 1


def error_rows(rows: pd.DataFrame, machine: str) -> pd.DataFrame:
    """Return error histograms of all validated graphs and of each graph class."""
    frames = []
    for column, model in FORECASTS.items():
        error = _errors(rows, column)
        kinds = rows.loc[error.index, "graph_class"]
        for subset in ["all", *sorted(set(kinds))]:
            chosen = error if subset == "all" else error[kinds == subset]
            if not chosen.empty:
                frames.append(error_histogram(chosen.to_numpy()).assign(subset=subset, model=model))
    names = ["subset", "model", "bin", "lower", "upper", "communications"]
    histogram = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)
    return histogram.assign(study="pcie", kind="measured", origin=machine)


def feature_rows(tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame, machine: str) -> pd.DataFrame:
    """Return the graph features that explain the forecast errors on a machine."""
    whole = with_host_memory(tree)
    pairs = [list(flows_of(whole, graph)) for graph in graphs]
    # A measured rate belongs to a whole graph, so each feature is the maximum over the copies of the graph.
    described = from_pairs(pairs, size_bytes=1.0)
    features = feature_frame(whole, described).groupby(described.graph_of_communication).max()
    classes = pd.factorize(pd.Series([isomorphism_class(flows) for flows in pairs]), sort=True)[0].astype(np.int64)
    frames = []
    for column, model in FORECASTS.items():
        error = _errors(rows, column)
        row_numbers = error.index.to_numpy()
        validated = GraphFeatures(np.arange(row_numbers.size), features.iloc[row_numbers], classes[row_numbers])
        learnt = explain_errors(validated, error.to_numpy())
        if not learnt.empty:
            frames.append(learnt.assign(model=model))
    names = ["feature", "importance", "spread", "r2", "model"]
    importance = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)
    return importance.assign(study="pcie", kind="measured", origin=machine, subset="all")
