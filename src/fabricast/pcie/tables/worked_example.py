"""Phases of graphs: the worked examples of the slides with published times, and the slowest graph of a set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from fabricast.pcie.graphs.congestion_graphs import Pair, from_pairs
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import Phase, evaluate, trace_phases
from fabricast.pcie.models.parameters import MachineParameters
from fabricast.pcie.tables.graphs import GraphTables, graph_tables, graphs_from_rows
from fabricast.pcie.topology.tree import PcieTree


@dataclass(frozen=True)
class Example:
    """Congestion graph that the slides show."""

    graph: str  # Name of the graph
    pairs: tuple[Pair, ...]  # Source and target of each copy
    published_ms: tuple[float | None, ...]  # Printed completion time of each copy in ms; None if the slides print none


#: Slides "Example" (one message), "Complete example" and "Downstream port conflict".
EXAMPLES = (
    Example("storm8.example.one_message", ((0, 1),), (25.3,)),
    Example("storm8.example.complete", ((0, 2), (1, 4), (3, 2), (6, 4)), (65.0, 65.0, 36.0, 36.0)),
    Example("storm8.example.three", ((0, 7), (1, 4), (6, 7)), (None, None, None)),
)

#: Models whose phases are stored. For the complete example they include the columns of the slides: A without sharing,
#: C with the literal formulas, D before spare bandwidth is redistributed. Per-flow sharing is added for comparison.
_TRACED = (
    "congestion_factor",
    "no_contention",
    "literal",
    "not_work_conserving",
    "max_min",
    "busiest_link",
    "without_tau",
)


_PHASE_COLUMNS = ["graph", "model", "phase", "communication", "start_s", "duration_s", "rho", "transferred_bytes"]


@dataclass(frozen=True)
class ExampleTables:
    """Table rows of the worked examples."""

    graphs: GraphTables  # Rows of the tables graph and communication
    #: Rows as in schema.sql.
    phase: pd.DataFrame
    prediction: pd.DataFrame
    reference: pd.DataFrame


def example_tables(
    tree: PcieTree, models: list[str], *, size_bytes: float, bandwidth_bytes_per_s: float, tau: float
) -> ExampleTables:
    """Evaluate the examples of the slides, which use ``tau = 0.2``."""
    graphs = from_pairs(
        [example.pairs for example in EXAMPLES],
        size_bytes=size_bytes,
        names=[example.graph for example in EXAMPLES],
        families=["example"] * len(EXAMPLES),
    )
    run = partial(evaluate, tree, graphs, bandwidth_bytes_per_s=bandwidth_bytes_per_s, tau=tau)
    trace_of = partial(trace_phases, tree, graphs, bandwidth_bytes_per_s=bandwidth_bytes_per_s, tau=tau)
    phases = [
        row
        for number, example in enumerate(EXAMPLES)
        for model in (_TRACED if example.graph == "storm8.example.complete" else _TRACED[:1])
        for row in _phase_rows(example.graph, model, trace_of(number, MODELS[model]))
    ]
    item = graphs.number_in_graph.astype(str)
    case = [graphs.names[g] for g in graphs.graph_of_communication]
    common = {"study": "pcie", "case_id": case, "item": item, "quantity": "elapsed", "unit": "s"}
    predictions = [pd.DataFrame(common | {"model": m, "value": run(MODELS[m]).end_s}) for m in models]
    published = [ms for example in EXAMPLES for ms in example.published_ms]
    reference = pd.DataFrame(common | {"kind": "published", "origin": "slides", "tag": "published"})
    reference["value"] = pd.Series(published, dtype="float64") / 1e3
    return ExampleTables(
        graph_tables(tree, graphs, subset="example"),
        pd.DataFrame(phases, columns=_PHASE_COLUMNS),
        pd.concat(predictions, ignore_index=True),
        reference.dropna(subset="value"),
    )


def _phase_rows(graph: str, model: str, phases: Sequence[Phase]) -> list[tuple[object, ...]]:
    """Return the rows of the table phase of one graph."""
    return [
        (graph, model, index, copy, phase.start_s, phase.duration_s, rho, moved)
        for index, phase in enumerate(phases)
        for copy, rho, moved in zip(phase.active, phase.rho, phase.transferred_bytes, strict=True)
    ]


def slowest_graph_phases(
    tree: PcieTree, communication: pd.DataFrame, prediction: pd.DataFrame, machine: MachineParameters
) -> tuple[str, pd.DataFrame]:
    """Return the graph that ends last by the congestion factors, and its phases as rows of the table phase."""
    rows = prediction[(prediction["model"] == _TRACED[0]) & np.isfinite(prediction["value"])]
    slowest = str(rows.loc[rows["value"].idxmax(), "case_id"])
    graphs = graphs_from_rows(tree, communication[communication["graph"] == slowest])
    phases = trace_phases(
        tree,
        graphs,
        0,
        MODELS[_TRACED[0]],
        bandwidth_bytes_per_s=machine.bandwidth_bytes_per_s,
        tau=machine.tau,
        crossing_cost=machine.crossing_cost,
    )
    return slowest, pd.DataFrame(_phase_rows(slowest, _TRACED[0], phases), columns=_PHASE_COLUMNS)
