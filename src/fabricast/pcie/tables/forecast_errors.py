"""Errors of all PCIe models on measured copies, by class of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.rates import printed_rates
from fabricast.pcie.machines.engine_model import ENDPOINT_ENGINES, PORTS_AND_ENGINES
from fabricast.pcie.machines.exclusion import Reason
from fabricast.pcie.machines.expected_errors import HOST_MEMORY, INTER_SOCKET_LINK, SOCKET_ROUTES
from fabricast.pcie.machines.limits import inter_socket_routes
from fabricast.pcie.machines.validation import MachineValidation, validate_machine
from fabricast.pcie.measurements.measured_graph import DIRECT_LINKS, HOST_COPIES, MANY_COPIES, MeasuredGraph, flows_of
from fabricast.pcie.models.catalogue import MODELS, Model
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.tables.measured_copies import MeasuredMachine, validated_machine
from fabricast.pcie.topology.memory import is_host, with_host_memory
from fabricast.pcie.topology.tree import PcieTree, single_copy_rate_of

#: Size of each copy in bytes; the models are linear in it.
_SIZE_BYTES = 1e9
#: Error up to which a forecast counts as good.
_BAND = 0.15
#: Copies between sockets up to which the reverse direction has the same routes: one in each direction.
_SEVERAL = 2
#: Limits without a probe by the reason why a graph is excluded.
_UNPROBED = {Reason.NO_MEMORY_PROBE: HOST_MEMORY, Reason.NO_INTER_SOCKET_PROBE: INTER_SOCKET_LINK}


def forecast_errors(machines: Sequence[MeasuredMachine], *, seed: int = 20161113) -> pd.DataFrame:
    """Return the errors of each model for each class of validated graphs.

    Many copies of a GPU are listed by pattern, too. The models of the SC16 paper run each copy once, with the bandwidth
    of an isolated copy of the machine and without a penalty for the root complex. They support neither direct links nor
    host memory.
    """
    errors: list[tuple[str, str, float, float]] = []
    for machine in machines:
        validated = validated_machine(machine, seed)
        errors += _of_machine(with_host_memory(validated.tree), validated.graphs, validated.validation)
    frame = pd.DataFrame(errors, columns=["graph_class", "model", "error", "sharing"])
    groups = frame.groupby(["graph_class", "model"], sort=True)
    grouped = groups["error"]
    table = pd.DataFrame(
        {
            "graphs": grouped.size(),
            "median": grouped.median().round(6),
            "within_band": grouped.apply(lambda error: (error <= _BAND).mean()).round(6),
            "worst": grouped.max().round(6),
            "sharing_median": groups["sharing"].median().round(6),
        }
    )
    return table.reset_index()


def unprobed_errors(machines: Sequence[MeasuredMachine], *, seed: int = 20161113) -> pd.DataFrame:
    """Compare measured copies with forecasts that lack a probe of host memory or of the link between root complexes.

    Such a forecast has a bound: the limit that no probe measured is assumed not to be a bottleneck. For this comparison
    all host copies that ran together are left out of the calibration.
    """
    rows = []
    for machine in machines:
        tree = machine.tree
        whole = with_host_memory(tree)
        unprobed = [
            replace(graph, role="test") if is_host(whole, graph.flows) and len(graph.flows) > 1 else graph
            for graph in machine.graphs
        ]
        found = validate_machine(tree, unprobed, one_way_bytes_per_s=single_copy_rate_of(tree), seed=seed)
        rows.append(found.rows[found.rows["reason_code"].isin(_UNPROBED)].assign(machine=machine.name))
    frame = pd.concat(rows, ignore_index=True)
    measured, low, high = (frame[f"{name}_bytes_per_s"] for name in ("measured", "low", "high"))
    ratio, is_within = high / measured, measured.between(low, high).astype(float).where(low.notna())
    grouped = frame.assign(ratio=ratio, is_within=is_within).groupby("reason_code", sort=True)
    table = pd.DataFrame(
        {
            "machines": grouped["machine"].nunique(),
            "graphs": grouped.size(),
            "in_range": grouped["is_within"].mean(),
            "lowest": grouped["ratio"].min().round(6),
            "median": grouped["ratio"].median().round(6),
            "highest": grouped["ratio"].max().round(6),
        }
    )
    table = table.rename(index=_UNPROBED).rename_axis("limit").reset_index()
    return pd.concat([table, _reversed_patterns(machines)], ignore_index=True)


def _reversed_patterns(machines: Sequence[MeasuredMachine]) -> pd.DataFrame:
    """Compare measured copies between sockets with the same copies in the reverse direction.

    As many copies are between the sockets in both, so that their times would be equal if they shared one link.
    """
    ratios, names = [], set()
    for machine in machines:
        rates = {
            (graph.program, graph.statistic, frozenset(graph.flows)): graph.total_bytes_per_s
            for graph in machine.graphs
            if len(inter_socket_routes(with_host_memory(machine.tree), graph.flows, of_memory=False)) > _SEVERAL
        }
        for (program, statistic, flows), rate in rates.items():
            other = rates.get((program, statistic, frozenset(flow[::-1] for flow in flows)))
            if other is not None and other < rate:
                ratios.append(rate / other)
                names.add(machine.name)
    lowest, median, highest = (round(float(np.quantile(ratios, share)), 6) for share in (0, 0.5, 1))
    row = {"limit": SOCKET_ROUTES, "machines": len(names), "graphs": 2 * len(ratios), "in_range": np.nan}
    return pd.DataFrame([{**row, "lowest": lowest, "median": median, "highest": highest}])


def _of_machine(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], found: MachineValidation
) -> list[tuple[str, str, float, float]]:
    """Return class, model and absolute relative error of each validated graph and model, and that of fair sharing."""
    rate = found.calibration.one_way_bytes_per_s
    errors = []
    for graph, row in zip(graphs, found.rows.to_dict("records"), strict=True):
        if not row["judged"]:
            continue
        measured, kind = graph.total_bytes_per_s, str(row["graph_class"])
        forecasts = {PORTS_AND_ENGINES: row["forecast_bytes_per_s"], ENDPOINT_ENGINES: row["engines_bytes_per_s"]}
        if kind not in (DIRECT_LINKS, HOST_COPIES):
            forecasts |= {name: _rate(tree, graph, model, rate) for name, model in MODELS.items()}
        errors += [
            (name_of_class, name, abs(forecast / measured - 1), abs(row["sharing_bytes_per_s"] / measured - 1))
            for name, forecast in forecasts.items()
            for name_of_class in (kind, *_patterns(kind, graph))
        ]
    return errors


def _patterns(kind: str, graph: MeasuredGraph) -> tuple[str, ...]:
    """Return the patterns of a graph with many copies of a GPU: all-to-all also by the program that copies."""
    if kind != MANY_COPIES:
        return ()
    if any(len(set(ends)) == 1 for ends in zip(*graph.flows, strict=True)):
        return ("one GPU from or to all",)
    if PROGRAMS[graph.program].serialised != "none":
        return "all-to-all", "all-to-all, PyTorch"
    return "all-to-all", "all-to-all, reads" if PROGRAMS[graph.program].executor == "target" else "all-to-all, writes"


def _rate(tree: PcieTree, graph: MeasuredGraph, model: Model, bandwidth_bytes_per_s: float) -> float:
    """Return the rate that the program would print if copies took the times of a model."""
    flows = flows_of(tree, graph)
    ends_s = evaluate(
        tree, from_pairs([flows], size_bytes=_SIZE_BYTES), model, bandwidth_bytes_per_s=bandwidth_bytes_per_s, tau=0.0
    ).end_s
    return float(printed_rates(np.array(flows), _SIZE_BYTES, ends_s[np.newaxis], graph.statistic)[0])
