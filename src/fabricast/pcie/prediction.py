"""Predictions on user files: what ``fabricast predict`` computes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.files import whole_file
from fabricast.pcie.graphs import CongestionGraphs, read_graphs
from fabricast.pcie.machine_parameters import machine_parameters, refuse_peer_copies
from fabricast.pcie.models import evaluate, named_model
from fabricast.pcie.topology_files import load_tree
from fabricast.pcie.tree import PcieTree
from fabricast.tables import connect

__all__ = ["elapsed_table", "predict_file", "write_elapsed"]


def elapsed_table(tree: PcieTree, graphs: CongestionGraphs, end_s: NDArray[np.float64]) -> pd.DataFrame:
    """Return one row per communication with its elapsed time.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        The graphs.
    end_s : ndarray of float64, shape (communications,)
        When each communication ends.

    Returns
    -------
    pandas.DataFrame
        Columns graph, communication, source, target, size_bytes, elapsed_s (end minus
        own start).
    """
    # Names as categories: a table of millions of rows holds each of them once.
    names = pd.Index(list(tree.endpoint_names))
    return pd.DataFrame(
        {
            "graph": pd.Categorical.from_codes(graphs.graph_of_communication, pd.Index(list(graphs.names))),
            "communication": graphs.number_in_graph,
            "source": pd.Categorical.from_codes(graphs.source, names),
            "target": pd.Categorical.from_codes(graphs.target, names),
            "size_bytes": graphs.size_bytes,
            "elapsed_s": end_s - graphs.start_s,
        }
    )


def write_elapsed(table: pd.DataFrame, output: Path | None) -> None:
    """Write elapsed times.

    Parameters
    ----------
    table : pandas.DataFrame
        As `elapsed_table` gives.
    output : Path or None
        Parquet or CSV file; None prints CSV.
    """
    if output is None:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
    elif output.suffix.lower() == ".csv":
        with whole_file(output) as temporary:
            table.to_csv(temporary, index=False, lineterminator="\n")
    else:
        text = ("graph", "source", "target")
        with whole_file(output) as temporary, connect() as connection:
            relation = connection.from_df(table)
            columns = [f"{name}::VARCHAR AS {name}" if name in text else name for name in relation.columns]
            relation.project(", ".join(columns)).write_parquet(str(temporary))


def predict_file(
    topology: str,
    graphs_file: Path,
    model: str,
    *,
    bandwidth_bytes_per_s: float | None = None,
    tau: float | None = None,
    crossing_cost: float | None = None,
    parameters_file: Path | None = None,
    size_bytes: float,
    output: Path | None,
    pcie_only: bool = False,
    include_display: bool = False,
) -> list[str]:
    """Predict the graphs of a CSV file and write or print the result.

    Parameters
    ----------
    topology : str
        Built-in name or file.
    graphs_file : Path
        CSV with the columns ``graph,source,target[,size_bytes,start_s]``.
    model : str
        Name of a model.
    bandwidth_bytes_per_s, tau, crossing_cost, parameters_file
        As for `fabricast.pcie.machine_parameters.machine_parameters`.
    size_bytes : float
        Size where the file has no column ``size_bytes``.
    output : Path or None
        Parquet or CSV file; None prints CSV.
    pcie_only : bool, default False
        Whether copies between endpoints with direct links take the tree all the same.
    include_display : bool, default False
        Whether graphics cards count as accelerators.

    Returns
    -------
    list of str
        What the user should know of the result.

    Raises
    ------
    InputError
        If a file, the topology or the model is not as expected.
    """
    chosen = named_model(model)
    tree = load_tree(topology, include_display=include_display)
    graphs = read_graphs(graphs_file, tree, size_bytes=size_bytes)
    if not pcie_only:
        refuse_peer_copies(tree, graphs)
    machine = machine_parameters(
        topology, tree, bandwidth_bytes_per_s=bandwidth_bytes_per_s, tau=tau, crossing_cost=crossing_cost,
        parameters_file=parameters_file,
    )  # fmt: skip
    evaluation = evaluate(
        tree, graphs, chosen, bandwidth_bytes_per_s=machine.bandwidth_bytes_per_s, tau=machine.tau,
        crossing_cost=machine.crossing_cost,
    )  # fmt: skip
    table = elapsed_table(tree, graphs, evaluation.end_s)
    write_elapsed(table, output)
    notes = [*tree.notes, *machine.notes(chosen)]
    names = tree.endpoint_names
    over_sockets = np.array([[s != t and tree.path_class(s, t) == "SYS" for t in names] for s in names])
    between = int(over_sockets[graphs.source, graphs.target].sum())
    if between:
        notes.append(f"{between} communications cross sockets; the study validates one socket only")
    if not np.isfinite(table["elapsed_s"]).all():
        notes.append(f"model '{model}' starves some communications: their elapsed_s is infinite")
    return notes
