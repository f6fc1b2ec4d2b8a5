"""Errors of all PCIe models on measured copies, by class of graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fabricast.pcie.graphs.congestion_graphs import from_arcs
from fabricast.pcie.graphs.rates import printed_rates
from fabricast.pcie.machines.engine_model import ENDPOINT_ENGINES, PORTS_AND_ENGINES
from fabricast.pcie.machines.validation import MachineValidation, validate_machine
from fabricast.pcie.measurements.files import copies_of_machine
from fabricast.pcie.measurements.measured_graph import DIRECT_LINKS, HOST_COPIES, MeasuredGraph, flows_of
from fabricast.pcie.models.catalogue import MODELS, Model
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.tables.measured_copies import Machine
from fabricast.pcie.topology.files import load_tree
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.tree import PcieTree, single_copy_rate_of

__all__ = ["forecast_errors"]

#: Size of each copy in bytes; the models are linear in it.
_SIZE_BYTES = 1e9
#: Error up to which a forecast counts as good.
_BAND = 0.15


def forecast_errors(machines: Sequence[Machine], *, seed: int = 20161113) -> pd.DataFrame:
    """Return the errors of each model for each class of validated graphs.

    The models of the SC16 paper run each copy once, with the bandwidth of an isolated copy of the machine and without a
    penalty for the root complex. They support neither direct links nor host memory.

    Parameters
    ----------
    machines : sequence of Machine
        Machines with measurements.
    seed : int, default 20161113
        Seed of programs with a random order; by default that of the default study.

    Returns
    -------
    pandas.DataFrame
        Columns graph_class, model, graphs, median, within_band (share of graphs within 15 %) and worst. Errors are
        relative and absolute.
    """
    errors: list[tuple[str, str, float]] = []
    for machine in machines:
        tree = load_tree(machine.topology)
        graphs = copies_of_machine(tree, machine.path, program=machine.program, system=machine.system).graphs
        found = validate_machine(tree, graphs, one_way_bytes_per_s=single_copy_rate_of(tree), seed=seed)
        errors += _of_machine(with_host_memory(tree), graphs, found)
    frame = pd.DataFrame(errors, columns=["graph_class", "model", "error"])
    grouped = frame.groupby(["graph_class", "model"], sort=True)["error"]
    table = pd.DataFrame(
        {
            "graphs": grouped.size(),
            "median": grouped.median().round(6),
            "within_band": grouped.apply(lambda error: (error <= _BAND).mean()).round(6),
            "worst": grouped.max().round(6),
        }
    )
    return table.reset_index()


def _of_machine(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], found: MachineValidation
) -> list[tuple[str, str, float]]:
    """Return class, model and absolute relative error of each validated graph and model."""
    rate = found.calibration.rates.one_way_bytes_per_s
    errors = []
    for graph, row in zip(graphs, found.rows.to_dict("records"), strict=True):
        if not row["judged"]:
            continue
        measured, kind = graph.total_bytes_per_s, str(row["graph_class"])
        forecasts = {PORTS_AND_ENGINES: row["forecast_bytes_per_s"], ENDPOINT_ENGINES: row["engines_bytes_per_s"]}
        if kind not in (DIRECT_LINKS, HOST_COPIES):
            forecasts |= {name: _rate(tree, graph, model, rate) for name, model in MODELS.items()}
        errors += [(kind, name, abs(forecast / measured - 1)) for name, forecast in forecasts.items()]
    return errors


def _rate(tree: PcieTree, graph: MeasuredGraph, model: Model, bandwidth_bytes_per_s: float) -> float:
    """Return the rate that the program would print if copies took the times of a model."""
    flows = flows_of(tree, graph)
    ends_s = evaluate(
        tree, from_arcs([flows], size_bytes=_SIZE_BYTES), model, bandwidth_bytes_per_s=bandwidth_bytes_per_s, tau=0.0
    ).end_s
    return float(printed_rates(np.array(flows), _SIZE_BYTES, ends_s[np.newaxis], graph.statistic)[0])
