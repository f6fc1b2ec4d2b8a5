"""Measured patterns of concurrent copies as table rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fabricast.inputs.csv_files import read_csv
from fabricast.pcie.graphs.congestion_graphs import Pair, from_pairs
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.tables.graphs import GraphTables, graph_tables
from fabricast.pcie.topology.builtin import load_tree

#: Program of the rows of config/published/host_copy_rates.csv that hold copies in both directions.
HOST_COPY_PROGRAM = "fabricast probes"
_COLUMNS = [
    "system",
    "topology",
    "pattern",
    "communications",
    "statistic",
    "measured_gb_per_s",
    "solo_gb_per_s",
    "source",
]


@dataclass(frozen=True)
class Probe:
    """Measured pattern of concurrent copies."""

    graph: str  # Name of the congestion graph
    #: Machine, topology of the machine, and description of the pattern.
    system: str
    topology: str
    pattern: str
    pairs: tuple[Pair, ...]  # Source and target of each copy
    #: Statistic of the measured rate: mean over the copies, or total of all copies: 'mean_per_flow', 'total'.
    statistic: str
    measured_bytes_per_s: float  # Measured rate in bytes/s
    solo_bytes_per_s: float  # Rate of an isolated copy on the same machine in bytes/s
    source: str  # Source of the figures
    size_bytes: float | None = None  # Size of each copy in bytes, of probes that compare sizes


def _slug(text: str) -> str:
    """Return a text in lower-case letters, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def read_probes(path: Path | str) -> list[Probe]:
    """Read measured probes from CSV; lines that start with ``#`` are comments."""
    probes = []
    for row in read_csv(path, _COLUMNS):
        try:
            pairs = tuple((int(s), int(t)) for s, t in (pair.split(">") for pair in row["communications"].split()))
        except ValueError as error:
            raise row.error(f"communications are not pairs of numbers such as 0>1: {error}") from error
        measured, solo = row.number("measured_gb_per_s"), row.number("solo_gb_per_s")
        if row["statistic"] not in ("mean_per_flow", "total") or min(measured, solo) <= 0:
            raise row.error(
                f"statistic is '{row['statistic']}' with rates {measured:g} and {solo:g}, expected mean_per_flow or "
                "total and positive rates"
            )
        system, topology, pattern = row["system"], row["topology"], row["pattern"]
        probes.append(
            Probe(
                f"{topology}.probe.{_slug(f'{system} {pattern}')}",
                system,
                topology,
                pattern,
                pairs,
                row["statistic"],
                measured * 1e9,
                solo * 1e9,
                row["source"],
            )
        )
    return probes


def host_copy_probes(path: Path | str) -> list[Probe]:
    """Read copies in both directions between host and GPU, of several sizes, with the mean of both isolated rates."""
    rates: dict[tuple[str, float], dict[str, float]] = {}
    columns = ["gpu", "program", "size_bytes", "copies", "median_gb_per_s"]
    for row in read_csv(path, columns, ["repetitions", "lowest_gb_per_s", "highest_gb_per_s"]):
        if row["program"] == HOST_COPY_PROGRAM:
            of_size = rates.setdefault((row["gpu"], row.number("size_bytes")), {})
            of_size[row["copies"]] = row.number("median_gb_per_s") * 1e9
    return [
        Probe(
            f"host_gpu.probe.{_slug(gpu)}_both_directions_{size:.0f}_bytes",
            gpu,
            "host_gpu",
            "both directions",
            ((0, 1), (1, 0)),
            "total",
            rate["both ways"],
            (rate["host to GPU"] + rate["GPU to host"]) / 2,
            HOST_COPY_PROGRAM,
            size,
        )
        for (gpu, size), rate in rates.items()
    ]


@dataclass(frozen=True)
class ProbeTables:
    """Table rows of measured patterns."""

    graphs: GraphTables  # Rows of the tables graph and communication
    #: Rows as in schema.sql.
    prediction: pd.DataFrame
    reference: pd.DataFrame


def probe_tables(probes: list[Probe], models: list[str], *, size_bytes: float, tau: float) -> ProbeTables:
    """Predict the rate of every probe with every model."""
    frames, predictions, references = [], [], []
    for probe in probes:
        tree = load_tree(probe.topology)
        size = size_bytes if probe.size_bytes is None else probe.size_bytes
        graphs = from_pairs([probe.pairs], size_bytes=size, names=[probe.graph], families=["probe"])
        frames.append(graph_tables(tree, graphs, subset="probe"))
        common = {"study": "pcie", "case_id": probe.graph, "item": "", "quantity": "rate", "unit": "bytes/s"}
        for model in models:
            end_s = evaluate(tree, graphs, MODELS[model], bandwidth_bytes_per_s=probe.solo_bytes_per_s, tau=tau).end_s
            per_flow = float((size / end_s).mean())
            total = float(size * end_s.size / end_s.max())
            rate = per_flow if probe.statistic == "mean_per_flow" else total
            predictions.append(common | {"model": model, "value": rate})
        references.append(
            common
            | {
                "kind": "measured",
                "origin": f"{probe.source.split()[0]} {probe.system}",
                "tag": "measured",
                "value": probe.measured_bytes_per_s,
            }
        )
    return ProbeTables(
        GraphTables(
            pd.concat([frame.graph for frame in frames], ignore_index=True),
            pd.concat([frame.communication for frame in frames], ignore_index=True),
        ),
        pd.DataFrame(predictions),
        pd.DataFrame(references),
    )
