"""The files of a measured run on a GPU, or of the finding that there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from fabricast.files import write_text
from fabricast.gpucentric.cuda_device import Gpu, why_not
from fabricast.gpucentric.gpu_runs import CELL_COLUMNS, measure_gpu
from fabricast.gpucentric.gpu_tables import NO_CELLS, gpu_parameters, gpu_probes, read_cells
from fabricast.parameters import parameter_table

__all__ = ["measure_to_files"]


def measure_to_files(
    cells: Path | str,
    parameters: Path | str,
    probes: Path | str,
    *,
    sizes: Sequence[int],
    bursts: int,
    seconds: float,
    power_seconds: float,
    ordinal: int = 0,
    progress: Callable[[int], None] | None = None,
) -> str | None:
    """Measure a GPU and write what was found; without a GPU write files without rows that say why.

    Parameters
    ----------
    cells, parameters, probes : Path or str
        CSV files: every burst of every cell; parameters of the GPU-centric models; concurrent
        copies as probes of the PCIe study.
    sizes, bursts, seconds, power_seconds, progress
        As for `fabricast.gpucentric.gpu_runs.measure_gpu`.
    ordinal : int, default 0
        Which of the visible GPUs.

    Returns
    -------
    str or None
        Why nothing was measured; None if something was.
    """
    reason = why_not()
    if reason is None:
        with Gpu(ordinal) as gpu:
            rows = measure_gpu(
                gpu, sizes=sizes, bursts=bursts, seconds=seconds, power_seconds=power_seconds, progress=progress
            )  # fmt: skip
            rows.insert(0, "gpu", gpu.name)
            note = f"{gpu.name}, driver for CUDA {gpu.driver_version}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    else:
        sys.stderr.write(f"nothing measured: {reason}\n")
        rows = pd.DataFrame(columns=["gpu", *CELL_COLUMNS])
        note = f"nothing measured: {reason}"
    _write(rows, note, cells)
    found = read_cells(cells) if reason is None else NO_CELLS
    columns = ["study", "system", "name", "value", "unit", "tag", "source"]
    _write(parameter_table(gpu_parameters(found)).reindex(columns=columns), note, parameters)
    _write(gpu_probes(found), note, probes)
    return reason


def _write(rows: pd.DataFrame, note: str, path: Path | str) -> None:
    write_text(path, f"# {note}\n{rows.to_csv(index=False, lineterminator=chr(10))}")
