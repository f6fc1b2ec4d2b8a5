"""Expected error of copies between nodes, by comparison with public measurements."""

from __future__ import annotations

from functools import cache

from fabricast.clusters.machine import ClusterMachine
from fabricast.core.resources import published
from fabricast.inputs.csv_files import CsvRow, read_csv

__all__ = ["ERROR_COLUMNS", "error_text", "recorded_errors"]

ERROR_COLUMNS = ("pattern", "machines", "rows", "median", "worst", "fitted")


@cache
def recorded_errors() -> tuple[CsvRow, ...]:
    """Return the rows of config/published/cluster_copy_errors.csv."""
    return tuple(read_csv(published() / "cluster_copy_errors.csv", ERROR_COLUMNS))


def error_text(cluster: ClusterMachine) -> str:
    """Return the expected error of copies between nodes in words."""
    parts = []
    for row in recorded_errors():
        machines = int(row["machines"])
        count = "1 machine" if machines == 1 else f"{machines} machines"
        parts.append(f"{100 * row.number('median'):.2g} % {row['pattern']} ({count})")
    text = (
        f"expected error of copies between nodes, from 1 MiB (median): {', '.join(parts)}; few channels limit "
        "sendrecv, which 'collective' forecasts"
    )
    return text if cluster.network is None else f"{text}; links of the network were not compared with measurements"
