"""Predictions of all models on all graphs as rows of the table prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.models.user_model import UserModel, named_function
from fabricast.pcie.tables.graphs import graphs_from_rows
from fabricast.pcie.topology.tree import PcieTree


def predicted_s(tree: PcieTree, graphs: CongestionGraphs, model: str, **parameters: Any) -> NDArray[np.float64]:
    """Return the elapsed time of each copy in s by a model of the catalogue or a function `module:function`.

    A function gets the tree with the bandwidth of an isolated copy of the other models.
    """
    if ":" in model:
        alone = replace(tree, bandwidth_bytes_per_s=parameters["bandwidth_bytes_per_s"])
        return UserModel(named_function(model)).end_s(alone, graphs) - graphs.start_s
    return evaluate(tree, graphs, MODELS[model], **parameters).end_s - graphs.start_s


def elapsed_rows(
    tree: PcieTree,
    communication: pd.DataFrame,
    models: list[str],
    *,
    bandwidth_bytes_per_s: float,
    tau: float,
    crossing_cost: float = 1.0,
    threads: int = 1,
) -> pd.DataFrame:
    """Predict the elapsed time of every copy with every model."""
    graphs = graphs_from_rows(tree, communication)
    rows, count = len(communication), len(models)
    elapsed_s = np.empty((count, rows))
    for number, model in enumerate(models):
        elapsed_s[number] = predicted_s(
            tree,
            graphs,
            model,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
            tau=tau,
            crossing_cost=crossing_cost,
            threads=threads,
        )

    def repeated(codes: NDArray[np.integer], texts: list[str]) -> pd.Series:
        return pd.Series(pd.Categorical.from_codes(codes, pd.Index(texts)))

    def constant(text: str) -> pd.Series:
        return repeated(np.zeros(rows * count, dtype=np.int8), [text])

    def of_each_model(column: str) -> pd.Series:
        values = pd.Categorical(communication[column])
        return repeated(np.tile(values.codes, count), values.categories.astype(str).tolist())

    return pd.DataFrame(
        {
            "study": constant("pcie"),
            "case_id": of_each_model("graph"),
            "item": of_each_model("communication"),
            "quantity": constant("elapsed"),
            "model": repeated(np.repeat(np.arange(count), rows), models),
            "value": elapsed_s.ravel(),
            "unit": constant("s"),
        }
    )
