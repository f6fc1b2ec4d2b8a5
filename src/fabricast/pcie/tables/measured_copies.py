"""Measured copies of several machines as rows of the tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fabricast.inputs.csv_files import read_csv
from fabricast.pcie.machines.left_out_pause import JudgedMachine, left_out_rates
from fabricast.pcie.machines.packet_simulation import simulate_machine
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.measurements.addresses import address_doubts
from fabricast.pcie.measurements.files import copies_of_machine
from fabricast.pcie.tables.measured_errors import FORECASTS, error_rows, feature_rows
from fabricast.pcie.topology.files import load_tree
from fabricast.pcie.topology.tree import one_way_of

__all__ = ["Machine", "MeasuredCopyTables", "measured_copy_tables", "public_machines"]


@dataclass(frozen=True)
class Machine:
    """Measured copies of one machine, and where its tree is.

    Parameters
    ----------
    name, topology : str
        Name, and built-in topology or file.
    path : Path
        Measurements.
    system : str or None
        Value of the column ``system`` of its rows; None for all rows.
    program : str
        Program of rows that name none.
    own : bool
        Whether it is the user's.
    """

    name: str
    topology: str
    path: Path
    system: str | None = None
    program: str = "independent"
    own: bool = False


@dataclass(frozen=True)
class MeasuredCopyTables:
    """Rows that measured copies add to the tables.

    Parameters
    ----------
    measured_copy, machine_remark, prediction, reference, parameter, error_histogram, error_feature : pandas.DataFrame
        Rows as in schema.sql; only judged graphs have predictions and references.
    """

    measured_copy: pd.DataFrame
    machine_remark: pd.DataFrame
    prediction: pd.DataFrame
    reference: pd.DataFrame
    parameter: pd.DataFrame
    error_histogram: pd.DataFrame
    error_feature: pd.DataFrame


def public_machines(path: Path | str) -> list[Machine]:
    """Return the machines of a file with the columns system and topology, in the order of their first rows."""
    known = ("graph", "communications", "program", "total_gb_per_s", "role", "source")
    found = dict.fromkeys((row["system"], row["topology"]) for row in read_csv(path, ("system", "topology"), known))
    return [Machine(system, topology, Path(path), system) for system, topology in found]


def measured_copy_tables(machines: list[Machine], *, seed: int) -> MeasuredCopyTables:
    """Hold forecasts against the measured copies of every machine.

    Parameters
    ----------
    machines : list of Machine
        Machines, each calibrated on its own copies alone.
    seed : int
        Root seed.

    Returns
    -------
    MeasuredCopyTables
        Rows of all machines.

    Raises
    ------
    InputError
        If a file is not as expected, or an endpoint is unknown.
    """
    seed %= 2**31
    frames, histograms, features, parameters = [], [], [], []
    remarks: list[tuple[str, int, bool, str]] = []
    judged = [_judged(machine, seed) for machine in machines]
    left_out = left_out_rates(judged, seed=seed)
    for machine, one, rates in zip(machines, judged, left_out, strict=True):
        tree, graphs, found = one.tree, one.graphs, one.validation
        simulated = simulate_machine(tree, graphs, found, seed=seed)
        rows = pd.concat([found.rows, simulated], axis=1).assign(left_out_bytes_per_s=rates)
        remarks += [(machine.name, number, machine.own, text) for number, text in enumerate(found.remarks, 1)]
        histograms.append(error_rows(rows, machine.name))
        features.append(feature_rows(tree, graphs, rows, machine.name))
        frames.append(rows.assign(machine=machine.name, topology=tree.name, own=machine.own))
        values = found.calibration.values
        for name, source in found.calibration.source.items():
            tag = "measured" if "measured," in source else "derived"
            parameters.append(
                {"study": "pcie", "system": f"machine.{machine.name}", "name": name, "value": values[name],
                 "unit": "bytes/s", "tag": tag, "source": source}
            )  # fmt: skip
    rows, histogram, feature = (pd.concat(parts, ignore_index=True) for parts in (frames, histograms, features))
    remark = pd.DataFrame(remarks, columns=["machine", "number", "own", "remark"])
    return MeasuredCopyTables(rows, remark, *_comparable(rows), pd.DataFrame(parameters), histogram, feature)


def _judged(machine: Machine, seed: int) -> JudgedMachine:
    tree = load_tree(machine.topology)
    graphs = copies_of_machine(tree, machine.path, program=machine.program, system=machine.system)
    doubts = address_doubts(tree, machine.path)
    found = validate_machine(tree, graphs, one_way_bytes_per_s=one_way_of(tree), seed=seed, doubts=doubts)
    return JudgedMachine(tree, graphs, found, machine.own)


def _comparable(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return predictions and references of judged graphs; the quantity tells the class."""
    judged = rows[rows["judged"]].reset_index(drop=True)
    common = pd.DataFrame(
        {
            "study": "pcie",
            "case_id": [_case(*names) for names in zip(judged["machine"], judged["graph"], strict=True)],
            "item": "",
            "quantity": "total rate, " + judged["graph_class"],
            "unit": "bytes/s",
        }
    )
    predictions = [
        common.assign(model=model, value=judged[column]).dropna(subset="value") for column, model in FORECASTS.items()
    ]
    reference = common.assign(kind="measured", origin=judged["machine"], value=judged["measured_bytes_per_s"],
                              spread=judged["spread_bytes_per_s"], tag="measured")  # fmt: skip
    return pd.concat(predictions, ignore_index=True), reference


def _case(machine: str, graph: str) -> str:
    slug = re.sub(r"[^a-z0-9>+<-]+", "_", f"{machine}.{graph}".lower()).strip("_")
    return f"copies.{slug}"
