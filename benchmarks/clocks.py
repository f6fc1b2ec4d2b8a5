"""CPU time of calls and peak memory of the process."""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["cpu_seconds", "peak_mb"]


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of a call in this process in seconds."""
    started = time.process_time()
    work()
    return time.process_time() - started


def peak_mb() -> float:
    """Return the peak memory of this program in MB.

    The value of `getrusage` is used only without /proc, because it includes the memory of the parent process.
    """
    line = re.search(r"^VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    return float(line[1]) / 1024 if line else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
