"""What every job of the workflow does first."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType

from fabricast.errors import InputError

__all__ = ["log_to"]


def log_to(path: Path | str) -> None:
    """Send all output of this process to the job's log, and tell bad input in one line.

    Parameters
    ----------
    path : Path or str
        The log file; Snakemake shows it when the job fails.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    sys.excepthook = _short_for_bad_input


def _short_for_bad_input(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if isinstance(error, InputError):
        sys.stderr.write(f"error: {error}\n")
    else:
        sys.__excepthook__(kind, error, traceback)
