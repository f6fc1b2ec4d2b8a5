"""Energy of a GPU (NVML) and of the processors (RAPL) over a span of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fabricast.errors import InputError

__all__ = ["GpuMeter", "ProcessorMeter", "mean_power_w"]

_RAPL = Path("/sys/class/powercap")
_SAMPLE_S = 0.02


class GpuMeter:
    """Energy of one GPU: its own counter, or samples of its power where it has none.

    Parameters
    ----------
    bus_id : str
        PCI address as CUDA gives it.

    Raises
    ------
    InputError
        If NVML cannot read it.
    """

    def __init__(self, bus_id: str) -> None:
        import pynvml

        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus_id.encode())
            pynvml.nvmlDeviceGetPowerUsage(self._handle)
        except pynvml.NVMLError as error:
            raise InputError(f"NVML does not tell the power of {bus_id}: {error}") from error
        try:
            pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
            self.has_counter = True
        except pynvml.NVMLError:
            self.has_counter = False

    def energy_j(self) -> float:
        """Return the energy since the driver was loaded, in joules."""
        return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) * 1e-3

    def power_w(self) -> float:
        """Return the power now, in watts."""
        return float(self._nvml.nvmlDeviceGetPowerUsage(self._handle)) * 1e-3


class ProcessorMeter:
    """Energy of all processor packages by RAPL.

    Parameters
    ----------
    folder : Path, default /sys/class/powercap
        Where the kernel shows it.
    """

    def __init__(self, folder: Path = _RAPL) -> None:
        self._packages: list[tuple[Path, float]] = []
        for package in sorted(folder.glob("intel-rapl:[0-9]*")):
            # Names with two numbers are parts of a package.
            if package.name.count(":") == 1:
                try:
                    (package / "energy_uj").read_text()
                    limit = float((package / "max_energy_range_uj").read_text())
                except OSError:
                    continue
                self._packages.append((package / "energy_uj", limit))

    @property
    def readable(self) -> bool:
        """Whether this user may read any package."""
        return bool(self._packages)

    def counters_uj(self) -> list[float]:
        """Return the counter of each package, in microjoules."""
        return [float(path.read_text()) for path, _ in self._packages]

    def energy_j(self, before: list[float], after: list[float]) -> float:
        """Return the energy between two readings, in joules; counters start again at their ends."""
        limits = [limit for _, limit in self._packages]
        used = [(b - a) % limit for a, b, limit in zip(before, after, limits, strict=True)]
        return sum(used) * 1e-6


def mean_power_w(
    work: Callable[[float], None], seconds: float, gpu: GpuMeter, processors: ProcessorMeter
) -> dict[str, float]:
    """Return the mean powers while some work runs.

    Parameters
    ----------
    work : callable
        Works for so many seconds.
    seconds : float
        How long.
    gpu, processors : GpuMeter, ProcessorMeter
        What is read.

    Returns
    -------
    dict
        Watts of ``gpu`` and, where they can be read, of ``processors``.
    """
    # Counters move in steps of up to a tenth of a second: the work is under way before.
    work(0.1 * seconds)
    before = processors.counters_uj()
    start = time.perf_counter()
    if gpu.has_counter:
        first_j = gpu.energy_j()
        work(seconds)
        powers = {"gpu": (gpu.energy_j() - first_j) / (time.perf_counter() - start)}
    else:
        samples = []
        while time.perf_counter() - start < seconds:
            work(_SAMPLE_S)
            samples.append(gpu.power_w())
        powers = {"gpu": sum(samples) / len(samples)}
    if processors.readable:
        used_j = processors.energy_j(before, processors.counters_uj())
        powers["processors"] = used_j / (time.perf_counter() - start)
    return powers
