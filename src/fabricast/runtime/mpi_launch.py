"""Start a Python module under MPI and tell in one line why it cannot be done."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fabricast.core.errors import InputError

__all__ = ["launch", "unavailable_reason"]

#: Open MPI refuses root and more ranks than cores unless told; MPICH ignores these.
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
            "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # fmt: skip


def unavailable_reason(launcher: str = "mpiexec") -> str | None:
    """Return why MPI programs cannot be run here, in one line; None if they can."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed (optional group 'measure')"
    if _found(launcher) is None:
        return f"no {launcher} was found (optional group 'measure', or the system's MPI)"
    return None


def _found(launcher: str) -> str | None:
    beside = Path(sys.executable).parent / launcher
    return str(beside) if beside.is_file() else shutil.which(launcher)


def launch(
    module: str,
    arguments: Sequence[str],
    *,
    ranks: int,
    timeout_s: float,
    launcher: str = "mpiexec",
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a module of this package with several ranks.

    Parameters
    ----------
    module : str
        Full name.
    arguments : sequence of str
        Its arguments.
    ranks : int
        Processes.
    timeout_s : float
        Longest time.
    launcher : str, default 'mpiexec'
        Command that takes ``-n ranks``: mpiexec, mpirun or srun.
    environment : mapping of str to str, optional
        Further variables.

    Raises
    ------
    InputError
        If MPI is missing, fails or takes too long.
    """
    reason = unavailable_reason(launcher)
    if reason is not None:
        raise InputError(f"nothing measured: {reason}")
    command = [str(_found(launcher)), "-n", str(ranks), sys.executable, "-m", module, *arguments]
    variables = {**os.environ, **_AS_ROOT, **(environment or {})}
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, env=variables
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise InputError(f"nothing measured: {launcher} did not end within {timeout_s:g} s") from error
    if result.returncode != 0:
        last = (result.stderr or result.stdout).strip().splitlines()
        raise InputError(f"nothing measured: {launcher} failed: {last[-1] if last else 'no message'}")
