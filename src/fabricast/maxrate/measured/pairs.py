"""Measured runs on this machine: k pairs of processes, through shared memory or loopback TCP.

In shared memory there is no network card: the rate that all pairs reach together is that of
the node's copies.
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

__all__ = ["PATHS", "largest_pairs", "measure_all", "measure_pairs", "read_runs", "run_measurements", "write_cells"]

#: Variables of the environment that choose a path, for MPICH and Open MPI alike.
PATHS: dict[str, dict[str, str]] = {
    "shared_memory": {},
    # Messages to the machine's own address do not leave it.
    "tcp": {
        "MPIR_CVAR_NOLOCAL": "1", "FI_PROVIDER": "tcp", "UCX_TLS": "tcp,self",
        "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo",
    },
}  # fmt: skip
#: A burst whose median is further above its 5 % quantile met other work.
NOISY_RATIO = 1.5
_STATISTICS = ("iterations", "t_min_s", "t_p05_s", "t_p25_s", "t_p50_s", "t_p95_s", "t_max_s", "t_mean_s", "loadavg")


def largest_pairs(*, forced: int | None = None) -> int:
    """Return how many pairs this machine can run without sharing cores.

    Parameters
    ----------
    forced : int, optional
        Pairs that the user wants whatever the cores.

    Returns
    -------
    int
        Half of the cores this process may use, at least 1.

    Raises
    ------
    InputError
        If there is one core only, and nothing is forced.
    """
    if forced is not None:
        return forced
    cores = available_cores()
    if cores < 2:
        raise InputError("nothing measured: one core only, expected two for a pair; or give the pairs")
    return cores // 2


def measure_pairs(
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
    """Measure ping-pongs and keep them as a new run beside earlier ones.

    Parameters
    ----------
    folder : Path or str
        Where runs are kept.
    path : {'shared_memory', 'tcp'}
        How messages travel.
    sizes : sequence of int
        Bytes of messages.
    bursts : int
        Repetitions of every cell, spread over the run.
    seconds : float
        Time of each burst.
    pairs : int, optional
        Most pairs; as many as cores allow if left out.
    launcher : str, default 'mpiexec'
        mpiexec, mpirun or srun.
    environment : dict, optional
        Further variables, such as an eager limit to sweep.

    Returns
    -------
    Path
        CSV file of the run.
    """
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
            "fabricast.maxrate.measured.ping_pong", [str(temporary), plan], ranks=2 * most, timeout_s=longest,
            launcher=launcher, environment={**PATHS[path], **(environment or {})},
        )  # fmt: skip
    return target


def read_runs(files: Sequence[Path]) -> pd.DataFrame:
    """Read measured runs.

    Parameters
    ----------
    files : sequence of Path
        Files of `measure_pairs`.

    Returns
    -------
    pandas.DataFrame
        One row a burst: run, path, processes, size_bytes, burst and statistics.
    """
    rows = []
    for file in files:
        for row in read_csv(file, COLUMNS):
            values = {name: row.number(name) for name in _STATISTICS}
            where = {"run": file.stem, "path": file.stem.split(".")[0]}
            cell = {name: int(row.number(name)) for name in ("processes", "size_bytes", "burst")}
            rows.append(where | cell | values)
    return pd.DataFrame(rows)


def run_measurements(runs: pd.DataFrame, *, system: str) -> pd.DataFrame:
    """Turn runs into cells: the lowest 5 % quantile of the quiet bursts.

    Parameters
    ----------
    runs : pandas.DataFrame
        As `read_runs` gives.
    system : str
        Name of the machine.

    Returns
    -------
    pandas.DataFrame
        Columns of the table maxrate_measurement; a cell without any quiet burst is left out.
    """
    quiet = runs[runs["t_p50_s"] <= NOISY_RATIO * runs["t_p05_s"]]
    cells = quiet.groupby(["path", "processes", "size_bytes"], sort=True)["t_p05_s"]
    table = cells.agg(time_s="min", high="max", repetitions="count").reset_index()
    return table.assign(
        dataset="this_machine." + table["path"], system=system, convention="round_trip",
        estimator="lowest 5 % quantile of quiet bursts", spread=table["high"] / table["time_s"] - 1,
    ).drop(columns="high")  # fmt: skip


def measure_all(
    folder: Path, paths: Sequence[str], settings: dict[str, Any], *, progress: Callable[[int], None] | None = None
) -> str | None:
    """Measure every path, or say why nothing was measured.

    Parameters
    ----------
    folder : Path
        Where runs are kept.
    paths : sequence of str
        Keys of `PATHS`.
    settings : dict
        Further arguments of `measure_pairs`.
    progress : callable, optional
        Called with 1 after every path.

    Returns
    -------
    str or None
        Why this machine measured nothing; None if it measured.
    """
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
        measure_pairs(folder, path=path, **settings)
        if progress is not None:
            progress(1)
    return None


def write_cells(folder: Path, output: Path, reason: str | None) -> None:
    """Write the cells of all runs of this machine as measurements.

    Parameters
    ----------
    folder : Path
        Runs of `measure_pairs`.
    output : Path
        CSV file for `fabricast.maxrate.measurements.read_measurements`.
    reason : str or None
        Why there is no new run.
    """
    files = sorted(folder.glob("*.csv"))
    with atomic_write(output) as temporary:
        if not files:
            temporary.write_text(f"# nothing measured: {reason}\n", encoding="utf-8")
            return
        runs = read_runs(files)
        cells = run_measurements(runs, system=processor_name())
        noisy = int((runs["t_p50_s"] > NOISY_RATIO * runs["t_p05_s"]).sum())
        note = f"# {len(files)} runs, {len(runs)} bursts, {noisy} of them noisy and not used\n"
        temporary.write_text(note + cells.to_csv(index=False, lineterminator="\n"), encoding="utf-8")
