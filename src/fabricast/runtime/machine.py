"""What the machine under this process is."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["available_cores", "pin_to_local_cores", "processor_name"]

_DEVICES = Path("/sys/bus/pci/devices")


def available_cores() -> int:
    """Return on how many cores this process may run.

    Examples
    --------
    >>> available_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_name() -> str:
    """Return the name of the processor, as far as the system tells it.

    Examples
    --------
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
    """Keep this process on the cores that are next to a GPU; say where it runs.

    Parameters
    ----------
    bus_id : str
        PCI address as CUDA gives it.
    devices : Path, default /sys/bus/pci/devices
        Where the kernel shows devices.

    Yields
    ------
    str
        For people to read. Where the kernel does not tell, or these cores are not ours, nothing is changed.
    """
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
