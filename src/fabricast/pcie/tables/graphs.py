"""Conversion between congestion graphs and rows of graph and communication."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_pairs
from fabricast.pcie.graphs.files import read_graphs
from fabricast.pcie.graphs.sets import stress_set, validation_set
from fabricast.pcie.topology.tree import PcieTree


@dataclass(frozen=True)
class GraphTables:
    """Rows of the tables graph and communication."""

    #: Rows as in schema.sql.
    graph: pd.DataFrame
    communication: pd.DataFrame


def graph_tables(tree: PcieTree, graphs: CongestionGraphs, *, subset: str, seed: int | None = None) -> GraphTables:
    """Return congestion graphs as rows of the tables graph and communication."""
    names = np.array(tree.endpoint_names, dtype=object)
    classes = np.array(
        [["" if s == t else tree.path_class(s, t) for t in tree.endpoint_names] for s in tree.endpoint_names],
        dtype=object,
    )
    graph = pd.DataFrame(
        {
            "graph": list(graphs.names),
            "topology": tree.name,
            "family": list(graphs.families),
            "seed": pd.array([seed if family == "random" else None for family in graphs.families], dtype="Int64"),
            "communications": np.diff(graphs.offset),
            "subset": subset,
        }
    )
    communication = pd.DataFrame(
        {
            "graph": np.array(graphs.names, dtype=object)[graphs.graph_of_communication],
            "communication": graphs.number_in_graph,
            "source": names[graphs.source],
            "target": names[graphs.target],
            "size_bytes": graphs.size_bytes,
            "start_s": graphs.start_s,
            "path_class": classes[graphs.source, graphs.target],
        }
    )
    return GraphTables(graph, communication)


def generate_graph_set(
    name: str,
    tree: PcieTree,
    *,
    validation_graphs: int,
    random_graphs: int,
    graphs_file: Path | str | None,
    size_bytes: float,
    seed: int,
    user_tree: PcieTree | None = None,
) -> GraphTables:
    """Generate the graphs of one configured set."""
    parts = []
    sets = {"validation": (validation_graphs, seed, validation_set), "stress": (random_graphs, seed + 1, stress_set)}
    for subset, (count, set_seed, generate) in sets.items():
        if count:
            entries = generate(tree, count, seed=set_seed)
            graphs = from_pairs(
                [pairs for _, pairs in entries],
                size_bytes=size_bytes,
                names=[f"{name}.{subset}.{number:06d}" for number in range(len(entries))],
                families=[family for family, _ in entries],
            )
            parts.append(graph_tables(tree, graphs, subset=subset, seed=set_seed))
    if graphs_file is not None:
        whole = tree if user_tree is None else user_tree
        user_tables = graph_tables(whole, read_graphs(graphs_file, whole, size_bytes=size_bytes), subset="user")
        for frame in (user_tables.graph, user_tables.communication):
            frame["graph"] = f"{name}.user." + frame["graph"]
        parts.append(user_tables)
    return GraphTables(
        pd.concat([part.graph for part in parts], ignore_index=True),
        pd.concat([part.communication for part in parts], ignore_index=True),
    )


def graphs_from_rows(tree: PcieTree, communication: pd.DataFrame) -> CongestionGraphs:
    """Return the congestion graphs in rows of the table communication."""
    codes, names = pd.factorize(communication["graph"])
    counts = np.bincount(codes, minlength=len(names))
    numbers = pd.Series(tree.endpoint_number)
    return CongestionGraphs(
        names=tuple(names),
        families=("user",) * len(names),
        offset=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        source=communication["source"].map(numbers).to_numpy(dtype=np.int64, copy=True),
        target=communication["target"].map(numbers).to_numpy(dtype=np.int64, copy=True),
        size_bytes=communication["size_bytes"].to_numpy(dtype=np.float64, copy=True),
        start_s=communication["start_s"].to_numpy(dtype=np.float64, copy=True),
    )
