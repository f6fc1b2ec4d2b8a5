"""What a person wants to see of a run: a line a finished job, or one live line; all else is in Snakemake's log file.

Snakemake finds a package of this name and loads its `LogHandler`; `logger: fabricast` in a profile, or ``--logger
fabricast``, asks for it. ``--dry-run``, ``--verbose`` and ``--printshellcmds`` give Snakemake's own words.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

__all__ = ["LogHandler"]

#: Lines of a failed job's log that are shown.
_KEPT_LOG_LINES = 15
#: What the workflow says itself, and what Snakemake says without an event and people wait for.
_SPOKEN = ("fabricast: ", "Nothing to be done")
#: Said in other words already.
_REPEATED = (
    "Exiting because a job execution failed",
    "Shutting down, this might take",
    "RuleException:",
    "WorkflowError:\nAt least one job",
)


#: How long runs took in this folder, by what they had to do.
_RUN_TIMES = Path(".snakemake") / "fabricast_run_times.json"
_KEPT_RUNS = 50


def _read_run_times() -> dict[str, float]:
    try:
        found = json.loads(_RUN_TIMES.read_text(encoding="utf-8"))
        return {str(key): float(seconds) for key, seconds in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        # Not there, or damaged: nothing is said then.
        return {}


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


class LogHandler(LogHandlerBase):
    """Shows the progress of a run; errors in here never end one."""

    def __post_init__(self) -> None:
        settings = self.common_settings
        self._silent = bool(settings.dryrun or settings.verbose or settings.printshellcmds or settings.debug_dag)
        self._console = Console(stderr=True, no_color=settings.nocolor or None, highlight=False, soft_wrap=True)
        self._running: dict[int, tuple[str, float]] = {}
        self._done = self._total = self._aside = 0
        self._started = time.monotonic()
        self._configuration = self._key = ""
        self._progress = Progress(
            BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False), console=self._console, transient=True, refresh_per_second=4,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=None)

    @property
    def writes_to_stream(self) -> bool:
        """Whether Snakemake leaves the terminal to this handler."""
        return not self._silent

    @property
    def writes_to_file(self) -> bool:
        """Snakemake's log file stays its own."""
        return False

    @property
    def has_filter(self) -> bool:
        """All records come here, also those that Snakemake would not show."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Lines are made here."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """No picture of the rules is wanted."""
        return False

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record."""
        if self._silent:
            return
        try:
            self._show(record)
        except Exception:
            self.handleError(record)

    def _show(self, record: logging.LogRecord) -> None:
        event, values = getattr(record, "event", None), record.__dict__
        if event == LogEvent.WORKFLOW_STARTED:
            self._configuration = str(values.get("config_md5", ""))
        elif event == LogEvent.RUN_INFO and not self._total:
            self._start({str(rule): int(count) for rule, count in values["stats"].items()})
        elif event == LogEvent.JOB_INFO:
            wildcards = " ".join(map(str, dict(values["wildcards"] or {}).values()))
            self._running[values["jobid"]] = (f"{values['rule_name']} {wildcards}".strip(), time.monotonic())
        elif event == LogEvent.JOB_FINISHED:
            self._finish(values["job_id"])
        elif event == LogEvent.PROGRESS:
            self._total = values["total"] - self._aside
            self._done = min(values["done"], self._total)
            self._progress.update(self._task, completed=self._done, total=self._total)
            if values["done"] == values["total"]:
                self._remember()
        elif event in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR):
            self._running.pop(values.get("jobid", -1), None)
            self._fail(values)
        elif event == LogEvent.ERROR or record.levelno >= logging.WARNING:
            text = record.getMessage()
            if not text.startswith(_REPEATED):
                style = "red" if record.levelno >= logging.ERROR else "yellow"
                self._console.print(text, style=style, markup=False)
        elif event is None and str(record.msg).startswith(_SPOKEN):
            self._console.print(record.getMessage(), markup=False)
        names = list(dict.fromkeys(name for name, _ in self._running.values()))
        self._progress.update(self._task, description=", ".join(names[:3]))

    def _start(self, jobs: dict[str, int]) -> None:
        """Say how much there is to do, and how long the same took here last time."""
        self._started = time.monotonic()
        # The last one only names what all others made.
        self._aside = jobs.get("all", 0)
        self._total = total = jobs["total"] - self._aside
        self._progress.update(self._task, total=total)
        if not total:
            return
        known = json.dumps([self._configuration, sorted(jobs.items())])
        self._key = hashlib.sha256(known.encode()).hexdigest()[:16]
        seconds = _read_run_times().get(self._key)
        took = f"; the same took {_duration(seconds)} here last time" if seconds else ""
        self._console.print(f"{total} {'job' if total == 1 else 'jobs'}{took}", markup=False)
        if self._console.is_terminal:
            self._progress.start()

    def _remember(self) -> None:
        """Keep how long these jobs took, where Snakemake keeps its own records of this folder."""
        if _RUN_TIMES.parent.is_dir() and self._key:
            times = _read_run_times() | {self._key: time.monotonic() - self._started}
            part = _RUN_TIMES.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps(dict(list(times.items())[-_KEPT_RUNS:])), encoding="utf-8")
            part.replace(_RUN_TIMES)

    def _finish(self, job: int) -> None:
        """Say that a job ended, where no live line does."""
        self._done += 1
        name, started = self._running.pop(job, ("", time.monotonic()))
        if name and name != "all" and not self._console.is_terminal:
            text = f"{self._done:4d}/{self._total}  {time.monotonic() - started:4.0f} s  {name}"
            self._console.print(text, markup=False)

    def _fail(self, values: dict[str, Any]) -> None:
        self._console.print(f"failed: {values.get('rule_name', 'group')}", style="bold red", markup=False)
        for name in values.get("log") or []:
            path = Path(str(name).split(" (")[0])
            lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
            self._console.print(f"  log: {path}", markup=False)
            for line in lines[-_KEPT_LOG_LINES:]:
                self._console.print(f"  | {line}", markup=False)

    def close(self) -> None:
        """Give the terminal back."""
        if self._progress.live.is_started:
            self._progress.stop()
        super().close()
