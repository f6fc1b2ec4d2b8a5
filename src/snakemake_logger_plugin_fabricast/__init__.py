"""Progress of a run on the terminal: one line per finished job, or a progress bar.

Snakemake loads `LogHandler` from a package of this name for ``logger: fabricast`` in a profile or ``--logger
fabricast``. With ``--dry-run``, ``--verbose`` or ``--printshellcmds`` Snakemake prints its messages instead.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

__all__ = ["LogHandler"]

#: Lines of a failed job's log that are shown.
_LOG_LINES = 15
#: Messages without an event that are shown: those of the workflow, and Snakemake's about a finished run.
_SHOWN = ("fabricast: ", "Nothing to be done")
#: Messages that repeat the error of a job.
_REPEATED = (
    "Exiting because a job execution failed",
    "Shutting down, this might take",
    "RuleException:",
    "WorkflowError:\nAt least one job",
)


class LogHandler(LogHandlerBase):
    """Handler that shows the progress of a run."""

    def __post_init__(self) -> None:
        settings = self.common_settings
        self._silent = bool(settings.dryrun or settings.verbose or settings.printshellcmds or settings.debug_dag)
        self._console = Console(stderr=True, no_color=settings.nocolor or None, highlight=False, soft_wrap=True)
        self._running: dict[int, tuple[str, float]] = {}
        self._done = self._total = 0
        self._progress = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            transient=True,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task("", total=None)

    @property
    def writes_to_stream(self) -> bool:
        """Return whether this handler replaces Snakemake's output on the terminal."""
        return not self._silent

    @property
    def writes_to_file(self) -> bool:
        """Return False: Snakemake writes its log file."""
        return False

    @property
    def has_filter(self) -> bool:
        """Return True: records that Snakemake would not show arrive, too."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Return True: messages are formatted here."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """Return False: the graph of rules is not used."""
        return False

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record; an error in this handler does not end the run."""
        if not self._silent:
            try:
                self._show(record)
            except Exception:
                self.handleError(record)

    def _show(self, record: logging.LogRecord) -> None:
        event, values = getattr(record, "event", None), record.__dict__
        if event == LogEvent.RUN_INFO and not self._total:
            self._total = int(values["stats"]["total"])
            self._print(f"{self._total} {'job' if self._total == 1 else 'jobs'}")
            if self._console.is_terminal:
                self._progress.start()
        elif event == LogEvent.JOB_INFO:
            wildcards = " ".join(map(str, dict(values["wildcards"] or {}).values()))
            self._running[values["jobid"]] = (f"{values['rule_name']} {wildcards}".strip(), time.monotonic())
        elif event == LogEvent.JOB_FINISHED:
            self._done += 1
            name, started = self._running.pop(values["job_id"], ("", time.monotonic()))
            if not self._console.is_terminal:
                self._print(f"{self._done:4d}/{self._total}  {time.monotonic() - started:4.0f} s  {name}")
        elif event in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR):
            self._running.pop(values.get("jobid", -1), None)
            self._fail(values)
        elif event == LogEvent.ERROR or (event is None and record.levelno >= logging.WARNING):
            if not record.getMessage().startswith(_REPEATED):
                self._print(record.getMessage(), style="red" if record.levelno >= logging.ERROR else "yellow")
        elif event is None and str(record.msg).startswith(_SHOWN):
            self._print(record.getMessage())
        names = list(dict.fromkeys(name for name, _ in self._running.values()))
        self._progress.update(self._task, completed=self._done, total=self._total, description=", ".join(names[:3]))

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, markup=False)

    def _fail(self, values: dict[str, Any]) -> None:
        self._print(f"failed: {values.get('rule_name', 'group')}", style="bold red")
        for name in values.get("log") or []:
            path = Path(str(name).split(" (")[0])
            lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
            self._print("\n".join([f"  log: {path}", *(f"  | {line}" for line in lines[-_LOG_LINES:])]))

    def close(self) -> None:
        """Stop the progress bar."""
        if self._progress.live.is_started:
            self._progress.stop()
        super().close()
