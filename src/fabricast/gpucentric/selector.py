"""Selection of the best communication method and path for a message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from fabricast.core.errors import InputError, unknown_name
from fabricast.core.node_rate import NodeRates, node_rate_bytes_per_s
from fabricast.core.resources import published
from fabricast.gpucentric.methods import METHODS, energy_j, halo_messages, message_time_s, step_time_s
from fabricast.gpucentric.parameters import changed, read_values
from fabricast.inputs.csv_files import read_csv

__all__ = [
    "OBJECTIVES",
    "Choice",
    "PathModel",
    "crossovers",
    "path_models",
    "read_paths",
    "select",
    "systems",
    "times_and_energies",
]

Objective = Literal["time", "energy", "edp"]
OBJECTIVES = ("time", "energy", "edp")
#: Relative margin below which the two best methods are tied: smaller margins are within the model error.
TIE_MARGIN = 0.10
MODELLED_SYSTEM = "k20_extoll"
#: Methods that the modelled machine offers.
CHOICES = ("mpi", "ggas", "rma", "rma_host", "verbs")
_PATHS = ("host_s", "direct_s", "host_to_device_s", "device_to_host_s")


@dataclass(frozen=True)
class PathModel:
    """Time of a measured path: log-log linear interpolation between measured sizes.

    Parameters
    ----------
    size_bytes, time_s : ndarray of float64, shape (points,)
        Measured sizes in bytes, ascending, and their times in s.
    """

    size_bytes: NDArray[np.float64]
    time_s: NDArray[np.float64]

    def __call__(self, size_bytes: ArrayLike) -> NDArray[np.float64]:
        """Return times in s, extrapolated linearly from the last two points for larger sizes."""
        n = np.maximum(np.asarray(size_bytes, dtype=np.float64), self.size_bytes[0])
        inside = np.exp(np.interp(np.log(n), np.log(self.size_bytes), np.log(self.time_s)))
        slope = (self.time_s[-1] - self.time_s[-2]) / (self.size_bytes[-1] - self.size_bytes[-2])
        beyond = self.time_s[-1] + (n - self.size_bytes[-1]) * slope
        return np.asarray(np.where(n > self.size_bytes[-1], beyond, inside))


@dataclass(frozen=True)
class Choice:
    """Best method for a message, with its margin over the second-best method.

    Parameters
    ----------
    method, path : str
        Best method and its path.
    value : float
        Objective of the best method: time in s, energy in J or their product in J s.
    time_s : float
        Time of the best method in s.
    margin : float
        Objective of the second-best method relative to the best, minus 1.
    tie : bool
        Whether the margin is smaller than the error of the models.
    second : str
        Second-best method.
    """

    method: str
    path: str
    value: float
    time_s: float
    margin: float
    tie: bool
    second: str


@cache
def read_paths() -> pd.DataFrame:
    """Return the measured times of paths between GPUs.

    Columns: system, size_bytes, host_s, direct_s, host_to_device_s, device_to_host_s. The result is cached and
    shared between callers, which must not modify it.
    """
    rows = read_csv(published() / "gpucentric_paths.csv", ("system", "size_bytes", *_PATHS))
    return pd.DataFrame(
        [{"system": row["system"], **{name: row.number(name) for name in ("size_bytes", *_PATHS)}} for row in rows]
    )


def systems() -> list[str]:
    """Return the names of the systems that the selector supports."""
    return [MODELLED_SYSTEM, *dict.fromkeys(read_paths()["system"])]


def path_models(rows: pd.DataFrame) -> dict[str, Callable[[ArrayLike], NDArray[np.float64]]]:
    """Return the path times of one measured system as functions of the size.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of `read_paths` of this system.

    Returns
    -------
    dict
        Functions that return times in s, by path: ``staged`` (device to host, between hosts, host to device) and
        ``direct``.
    """
    rows = rows.sort_values("size_bytes")
    size = rows["size_bytes"].to_numpy(dtype=np.float64)
    models = {name: PathModel(size, rows[name].to_numpy(dtype=np.float64)) for name in _PATHS}
    return {
        "staged": lambda n: models["device_to_host_s"](n) + models["host_s"](n) + models["host_to_device_s"](n),
        "direct": models["direct_s"],
    }


def times_and_energies(
    system: str,
    size_bytes: float,
    *,
    nodes: int,
    overlap: float,
    compute_s: float,
    gpus: int = 1,
    rates: NodeRates | None = None,
    measured: Mapping[str, float] | None = None,
) -> dict[str, tuple[str, float, float | None]]:
    """Return path, time and energy of a halo-exchange step for each method of a system.

    Parameters
    ----------
    system : str
        One of `systems`.
    size_bytes : float
        Size of each message in bytes.
    nodes : int
        Number of nodes. Each node exchanges messages with two neighbours, or with one if there are two nodes.
    overlap : float
        Fraction of the communication that the application can hide, 0 to 1.
    compute_s : float
        Computation time of a step in s.
    gpus : int, default 1
        Number of GPUs per node that send at the same time; the rate of the node limits them.
    rates : NodeRates, optional
        Rates of a node of the system; required for more than one GPU.
    measured : mapping, optional
        Measured values that replace assumed values, by parameter name.

    Returns
    -------
    dict
        Path, time in s and energy in J by method. The energy is None if the power of the system is unknown.

    Raises
    ------
    InputError
        If the system is unknown, or if its node rates do not cover this number of GPUs.
    """
    messages = halo_messages(nodes)
    if system == MODELLED_SYSTEM:
        if gpus != 1:
            raise InputError(f"is {gpus}, expected 1 for {system}: its nodes have one GPU", argument="gpus")
        value = changed(system, measured or {})
        results: dict[str, tuple[str, float, float | None]] = {}
        for name in CHOICES:
            communication = messages * float(message_time_s(name, value, size_bytes))
            total = float(step_time_s(name, value, communication, compute_s, overlap))
            energy = float(energy_j(name, value, total, communication, compute_s))
            results[name] = (METHODS[name].path, total, energy)
        return results
    if measured:
        raise InputError(
            f"is {system}, expected {MODELLED_SYSTEM} for user-supplied parameters: paths of other systems are "
            "measured, not modelled",
            argument="system",
        )
    rows = read_paths()
    rows = rows[rows["system"] == system]
    if rows.empty:
        raise unknown_name("system", system, systems())
    hides = read_values(MODELLED_SYSTEM)["overlap_mpi"]
    extra = _contention_s(system, size_bytes, gpus, rates)
    results = {}
    for path, model in path_models(rows).items():
        communication = messages * (float(model(size_bytes)) + extra)
        hidden = min(overlap * hides * communication, compute_s)
        results[f"mpi_{path}"] = (path, compute_s + communication - hidden, None)
    return results


def _contention_s(system: str, size_bytes: float, gpus: int, rates: NodeRates | None) -> float:
    """Return the additional time in s if several GPUs share the max-rate of a node."""
    if gpus == 1:
        return 0.0
    if rates is None:
        raise InputError(f"is {gpus}, expected 1: the node rates of {system} are unknown", argument="gpus")
    if gpus > rates.most_processes:
        raise InputError(
            f"is {gpus}, expected at most {rates.most_processes}, the largest number of GPUs that was measured on a "
            f"node of {system}",
            argument="gpus",
        )
    shared = float(node_rate_bytes_per_s(gpus, rates.r_n, rates.r_b, rates.r_i))
    return gpus * size_bytes / shared - size_bytes / rates.r_b


def select(
    system: str,
    size_bytes: float,
    *,
    nodes: int = 2,
    overlap: float = 0.0,
    compute_s: float = 0.0,
    objective: Objective = "time",
    gpus: int = 1,
    rates: NodeRates | None = None,
    measured: Mapping[str, float] | None = None,
) -> Choice:
    """Select the best communication method and path for a message.

    Parameters
    ----------
    system, size_bytes, nodes, overlap, compute_s, gpus, rates, measured
        As for `times_and_energies`.
    objective : {'time', 'energy', 'edp'}
        Quantity to minimise; edp is the product of energy and time.

    Returns
    -------
    Choice
        Best method, its margin over the second-best method, and whether both are tied.

    Raises
    ------
    InputError
        If an argument is out of range, or if the objective requires the power of a system whose power is unknown.

    Examples
    --------
    >>> select("summit_spectrum", 4).path
    'direct'
    >>> select("k20_extoll", 64, nodes=12).method
    'ggas'
    """
    if objective not in OBJECTIVES:
        raise unknown_name("objective", objective, OBJECTIVES)
    checks = {
        "size": (1 <= size_bytes <= 1e12, f"{size_bytes:g}", "1 to 1e12 bytes"),
        "nodes": (2 <= nodes <= 10**6, str(nodes), "2 to 1,000,000"),
        "overlap": (0 <= overlap <= 1, f"{overlap:g}", "0 to 1"),
        "compute_s": (0 <= compute_s <= 1e6, f"{compute_s:g}", "0 to 1e6 s"),
        "gpus": (1 <= gpus <= 64, str(gpus), "1 to 64"),
    }
    for argument, (good, value_text, expected) in checks.items():
        if not good:
            raise InputError(f"is {value_text}, expected {expected}", argument=argument)
    values: dict[str, float] = {}
    table = times_and_energies(
        system, size_bytes, nodes=nodes, overlap=overlap, compute_s=compute_s, gpus=gpus, rates=rates, measured=measured
    )
    for name, (_, time, energy) in table.items():
        if objective == "time":
            values[name] = time
        elif energy is None:
            raise InputError(f"is {objective}, expected time: the power of {system} is unknown", argument="objective")
        else:
            values[name] = energy if objective == "energy" else energy * time
    first, second = sorted(values, key=lambda name: values[name])[:2]
    margin = values[second] / values[first] - 1
    path, time, _ = table[first]
    return Choice(first, path, values[first], time, margin, margin < TIE_MARGIN, second)


def crossovers(curves: Mapping[str, Callable[[float], float]], low_bytes: float, high_bytes: float) -> pd.DataFrame:
    """Return the sizes at which the fastest of several curves changes.

    Parameters
    ----------
    curves : mapping of str to callable
        Time in s as a function of the size in bytes, by name.
    low_bytes, high_bytes : float
        Size range to search: a grid of 16 points per doubling, refined by bisection.

    Returns
    -------
    pandas.DataFrame
        Columns size_bytes, fastest_below, fastest_above.

    Examples
    --------
    >>> crossovers({"a": lambda n: 1.0 + n, "b": lambda n: 5.0 + n / 2}, 1, 64)["size_bytes"].round(6).tolist()
    [8.0]
    """
    from scipy.optimize import bisect  # slow to import, therefore not at module level

    points = np.geomspace(low_bytes, high_bytes, int(16 * np.log2(high_bytes / low_bytes)) + 1)
    best = [min(curves, key=lambda name: curves[name](n)) for n in points.tolist()]
    rows = []
    for (low, before), (high, after) in pairwise(zip(points.tolist(), best, strict=True)):
        if before != after:

            def difference(n: float, before: str = before, after: str = after) -> float:
                return curves[before](n) - curves[after](n)

            rows.append(
                {"size_bytes": float(bisect(difference, low, high)), "fastest_below": before, "fastest_above": after}
            )
    return pd.DataFrame(rows, columns=["size_bytes", "fastest_below", "fastest_above"])
