"""Probes: copies that calibrate a machine and check its topology, proposed or measured on this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from fabricast.api.machine_inputs import load_topology
from fabricast.core.errors import InputError
from fabricast.inputs.files import write_text
from fabricast.pcie.measurements.cuda_copies import MachineGpus
from fabricast.pcie.measurements.probe_runs import COPY_COLUMNS, measure_probes, measured_text
from fabricast.pcie.measurements.probes import Probe, probe_csv, proposed_probes
from fabricast.runtime.cuda_driver import unavailable_reason

__all__ = ["MachineGpus", "Probe", "measure_probes", "measured_text", "probe_csv", "probes_to_file", "proposed_probes"]

_LSTOPO = ("lstopo-no-graphics", "lstopo")


def probes_to_file(
    topology: Path | str,
    copies: Path | str,
    *,
    size_bytes: int,
    seconds: float,
    progress: Callable[[int], None] | None = None,
) -> str:
    """Write the topology of this machine and the measured copies of its probes.

    If nothing can be measured and both files exist, they are kept. If one is missing, an empty topology file and a CSV
    file without rows are written.
    """
    topology, copies = Path(topology), Path(copies)
    exporter = next(filter(None, map(shutil.which, _LSTOPO)), None)
    reason = unavailable_reason() or (None if exporter else "lstopo of hwloc is not installed")
    if reason is not None:
        if not (topology.exists() and copies.exists()):
            write_text(topology, "")
            write_text(copies, measured_text(pd.DataFrame(columns=list(COPY_COLUMNS)), f"nothing measured: {reason}"))
        return f"nothing measured: {reason}"
    exported = subprocess.run([str(exporter), "--of", "xml"], capture_output=True, text=True, check=False, timeout=120)
    if exported.returncode:
        raise InputError(f"nothing measured: {exporter} ended with {exported.returncode}: {exported.stderr[:200]}")
    write_text(topology, exported.stdout)
    tree = load_topology(topology)
    with MachineGpus() as gpus:
        probes = proposed_probes(tree)
        rows, left_out = measure_probes(gpus, tree, probes, size_bytes=size_bytes, seconds=seconds, progress=progress)
        now = datetime.now(UTC)
        text = f"{gpus.text}: {rows['graph'].nunique()} of {len(probes)} probes measured"
        write_text(copies, measured_text(rows, f"{text}, {now:%Y-%m-%d %H:%M} UTC"))
    for line in left_out:
        sys.stderr.write(f"left out: {line}\n")
    return text
