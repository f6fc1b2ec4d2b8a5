"""Power of a GPU (NVML) and of the processors (RAPL) while something runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fabricast.core.errors import InputError

__all__ = ["GpuMeter", "ProcessorMeter", "mean_power_w"]

_RAPL = Path("/sys/class/powercap")
_SAMPLE_S = 0.01


class GpuMeter:
    """Power of one GPU: from its energy counter, or from samples of its power where it has none.

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

    def read(self) -> float:
        """Return joules since the driver was loaded if there is a counter, else the power now in watts."""
        try:
            if self.has_counter:
                return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) * 1e-3
            return float(self._nvml.nvmlDeviceGetPowerUsage(self._handle)) * 1e-3
        except self._nvml.NVMLError as error:
            raise InputError(f"NVML does not tell the power: {error}") from error


class ProcessorMeter:
    """Energy of all processor packages by RAPL.

    Parameters
    ----------
    folder : Path, default /sys/class/powercap
        Where the kernel shows it.
    """

    def __init__(self, folder: Path = _RAPL) -> None:
        self._packages: list[tuple[Path, float]] = []
        for zone in sorted(folder.glob("intel-rapl:[0-9]*")):
            try:
                # Other zones are parts of a package, or the whole platform once more.
                if (zone / "name").read_text().startswith("package"):
                    (zone / "energy_uj").read_text()
                    limit = float((zone / "max_energy_range_uj").read_text())
                    self._packages.append((zone / "energy_uj", limit))
            except OSError:
                continue

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


def _from_counter(samples: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return the mean power between the first and the last step of a counter that moves in steps."""
    times, energies = samples.T
    steps = np.flatnonzero(np.diff(energies) > 0) + 1
    if steps.size >= 2:
        times, energies = times[steps], energies[steps]
    return float((energies[-1] - energies[0]) / (times[-1] - times[0]))


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
        What is read, the GPU from a thread beside the work.

    Returns
    -------
    dict
        Watts of ``gpu`` and, where they can be read, of ``processors``; powers that come out as
        not positive are left out.

    Raises
    ------
    InputError
        If the GPU's power can no longer be read.
    """
    done = threading.Event()
    samples: list[tuple[float, float]] = []
    failures: list[InputError] = []

    def sample() -> None:
        asked, told, answered = time.perf_counter(), gpu.read(), time.perf_counter()
        samples.append(((asked + answered) / 2, told))

    def look() -> None:
        try:
            while not done.wait(_SAMPLE_S):
                sample()
        except InputError as error:
            failures.append(error)

    # The first tenth brings the clocks to what the work needs.
    work(0.1 * seconds)
    watcher = threading.Thread(target=look)
    before, start = processors.counters_uj(), time.perf_counter()
    # The first and the last reading are taken here: on a busy machine the thread may get no turn.
    sample()
    watcher.start()
    try:
        work(seconds)
    finally:
        done.set()
        watcher.join()
    if failures:
        raise failures[0]
    sample()
    table = np.array(samples, dtype=np.float64)
    powers = {"gpu": _from_counter(table) if gpu.has_counter else float(table[:, 1].mean())}
    if processors.readable:
        used_j = processors.energy_j(before, processors.counters_uj())
        powers["processors"] = used_j / (time.perf_counter() - start)
    return {component: power for component, power in powers.items() if power > 0}
