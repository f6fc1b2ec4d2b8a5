"""Predictions of all models on all graphs as rows of the table prediction."""

from __future__ import annotations

import pandas as pd

from fabricast.pcie.models import MODELS, evaluate
from fabricast.pcie.tables.graphs import graphs_from_rows
from fabricast.pcie.tree import PcieTree

__all__ = ["elapsed_rows"]


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
    """Predict the elapsed time of every communication with every model.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    communication : pandas.DataFrame
        Rows of the table communication, ordered by its key.
    models : list of str
        Names of the models.
    bandwidth_bytes_per_s, tau, crossing_cost : float
        Parameters of the models.
    threads : int, default 1
        Threads to use.

    Returns
    -------
    pandas.DataFrame
        Rows of the table prediction with the quantity ``elapsed``.
    """
    graphs = graphs_from_rows(tree, communication)
    frames = []
    for model in models:
        evaluation = evaluate(
            tree, graphs, MODELS[model], bandwidth_bytes_per_s=bandwidth_bytes_per_s, tau=tau,
            crossing_cost=crossing_cost, threads=threads,
        )  # fmt: skip
        frames.append(
            pd.DataFrame(
                {
                    "study": "pcie",
                    "case_id": communication["graph"],
                    "item": communication["communication"].astype(str),
                    "quantity": "elapsed",
                    "model": model,
                    "value": evaluation.end_s - graphs.start_s,
                    "unit": "s",
                }
            )
        )
    return pd.concat(frames, ignore_index=True)
