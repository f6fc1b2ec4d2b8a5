"""Ping-pong measurements of local process pairs via shared memory or TCP.

Shared memory does not use a NIC: the total rate of all pairs is limited by the memory copies of the node.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from fabricast.core.errors import InputError, unknown_name
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.files import atomic_write
from fabricast.maxrate.measured.ping_pong import COLUMNS
from fabricast.runtime.machine import available_cores, processor_name
from fabricast.runtime.mpi_launch import launch, unavailable_reason

#: Environment variables of MPICH and Open MPI that select a path.
PATHS: dict[str, dict[str, str]] = {
    "shared_memory": {},
    # Messages to a loopback address do not leave the machine.
    "tcp": {
        "MPIR_CVAR_NOLOCAL": "1",
        "FI_PROVIDER": "tcp",
        "UCX_TLS": "tcp,self",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "tcp,self",
        "OMPI_MCA_btl_tcp_if_include": "lo",
    },
}
#: Ratio of median to 5 % quantile above which a burst is considered disturbed by other work.
NOISY_RATIO = 1.5
_STATISTICS = ("iterations", "t_min_s", "t_p05_s", "t_p25_s", "t_p50_s", "t_p95_s", "t_max_s", "t_mean_s", "loadavg")


def largest_pairs(*, forced: int | None = None) -> int:
    """Return the number of process pairs that can run without sharing cores."""
    if forced is not None:
        return forced
    cores = available_cores()
    if cores < 2:
        raise InputError(
            "nothing measured: 1 core is available, expected 2 per pair; specify the number of pairs to force it"
        )
    return cores // 2


def _measure_pairs(
    folder: Path | str,
    *,
    path: str,
    sizes: Sequence[int],
    bursts: int,
    seconds: float,
    pairs: int | None = None,
    launcher: str = "mpiexec",
    environment: dict[str, str] | None = None,
) -> Path:
    """Measure ping-pongs and save them as a new run."""
    if path not in PATHS:
        raise unknown_name("path", path, PATHS)
    most = largest_pairs(forced=pairs)
    counts = sorted({1, *(2**i for i in range(1, 12) if 2**i < most), most})
    plan = json.dumps({"pairs": counts, "sizes": list(sizes), "bursts": bursts, "seconds": seconds})
    longest = 30 + 4 * len(counts) * len(sizes) * bursts * max(seconds, 0.01) * 10
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    target = Path(folder) / f"{path}.{stamp}.csv"
    with atomic_write(target) as temporary:
        launch(
            "fabricast.maxrate.measured.ping_pong",
            [str(temporary), plan],
            ranks=2 * most,
            timeout_s=longest,
            launcher=launcher,
            environment={**PATHS[path], **(environment or {})},
        )
    return target


def read_runs(files: Sequence[Path]) -> pd.DataFrame:
    """Read measured runs."""
    rows = []
    for file in files:
        for row in read_csv(file, COLUMNS):
            values = {name: row.number(name) for name in _STATISTICS}
            where = {"run": file.stem, "path": file.stem.split(".")[0]}
            cell = {name: int(row.number(name)) for name in ("processes", "size_bytes", "burst")}
            rows.append(where | cell | values)
    return pd.DataFrame(rows)


def run_measurements(runs: pd.DataFrame, *, system: str) -> pd.DataFrame:
    """Reduce runs to cells: the lowest 5 % quantile of the quiet bursts."""
    quiet = runs[runs["t_p50_s"] <= NOISY_RATIO * runs["t_p05_s"]]
    cells = quiet.groupby(["path", "processes", "size_bytes"], sort=True)["t_p05_s"]
    table = cells.agg(time_s="min", high="max", repetitions="count").reset_index()
    return table.assign(
        dataset="this_machine." + table["path"],
        system=system,
        convention="round_trip",
        estimator="lowest 5 % quantile of quiet bursts",
        spread=table["high"] / table["time_s"] - 1,
    ).drop(columns="high")


def measure_all(
    folder: Path, paths: Sequence[str], settings: dict[str, Any], *, progress: Callable[[int], None] | None = None
) -> str | None:
    """Measure every path, or report why nothing was measured."""
    reason = unavailable_reason(settings["launcher"])
    if reason is None:
        try:
            largest_pairs(forced=settings["pairs"])
        except InputError as error:
            reason = str(error)
    if reason is not None:
        sys.stderr.write(f"nothing measured: {reason}\n")
        return reason
    for path in paths:
        _measure_pairs(folder, path=path, **settings)
        if progress is not None:
            progress(1)
    return None


def write_cells(folder: Path, output: Path, reason: str | None) -> None:
    """Write the cells of all local runs as measurements."""
    files = sorted(folder.glob("*.csv"))
    with atomic_write(output) as temporary:
        if not files:
            temporary.write_text(f"# nothing measured: {reason}\n", encoding="utf-8")
            return
        runs = read_runs(files)
        cells = run_measurements(runs, system=processor_name())
        noisy = int((runs["t_p50_s"] > NOISY_RATIO * runs["t_p05_s"]).sum())
        note = f"# {len(files)} runs, {len(runs)} bursts, {noisy} noisy bursts excluded\n"
        temporary.write_text(note + cells.to_csv(index=False, lineterminator="\n"), encoding="utf-8")
