"""Public clusters whose collectives are forecast: cases, baselines, and errors of machines left out of the fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.collectives.clusters.cluster import Cluster, node_of
from fabricast.collectives.clusters.constants import Known
from fabricast.collectives.clusters.model import ClusterModel
from fabricast.collectives.clusters.times import Pair
from fabricast.collectives.expected import coverage, ratio_range, size_class
from fabricast.core.errors import InputError
from fabricast.core.resources import published
from fabricast.inputs.csv_files import CsvRow, read_csv
from fabricast.nccl.costs import Algorithm, CostTable, Operation, bus_factor
from fabricast.nccl.system import parse_version

_NODE_COLUMNS = (
    "machine", "computer", "node", "cards", "card_gbit_s", "network", "process_gpus", "nccl_version", "virtual", "note",
)  # fmt: skip
_TIME_COLUMNS = (
    "machine", "operation", "nodes", "ranks", "setting", "size_bytes", "median_us", "shortest_us", "longest_us", "rows",
)  # fmt: skip
#: Settings of rows that are compared, with the algorithms that they permit.
_SETTINGS = {
    "": None,
    "one rack": None,
    "Ring": frozenset({Algorithm.RING}),
    "NVLS": frozenset({Algorithm.NVLS, Algorithm.NVLS_TREE}),
}
#: Number of nodes above which networks are congested by others: not fitted.
MANY_NODES = 64
MANY_NODES_WORDS = f"more than {MANY_NODES} nodes"
ERROR_COLUMNS = (
    "machine_class", "operations", "size_class", "machines", "rows", "median", "within_band", "within_thirty", "worst",
    "shortest", "longest", "coverage", "with_two_rows", "nccl", "nccl_with_two_rows", "alpha_beta",
)  # fmt: skip
_BAND, _WIDE = 0.15, 0.3
#: Class of sizes within that from 1 MiB, whose range forecasts of such sizes have.
LARGEST_SIZES, LARGEST_BYTES = "from 512 MiB", 2.0**29


def cluster_class(cluster: Cluster) -> str:
    """Return the class of machines that share an error.

    >>> cluster_class(node_of("hgx_h100"))
    'one node'
    """
    if cluster.nodes == 1:
        return "one node"
    if cluster.nodes > MANY_NODES:
        return f"{cluster.network}, {MANY_NODES_WORDS}"
    return cluster.network


def operation_class(operation: Operation) -> str:
    """Return the class of operations that share an error.

    >>> operation_class(Operation.ALLTOALL)
    'alltoall'
    """
    return str(operation) if operation in (Operation.ALLTOALL, Operation.SENDRECV) else "collectives"


@dataclass(frozen=True)
class PublicCase:
    """Measured times of one operation on one public cluster."""

    #: Machine, and the computer that it is a part or a period of.
    machine: str
    computer: str
    cluster: Cluster  # Its description
    operation: Operation
    #: Sizes in bytes and times in s, shape (sizes,).
    size_bytes: NDArray[np.float64]
    measured_s: NDArray[np.float64]
    is_virtual: bool  # Whether the nodes are virtual machines

    @cached_property
    def choices(self) -> list[Pair]:
        """NCCL's choice at each size, which does not depend on the constants."""
        return ClusterModel(self.cluster, self.operation).choices(self.size_bytes)

    def forecast_s(self, known: Mapping[str, float] | None = None) -> NDArray[np.float64]:
        """Return the forecast at each size in s."""
        model = ClusterModel(self.cluster, self.operation, known)
        return model.chosen_s(self.choices, self.size_bytes)


@cache
def public_cases() -> Sequence[PublicCase]:
    """Return the cases of all public machines with a description (cluster_nodes.csv)."""
    folder = published() / "collectives"
    nodes = {row["machine"]: row for row in read_csv(folder / "cluster_nodes.csv", _NODE_COLUMNS)}
    grouped: dict[tuple[str, str, int, int, str], list[CsvRow]] = {}
    for row in read_csv(folder / "cluster_times.csv", _TIME_COLUMNS):
        if row["machine"] in nodes and row["setting"] in _SETTINGS:
            key = (row["machine"], row["operation"], int(row["nodes"]), int(row["ranks"]), row["setting"])
            grouped.setdefault(key, []).append(row)
    return tuple(
        PublicCase(
            machine,
            nodes[machine]["computer"],
            _cluster(nodes[machine], count, ranks, setting),
            Operation(operation),
            np.array([row.number("size_bytes") for row in rows]),
            np.array([row.number("median_us") for row in rows]) * 1e-6,
            nodes[machine]["virtual"] == "yes",
        )
        for (machine, operation, count, ranks, setting), rows in grouped.items()
    )


def _cluster(row: CsvRow, nodes: int, ranks: int, setting: str) -> Cluster:
    """Return the description of a public machine with some nodes and ranks."""
    node = node_of(row["node"])
    if setting == "one rack":
        nodes = 1
    gpus = ranks // nodes
    settings = replace(node.settings, algorithms=_SETTINGS[setting])
    if row["nccl_version"]:
        settings = replace(settings, version=parse_version(row["nccl_version"]))
    cluster = replace(node, gpus=gpus, nodes=nodes, settings=settings)
    if nodes == 1:
        return replace(cluster, process_gpus=min(int(row["process_gpus"]), gpus))
    # Fewer GPUs of a node use fewer of its cards.
    cards = max(1, int(row["cards"]) * gpus // node.gpus)
    return replace(cluster, cards=cards, card_gbit_s=row.number("card_gbit_s"), network=row["network"])


def cluster_times() -> pd.DataFrame:
    """Return the rows of the table cluster_time: measured and forecast times of all public cases."""
    frames = []
    for case in public_cases():
        cluster, choices = case.cluster, case.choices
        model = ClusterModel(cluster, case.operation)
        nccl = model.nccl_s(choices, case.size_bytes)
        frames.append(
            pd.DataFrame(
                {
                    "system": case.machine,
                    "machine_class": cluster_class(cluster),
                    "operation": str(case.operation),
                    "gpu": cluster.gpu,
                    "nodes": cluster.nodes,
                    "ranks": cluster.ranks,
                    "algorithms": " ".join(sorted(map(str, cluster.settings.algorithms or ()))),
                    "size_bytes": case.size_bytes,
                    "measured_s": case.measured_s,
                    "forecast_s": case.forecast_s(),
                    "nccl_s": np.nan if nccl is None else nccl,
                    "algorithm": [str(pair[0]) for pair in choices],
                    "protocol": [str(pair[1]) for pair in choices],
                    "is_virtual": case.is_virtual,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def cluster_errors(left_out: Mapping[str, Known]) -> pd.DataFrame:
    """Return the errors by class of machines and of sizes, each machine left out of the fit of the constants.

    The other columns are the errors with two rows of the machine, those of NCCL's estimate with and without two rows,
    and those of an alpha-beta model of the other machines.
    """
    frames = [_case_frame(case, left_out[case.computer]) for case in public_cases()]
    times = pd.concat(frames, ignore_index=True)
    times["alpha_beta"] = _alpha_beta(times)
    # The largest sizes are a class by themselves, too: rates decide there, and their range is narrower.
    largest = times[times["size_bytes"] >= LARGEST_BYTES]
    times = pd.concat([times, largest.assign(size_class=LARGEST_SIZES)], ignore_index=True)
    rows = []
    for (machine_class, operations, name), part in times.groupby(
        ["machine_class", "operations", "size_class"], sort=True
    ):
        error = part["forecast"]
        ratio = 1 / part["ratio"]
        shortest, longest = ratio_range(part["machine"], ratio)
        numbers = {
            "median": error.median(),
            "within_band": (error <= _BAND).mean(),
            "within_thirty": (error <= _WIDE).mean(),
            "worst": error.max(),
            "shortest": shortest,
            "longest": longest,
            "coverage": coverage(part["machine"], ratio),
            **{column: part[column].median() for column in ERROR_COLUMNS[-4:]},
        }
        row = {"machine_class": machine_class, "operations": operations, "size_class": name}
        counts = {"machines": part["machine"].nunique(), "rows": len(part)}
        rows.append({**row, **counts, **{key: round(float(value), 4) for key, value in numbers.items()}})
    return pd.DataFrame(rows, columns=list(ERROR_COLUMNS))


def _case_frame(case: PublicCase, known: Known) -> pd.DataFrame:
    """Return the relative errors of one case."""
    size, measured = case.size_bytes, case.measured_s
    model = ClusterModel(case.cluster, case.operation, known)
    forecast = model.chosen_s(case.choices, size)
    frame = pd.DataFrame(
        {
            "machine": case.computer,
            "machine_class": cluster_class(case.cluster),
            "operations": operation_class(case.operation),
            "operation": str(case.operation),
            "ranks": case.cluster.ranks,
            "size_class": [size_class(one) for one in size.tolist()],
            "size_bytes": size,
            "measured_s": measured,
            "ratio": forecast / measured,
            "forecast": np.abs(forecast / measured - 1),
        }
    )
    frame["with_two_rows"] = frame["nccl"] = frame["nccl_with_two_rows"] = np.nan
    is_other = np.ones(size.size, dtype=bool)
    is_other[[int(np.argmin(size)), int(np.argmax(size))]] = False
    try:
        tuned, _ = model.calibrated(size, measured)
        error = np.abs(tuned.chosen_s(case.choices, size) / measured - 1)
        frame["with_two_rows"] = np.where(is_other, error, np.nan)
    except InputError:
        pass
    if model.costs is not None:
        nccl = model.nccl_s(case.choices, size)
        assert nccl is not None
        frame["nccl"] = np.abs(nccl / measured - 1)
        if size.size > 2:
            error = np.abs(_two_row_estimate(model.costs, case.choices, size, measured) / measured - 1)
            frame["nccl_with_two_rows"] = np.where(is_other, error, np.nan)
    return frame


def _two_row_estimate(
    costs: CostTable, choices: Sequence[Pair], size: NDArray[np.float64], measured_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return NCCL's estimate with latency and rate scaled to the smallest and the largest size."""
    latency = np.array([costs.costs[pair].latency_us for pair in choices]) * 1e-6
    whole = np.array([costs.time_us(*pair, size)[place] for place, pair in enumerate(choices)]) * 1e-6
    transfer = np.maximum(whole - latency, 0.0)
    small, large = int(np.argmin(size)), int(np.argmax(size))
    of_latency, of_transfer = 1.0, 1.0
    for _ in range(20):
        of_transfer = max((measured_s[large] - of_latency * latency[large]) / max(transfer[large], 1e-12), 0.05)
        of_latency = max((measured_s[small] - of_transfer * transfer[small]) / max(latency[small], 1e-12), 0.05)
    found: NDArray[np.float64] = of_latency * latency + of_transfer * transfer
    return found


def _alpha_beta(times: pd.DataFrame) -> pd.Series:
    """Return the errors of ``start + ranks * hop + bus bytes / rate``, fitted to the other machines of a class."""
    bus = times["size_bytes"] * [
        bus_factor(Operation(operation), ranks)
        for operation, ranks in zip(times["operation"], times["ranks"], strict=True)
    ]
    matrix = np.column_stack([np.ones(len(times)), times["ranks"], bus]) / times["measured_s"].to_numpy()[:, None]
    errors = pd.Series(np.nan, index=times.index)
    keys = ["machine", "machine_class", "operations"]
    for machine, name, operations in times[keys].drop_duplicates().itertuples(index=False):
        is_class = (times["machine_class"] == name) & (times["operations"] == operations)
        is_own = times["machine"] == machine
        others, own = (is_class & ~is_own).to_numpy(), (is_class & is_own).to_numpy()
        if others.any():
            scale = matrix[others].max(axis=0)
            found, *_ = np.linalg.lstsq(matrix[others] / scale, np.ones(int(others.sum())), rcond=None)
            errors[own] = np.abs(matrix[own] @ (found / scale) - 1)
    return errors
