"""Log and progress of workflow jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from fabricast.core.errors import InputError


def log_to(path: Path | str) -> None:
    """Redirect stdout and stderr to the job log and report `InputError` as a single line."""
    # Jobs draw to files only. matplotlib reads the variable when it is imported.
    os.environ.setdefault("MPLBACKEND", "Agg")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    sys.excepthook = _short_for_bad_input


@contextmanager
def progress_of(work: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show the progress of long work: a bar on a terminal, one line per tenth in a log."""
    from rich.console import Console
    from rich.progress import Progress

    if sys.stderr.isatty():
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(work, total=total)
            yield lambda parts: bar.advance(task, parts)
        return
    done = 0

    def advance(parts: int) -> None:
        nonlocal done
        before, done = done, min(total, done + parts)
        if total and 10 * done // total > 10 * before // total:
            sys.stderr.write(f"{work}: {done:,} of {total:,}\n")
            sys.stderr.flush()

    yield advance


def _short_for_bad_input(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if isinstance(error, InputError):
        sys.stderr.write(f"error: {error}\n")
    elif isinstance(error, KeyboardInterrupt):
        sys.stderr.write("interrupted; partial output was removed\n")
    else:
        sys.__excepthook__(kind, error, traceback)
