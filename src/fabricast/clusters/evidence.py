"""Errors of copies between nodes against public measurements: all-to-all and sends of NCCL, messages of MPI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from fabricast.clusters.build import build_cluster
from fabricast.clusters.errors import ERROR_COLUMNS
from fabricast.clusters.forecast import forecast_copies
from fabricast.clusters.machine import ClusterMachine, NodeMachine
from fabricast.collectives.clusters.constants import known_constants
from fabricast.core.resources import published
from fabricast.inputs.cluster_files import ClusterStatement, NodeKind
from fabricast.inputs.csv_files import read_csv
from fabricast.machine.build import machine_of_tree
from fabricast.networks.patterns import rank_pairs
from fabricast.pcie.topology.parts import Vertex
from fabricast.pcie.topology.tree import PcieTree

_SMALLEST = 1 << 20
_ALL_TO_ALL, _SENDS = "all-to-all of 32 MiB and more", "NCCL's sendrecv of 32 MiB and more"
_MESSAGES = "MPI messages of 1 to 4 MiB of several processes"
#: What of each pattern was fitted on the same machine.
_FITTED = {
    _ALL_TO_ALL: "share of the rate of a card with several peers",
    _SENDS: "nothing",
    _MESSAGES: "rate of one process: the row of one process of the same size",
}
#: Data sets of MPI with the rate of their card in Gbit/s.
_DATASETS = {"alaska_ib": 100.0, "alaska_roce": 25.0, "csd3_ib": 100.0}
#: Machine with all-to-all and sends between nodes, and its node.
_MACHINE, _NODE, _CARDS = "xxrjun-h100", "hgx_h100", 8


class _MeasuredPattern(NamedTuple):
    """Measured time of copies that start together, and their forecast."""

    pattern: str
    machine: str
    size_bytes: float
    measured_s: float
    forecast_s: float


def measured_patterns() -> Iterator[_MeasuredPattern]:
    """Yield the public measurements of copies between nodes from 1 MiB with their forecasts."""
    yield from _of_nccl()
    yield from _of_mpi()


def copy_errors() -> pd.DataFrame:
    """Return the errors by pattern: one row for each, with the columns of `ERROR_COLUMNS`."""
    table = pd.DataFrame(measured_patterns())
    table["error"] = (table["forecast_s"] / table["measured_s"] - 1).abs()
    rows = [
        (name, part["machine"].nunique(), len(part), part["error"].median(), part["error"].max(), _FITTED[str(name)])
        for name, part in table.groupby("pattern", sort=False)
    ]
    return pd.DataFrame(rows, columns=list(ERROR_COLUMNS)).round({"median": 4, "worst": 4})


def _of_nccl() -> Iterator[_MeasuredPattern]:
    """Yield all-to-all and sends to the next rank of a cluster of ten nodes."""
    columns = ("machine", "operation", "nodes", "ranks", "setting", "size_bytes", "median_us", "shortest_us")
    path = published() / "collectives" / "cluster_times.csv"
    for row in read_csv(path, (*columns, "longest_us", "rows")):
        nodes, ranks, size = int(row["nodes"]), int(row["ranks"]), row.number("size_bytes")
        is_wanted = row["machine"] == _MACHINE and nodes > 1 and size >= _SMALLEST and not row["setting"]
        if not is_wanted or row["operation"] not in ("alltoall", "sendrecv"):
            continue
        gpus = ranks // nodes
        kind = NodeKind(_NODE, nodes, f"{_CARDS}x400")
        cluster = build_cluster(ClusterStatement(_MACHINE, (kind,), gpus=gpus, network="InfiniBand"))
        is_all = row["operation"] == "alltoall"
        # The size of nccl-tests is that of the whole buffer of a rank, and each rank gets an equal part of it.
        words = f"all_to_all:{ranks}" if is_all else f"ring:{ranks}"
        pairs = rank_pairs(words)
        sizes = np.full(pairs.source.size, size / ranks if is_all else size)
        found = forecast_copies(cluster, pairs.source, pairs.target, sizes, alternatives=False)
        pattern = _ALL_TO_ALL if is_all else _SENDS
        yield _MeasuredPattern(pattern, _MACHINE, size, row.number("median_us") * 1e-6, found.time_s)


def _of_mpi() -> Iterator[_MeasuredPattern]:
    """Yield pairs of processes on two nodes that exchange messages over one card at the same time."""
    columns = ("dataset", "system", "path", "processes", "size_bytes", "time_s", "convention", "estimator")
    rows = [
        row
        for row in read_csv(published() / "maxrate_measurements.csv", (*columns, "repetitions", "spread"))
        if row["dataset"] in _DATASETS and row.number("size_bytes") >= _SMALLEST
    ]
    alone = {
        (row["dataset"], row["size_bytes"]): row.number("size_bytes") / row.number("time_s")
        for row in rows
        if row["processes"] == "1"
    }
    for row in rows:
        processes, size = int(row["processes"]), row.number("size_bytes")
        if processes == 1:
            continue
        rate = alone[row["dataset"], row["size_bytes"]]
        cluster = _processes(processes, _DATASETS[row["dataset"]], rate)
        source = np.arange(processes)
        found = forecast_copies(cluster, source, source + processes, np.full(processes, size), alternatives=False)
        yield _MeasuredPattern(_MESSAGES, row["dataset"], size, row.number("time_s"), found.time_s)


def _processes(count: int, gbit_s: float, process_bytes_per_s: float) -> ClusterMachine:
    """Return two nodes with processes in host memory and one card, without a limit inside the nodes."""
    ends = [Vertex(str(process), "endpoint", "RC", capacity=1000.0) for process in range(count)]
    tree = PcieTree(
        "node",
        (
            Vertex("RC", "root_complex", None),
            *ends,
            Vertex("nic0", "endpoint", "RC", capacity=1000.0, network_card=True),
        ),
        bandwidth_bytes_per_s=100e9,
    )
    rate = known_constants()["verbs_share"] * gbit_s * 1e9 / 8
    node = NodeMachine("node", machine_of_tree(tree), tuple(map(str, range(count))), rate, rate)
    return ClusterMachine(
        "two nodes", (node,), np.zeros(2, dtype=np.int64), process_bytes_per_s=process_bytes_per_s, latency_s=0.0
    )
