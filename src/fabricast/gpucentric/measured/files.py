"""File output of measurements on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from fabricast.gpucentric.measured.cuda_device import Gpu
from fabricast.gpucentric.measured.runs import CELL_COLUMNS, measure_gpu
from fabricast.inputs.files import write_text
from fabricast.runtime.cuda_driver import unavailable_reason
from fabricast.runtime.machine import pin_to_local_cores


def measure_to_file(
    path: Path | str,
    runs: Path | str,
    *,
    sizes: Sequence[int],
    bursts: int,
    seconds: float,
    power_seconds: float,
    ordinal: int = 0,
    progress: Callable[[int], None] | None = None,
) -> str | None:
    """Measure a GPU and write the results to a file.

    Without a usable GPU the function copies the results of the last run. If there is no earlier run, the file contains
    only the reason and the header.
    """
    reason = unavailable_reason()
    if reason is None:
        with Gpu(ordinal) as gpu, pin_to_local_cores(gpu.bus_id) as where:
            rows = measure_gpu(
                gpu, sizes=sizes, bursts=bursts, seconds=seconds, power_seconds=power_seconds, progress=progress
            )
        rows.insert(0, "gpu", gpu.name)
        now = datetime.now(UTC)
        note = f"# {gpu.name}, driver for CUDA {gpu.driver_version}, {where}, {now:%Y-%m-%d %H:%M} UTC\n"
        text = note + rows.to_csv(index=False, lineterminator="\n")
        write_text(Path(runs) / f"gpu.{now:%Y%m%dT%H%M%S%f}.csv", text)
    else:
        sys.stderr.write(f"nothing measured: {reason}\n")
        kept = sorted(Path(runs).glob("gpu.*.csv"))
        if kept:
            text = kept[-1].read_text(encoding="utf-8")
        else:
            again = "once there is a GPU: snakemake measured --forcerun measure_gpucentric"
            text = f"# nothing measured: {reason}; {again}\n{','.join(('gpu', *CELL_COLUMNS))}\n"
    write_text(path, text)
    return reason
