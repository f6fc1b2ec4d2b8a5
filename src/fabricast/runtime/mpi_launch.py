"""Launcher of Python modules under MPI."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fabricast.core.errors import InputError

if TYPE_CHECKING:
    from mpi4py import MPI

#: Variable with the number of ranks that a launcher is to start.
_RANKS = "FABRICAST_RANKS"
#: Open MPI does not run as root without these variables; MPICH ignores them.
_AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def unavailable_reason(launcher: str = "mpiexec") -> str | None:
    """Return why MPI programs cannot run, in one line; None if they can."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed (optional group 'measure')"
    if _found(launcher) is None:
        return f"{launcher} is not installed (optional group 'measure', or the system's MPI)"
    return None


def _found(launcher: str) -> str | None:
    environment_launcher = Path(sys.executable).parent / launcher
    return str(environment_launcher) if environment_launcher.is_file() else shutil.which(launcher)


def launch(
    module: str,
    arguments: Sequence[str],
    *,
    ranks: int,
    timeout_s: float,
    launcher: str = "mpiexec",
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a module of this package with several ranks."""
    reason = unavailable_reason(launcher)
    if reason is not None:
        raise InputError(f"nothing measured: {reason}")
    command = [str(_found(launcher)), "-n", str(ranks), sys.executable, "-m", module, *arguments]
    variables = {**os.environ, **_AS_ROOT, **(environment or {}), _RANKS: str(ranks)}
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, env=variables)
    except subprocess.TimeoutExpired as error:
        raise InputError(f"nothing measured: {launcher} exceeded the time limit of {timeout_s:g} s") from error
    if result.returncode != 0:
        last = (result.stderr or result.stdout).strip().splitlines()
        raise InputError(f"nothing measured: {launcher} failed: {last[-1] if last else 'no message'}")


def all_ranks() -> MPI.Intracomm:
    """Return the communicator of all ranks; fail if the launcher is not of the MPI library of mpi4py."""
    from mpi4py import MPI

    world: MPI.Intracomm = MPI.COMM_WORLD
    expected = int(os.environ.get(_RANKS, world.Get_size()))
    if world.Get_size() != expected:
        library = MPI.Get_library_version().partition(",")[0].splitlines()[0].strip()
        raise RuntimeError(
            f"mpi4py sees {world.Get_size()} of {expected} ranks: it uses {library}, "
            "and the launcher belongs to another MPI"
        )
    return world
