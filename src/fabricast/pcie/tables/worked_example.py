"""Worked examples of the slides: phases, predictions and published times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pandas as pd

from fabricast.pcie.graphs.congestion_graphs import Pair, from_pairs
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate, trace_phases
from fabricast.pcie.tables.graphs import GraphTables, graph_tables
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["EXAMPLES", "Example", "example_tables"]


@dataclass(frozen=True)
class Example:
    """Congestion graph that the slides show.

    Parameters
    ----------
    graph : str
        Name of the graph.
    pairs : tuple of (int, int)
        Source and target of each copy.
    published_ms : tuple of float or None
        Printed completion time of each copy in ms; None if the slides print none.
    """

    graph: str
    pairs: tuple[Pair, ...]
    published_ms: tuple[float | None, ...]


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


@dataclass(frozen=True)
class ExampleTables:
    """Table rows of the worked examples.

    Parameters
    ----------
    graphs : GraphTables
        Rows of the tables graph and communication.
    phase, prediction, reference : pandas.DataFrame
        Rows as in schema.sql.
    """

    graphs: GraphTables
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
    phases = []
    for number, example in enumerate(EXAMPLES):
        for model in _TRACED if example.graph == "storm8.example.complete" else _TRACED[:1]:
            for index, phase in enumerate(trace_of(number, MODELS[model])):
                for c, rho, moved in zip(phase.active, phase.rho, phase.transferred_bytes, strict=True):
                    phases.append((example.graph, model, index, c, phase.start_s, phase.duration_s, rho, moved))
    item = graphs.number_in_graph.astype(str)
    case = [graphs.names[g] for g in graphs.graph_of_communication]
    common = {"study": "pcie", "case_id": case, "item": item, "quantity": "elapsed", "unit": "s"}
    predictions = [pd.DataFrame(common | {"model": m, "value": run(MODELS[m]).end_s}) for m in models]
    published = [ms for example in EXAMPLES for ms in example.published_ms]
    reference = pd.DataFrame(common | {"kind": "published", "origin": "slides", "tag": "published"})
    reference["value"] = pd.Series(published, dtype="float64") / 1e3
    columns = ["graph", "model", "phase", "communication", "start_s", "duration_s", "rho", "transferred_bytes"]
    return ExampleTables(
        graph_tables(tree, graphs, subset="example"),
        pd.DataFrame(phases, columns=columns),
        pd.concat(predictions, ignore_index=True),
        reference.dropna(subset="value"),
    )
