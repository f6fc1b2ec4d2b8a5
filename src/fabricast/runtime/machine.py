"""Processor cores of the machine that runs this process."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DEVICES = Path("/sys/bus/pci/devices")


def available_cores() -> int:
    """Return the number of cores that this process may use.

    >>> available_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_name() -> str:
    """Return the processor name, or the architecture if the system reports no name.

    >>> processor_name() == ""
    False
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, named), "") or platform.processor() or platform.machine()


@contextmanager
def pin_to_local_cores(bus_id: str, devices: Path = _DEVICES) -> Iterator[str]:
    """Pin this process to the cores next to a GPU within the block."""
    try:
        text = (devices / bus_id.lower() / "local_cpulist").read_text()
        ranges = [(int(low), int(high or low)) for low, high in re.findall(r"(\d+)(?:-(\d+))?", text)]
        before = os.sched_getaffinity(0)
        local = before & {core for low, high in ranges for core in range(low, high + 1)}
    except (OSError, AttributeError):
        local = set()
    if not local:
        yield "on any core"
        return
    os.sched_setaffinity(0, local)
    try:
        yield f"on the {len(local)} cores next to it"
    finally:
        os.sched_setaffinity(0, before)
