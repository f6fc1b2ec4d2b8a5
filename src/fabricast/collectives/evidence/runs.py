"""A run of nccl-tests on the GPUs of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.inputs.files import write_text

#: Program of nccl-tests, searched in PATH.
PROGRAM = "all_reduce_perf"
#: First words of a log that has no measurements.
_NOTHING = "# nothing measured: "
#: Topology file without devices, beside a log without measurements.
_NO_TOPOLOGY = "<system version='1'/>\n"
_SIZES = ("-b", "256", "-e", "256M", "-f", "2", "-n", "50", "-w", "10")
_TIMEOUT_S = 1800
_LIST_TIMEOUT_S = 60


def _gpu_count() -> int:
    """Return the number of GPUs that ``nvidia-smi -L`` lists; 0 if it is missing, fails or does not end."""
    if shutil.which("nvidia-smi") is None:
        return 0
    try:
        listed = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=_LIST_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines()) if listed.returncode == 0 else 0


def unavailable_reason() -> str | None:
    r"""Return why nccl-tests cannot run here, in one line; None if it can.

    >>> reason = unavailable_reason()
    >>> reason is None or "\\n" not in reason
    True
    """
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} of nccl-tests is not in PATH"
    gpus = _gpu_count()
    return None if gpus >= 2 else f"all_reduce needs two GPUs, and nvidia-smi lists {gpus}"


def has_measurements(log: Path | str) -> bool:
    """Return whether a log of `measure_to_files` has measurements."""
    return not Path(log).read_text(encoding="utf-8", errors="replace").startswith(_NOTHING)


def measure_to_files(log: Path | str, topology: Path | str) -> str:
    """Run all_reduce on all GPUs of this machine, and write its log and NCCL's topology file.

    NCCL prints its choices (``NCCL_DEBUG=INFO``) and dumps the topology (``NCCL_TOPO_DUMP_FILE``), so that the forecast
    needs no other input.
    """
    reason = unavailable_reason()
    if reason is not None:
        write_text(log, f"{_NOTHING}{reason}\n")
        write_text(topology, _NO_TOPOLOGY)
        return f"nothing measured: {reason}"
    gpus = _gpu_count()
    dump = Path(topology).with_suffix(".dump.xml")
    settings = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,TUNING", "NCCL_TOPO_DUMP_FILE": str(dump)}
    try:
        done = subprocess.run(
            [PROGRAM, *_SIZES, "-g", str(gpus)],
            env=os.environ | settings,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{PROGRAM} -g {gpus} did not end within {_TIMEOUT_S} s") from error
    if done.returncode or not dump.is_file():
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no output"]
        raise InputError(f"{PROGRAM} -g {gpus} failed with code {done.returncode}: {last[0]}")
    write_text(topology, dump.read_text(encoding="utf-8"))
    dump.unlink()
    write_text(log, f"# {PROGRAM} of nccl-tests on {gpus} GPUs\n{done.stdout}")
    return f"all_reduce on {gpus} GPUs"
