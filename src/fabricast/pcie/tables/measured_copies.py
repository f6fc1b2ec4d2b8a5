"""Measured copies of several machines as table rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fabricast.core.warnings import CodedWarning
from fabricast.inputs.csv_files import read_csv
from fabricast.pcie.machines.pause_validation import ValidatedMachine, left_out_rates
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.measurements.files import read_measured_copies
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.tables.measured_errors import FORECASTS, error_rows, feature_rows
from fabricast.pcie.tables.measured_packets import simulate_machine
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.tree import PcieTree, single_copy_rate_of


@dataclass(frozen=True)
class MeasuredMachine:
    """Measured copies of one machine and its topology."""

    name: str  # Name of the machine
    tree: PcieTree  # Topology
    graphs: Sequence[MeasuredGraph]  # Measured copies
    warnings: tuple[CodedWarning, ...] = ()  # Warnings about the measurements
    user_supplied: bool = False  # Whether the machine is user-supplied


@dataclass(frozen=True)
class MeasuredCopyTables:
    """Table rows of measured copies."""

    #: Rows as in schema.sql; only validated graphs have predictions and references.
    measured_copy: pd.DataFrame
    machine_warning: pd.DataFrame
    prediction: pd.DataFrame
    reference: pd.DataFrame
    parameter: pd.DataFrame
    error_histogram: pd.DataFrame
    error_feature: pd.DataFrame


def public_machines(path: Path | str) -> list[MeasuredMachine]:
    """Return the machines in a file of published measurements.

    Each distinct pair of the columns system and topology is one machine. Machines are in the order of their first rows.
    """
    optional = ("graph", "communications", "program", "total_gb_per_s", "kind", "role", "source")
    systems = dict.fromkeys(
        (row["system"], row["topology"]) for row in read_csv(path, ("system", "topology"), optional)
    )
    return [
        MeasuredMachine(system, load_tree(topology), read_measured_copies(path, system=system))
        for system, topology in systems
    ]


def measured_copy_tables(machines: Sequence[MeasuredMachine], *, seed: int) -> MeasuredCopyTables:
    """Validate forecasts against the measured copies of every machine."""
    seed %= 2**31
    frames, histograms, features, parameters = [], [], [], []
    warnings: list[tuple[str, int, bool, str, str]] = []
    compared = [machine for machine in machines if machine.graphs]
    validated = [validated_machine(machine, seed) for machine in compared]
    left_out = left_out_rates(validated, seed=seed)
    for machine, one, rates in zip(compared, validated, left_out, strict=True):
        tree, graphs, validation = one.tree, one.graphs, one.validation
        simulated = simulate_machine(tree, graphs, validation, seed=seed)
        rows = pd.concat([validation.rows, simulated], axis=1).assign(left_out_bytes_per_s=rates)
        warnings += _warning_rows(machine, validation.warnings)
        histograms.append(error_rows(rows, machine.name))
        features.append(feature_rows(tree, graphs, rows, machine.name))
        frames.append(rows.assign(machine=machine.name, topology=tree.name, user_supplied=machine.user_supplied))
        values = validation.calibration.values
        for name, source in validation.calibration.sources.items():
            tag = "measured" if "measured," in source else "derived"
            parameters.append(
                {
                    "study": "pcie",
                    "system": f"machine.{machine.name}",
                    "name": name,
                    "value": values[name],
                    "unit": "bytes/s",
                    "tag": tag,
                    "source": source,
                }
            )
    for machine in machines:
        # A machine without graphs says why it has none.
        warnings += [] if machine.graphs else _warning_rows(machine, machine.warnings)
    rows, histogram, feature = (pd.concat(parts, ignore_index=True) for parts in (frames, histograms, features))
    warning = pd.DataFrame(warnings, columns=["machine", "number", "user_supplied", "code", "text"])
    return MeasuredCopyTables(rows, warning, *_comparable(rows), pd.DataFrame(parameters), histogram, feature)


def _warning_rows(machine: MeasuredMachine, found: Sequence[CodedWarning]) -> list[tuple[str, int, bool, str, str]]:
    """Return the rows of warnings about a machine."""
    return [
        (machine.name, number, machine.user_supplied, str(warning.code), warning.text)
        for number, warning in enumerate(found, 1)
    ]


def validated_machine(machine: MeasuredMachine, seed: int) -> ValidatedMachine:
    """Return a machine with its measured copies and their forecasts."""
    tree, graphs = machine.tree, machine.graphs
    validation = validate_machine(
        tree, graphs, one_way_bytes_per_s=single_copy_rate_of(tree), seed=seed, warnings=machine.warnings
    )
    return ValidatedMachine(tree, graphs, validation, machine.user_supplied)


def _comparable(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return predictions and references of validated graphs.

    The graph class is part of the quantity.
    """
    judged = rows[rows["judged"]].reset_index(drop=True)
    common = pd.DataFrame(
        {
            "study": "pcie",
            "case_id": _cases(judged["machine"].tolist(), judged["graph"].tolist()),
            "item": "",
            "quantity": "total rate, " + judged["graph_class"],
            "unit": "bytes/s",
        }
    )
    predictions = [
        common.assign(model=model, value=judged[column]).dropna(subset="value") for column, model in FORECASTS.items()
    ]
    reference = common.assign(
        kind="measured",
        origin=judged["machine"],
        value=judged["measured_bytes_per_s"],
        spread=judged["spread_bytes_per_s"],
        tag="measured",
    )
    return pd.concat(predictions, ignore_index=True), reference


def _cases(machines: list[str], graphs: list[str]) -> list[str]:
    """Return an identifier of each graph; equal ones, of names in other alphabets or cases, are numbered."""
    seen: Counter[str] = Counter()
    cases = []
    for machine, graph in zip(machines, graphs, strict=True):
        slug = re.sub(r"[^a-z0-9>+<-]+", "_", f"{machine}.{graph}".lower()).strip("_")
        seen[slug] += 1
        cases.append(f"copies.{slug}" + (f".{seen[slug]}" if seen[slug] > 1 else ""))
    return cases
