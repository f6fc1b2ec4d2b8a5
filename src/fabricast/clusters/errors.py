"""Expected error of copies between nodes, by comparison with public measurements."""

from __future__ import annotations

from functools import cache

from fabricast.clusters.machine import ClusterMachine
from fabricast.collectives.clusters.cluster import VERBS
from fabricast.core.resources import published
from fabricast.inputs.csv_files import CsvRow, read_csv

#: Size in bytes of the smallest copies that were compared.
_SMALLEST = 2.0**20


ERROR_COLUMNS = ("pattern", "machines", "rows", "median", "worst", "fitted")


@cache
def recorded_errors() -> tuple[CsvRow, ...]:
    """Return the rows of config/published/cluster_copy_errors.csv."""
    return tuple(read_csv(published() / "cluster_copy_errors.csv", ERROR_COLUMNS))


def error_text(cluster: ClusterMachine, smallest_bytes: float) -> str:
    """Return the expected error of copies between nodes in words; unknown for other machines than those compared."""
    compared = len(cluster.kinds) == 1 and cluster.has_gpudirect and cluster.kind_of_network == VERBS
    if not compared or smallest_bytes < _SMALLEST:
        return (
            "expected error of copies between nodes: unknown; only copies from 1 MiB between equal nodes over "
            "InfiniBand or RoCE with GPUDirect were compared with measurements"
        )
    parts = []
    for row in recorded_errors():
        machines = int(row["machines"])
        count = "1 machine" if machines == 1 else f"{machines} machines"
        parts.append(f"{100 * row.number('median'):.2g} % {row['pattern']} ({count})")
    text = (
        "error on the machines that were compared, to which rates were fitted in part (median): "
        f"{', '.join(parts)}; few channels limit sendrecv, which 'collective' forecasts"
    )
    return text if cluster.network is None else f"{text}; links of the network were not compared with measurements"
