"""Which method and path wins for a message, and by how much."""

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
#: Leads smaller than the error of the models are ties.
TIE_MARGIN = 0.10
MODELLED_SYSTEM = "k20_extoll"
#: Methods that a user of the modelled machine can choose among.
CHOICES = ("mpi", "ggas", "rma", "rma_host", "verbs")
_PATHS = ("host_s", "direct_s", "host_to_device_s", "device_to_host_s")


@dataclass(frozen=True)
class PathModel:
    """Time of a measured path: straight lines between measured sizes, in logarithms.

    Parameters
    ----------
    size_bytes, time_s : ndarray of float64, shape (points,)
        Measured points, sizes rising.
    """

    size_bytes: NDArray[np.float64]
    time_s: NDArray[np.float64]

    def __call__(self, size_bytes: ArrayLike) -> NDArray[np.float64]:
        """Return times in s; beyond the last point at the rate of the last two."""
        n = np.maximum(np.asarray(size_bytes, dtype=np.float64), self.size_bytes[0])
        inside = np.exp(np.interp(np.log(n), np.log(self.size_bytes), np.log(self.time_s)))
        slope = (self.time_s[-1] - self.time_s[-2]) / (self.size_bytes[-1] - self.size_bytes[-2])
        beyond = self.time_s[-1] + (n - self.size_bytes[-1]) * slope
        return np.asarray(np.where(n > self.size_bytes[-1], beyond, inside))


@dataclass(frozen=True)
class Choice:
    """The answer of the selector.

    Parameters
    ----------
    method, path : str
        What wins.
    value : float
        Its time in s, energy in J or their product.
    time_s : float
        Its time.
    margin : float
        Value of the second by that of the first, less 1.
    tie : bool
        Whether the lead is smaller than the error of the models.
    second : str
        The second.
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
    """Return measured paths: system, size_bytes and times of host, direct, host to device, device to host.

    The file is read once; the frame is shared and not to be changed.
    """
    rows = read_csv(published() / "gpucentric_paths.csv", ("system", "size_bytes", *_PATHS))
    return pd.DataFrame(
        [{"system": row["system"], **{name: row.number(name) for name in ("size_bytes", *_PATHS)}} for row in rows]
    )


def systems() -> list[str]:
    """Return the systems that the selector knows."""
    return [MODELLED_SYSTEM, *dict.fromkeys(read_paths()["system"])]


def path_models(rows: pd.DataFrame) -> dict[str, Callable[[ArrayLike], NDArray[np.float64]]]:
    """Return the paths of one measured system as functions of the size.

    Parameters
    ----------
    rows : pandas.DataFrame
        Its rows of `read_paths`.

    Returns
    -------
    dict
        ``staged`` (device to host, between hosts, host to device) and ``direct``.
    """
    rows = rows.sort_values("size_bytes")
    size = rows["size_bytes"].to_numpy(dtype=np.float64)
    own = {name: PathModel(size, rows[name].to_numpy(dtype=np.float64)) for name in _PATHS}
    return {
        "staged": lambda n: own["device_to_host_s"](n) + own["host_s"](n) + own["host_to_device_s"](n),
        "direct": own["direct_s"],
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
    """Return path, time and energy of a step for every method of a system.

    Parameters
    ----------
    system : str
        One of `systems`.
    size_bytes : float
        Bytes of each message.
    nodes : int
        Nodes; every node exchanges with its two neighbours, or with one if there are two nodes.
    overlap : float
        Share of the communication that the application could hide.
    compute_s : float
        Computation of a step.
    gpus : int, default 1
        GPUs of a node that send at the same time; the node's rate limits them.
    rates : NodeRates, optional
        Rates of a node of the system, which several GPUs need.
    measured : mapping, optional
        Measured values in place of assumed ones, by name of parameter.

    Returns
    -------
    dict
        By method; the energy is None where no power is known.

    Raises
    ------
    InputError
        If the system is unknown or its rate for many GPUs is not.
    """
    messages = halo_messages(nodes)
    if system == MODELLED_SYSTEM:
        if gpus != 1:
            raise InputError(f"is {gpus}, expected 1 for {system}: its nodes have one", argument="gpus")
        value = changed(system, measured or {})
        found: dict[str, tuple[str, float, float | None]] = {}
        for name in CHOICES:
            communication = messages * float(message_time_s(name, value, size_bytes))
            total = float(step_time_s(name, value, communication, compute_s, overlap))
            energy = float(energy_j(name, value, total, communication, compute_s))
            found[name] = (METHODS[name].path, total, energy)
        return found
    if measured:
        raise InputError(
            f"is {system}, expected {MODELLED_SYSTEM} with parameters of your own: its paths are measured whole",
            argument="system",
        )
    rows = read_paths()
    rows = rows[rows["system"] == system]
    if rows.empty:
        raise unknown_name("system", system, systems())
    hides = read_values(MODELLED_SYSTEM)["overlap_mpi"]
    extra = _contention_s(system, size_bytes, gpus, rates)
    found = {}
    for path, model in path_models(rows).items():
        communication = messages * (float(model(size_bytes)) + extra)
        hidden = min(overlap * hides * communication, compute_s)
        found[f"mpi_{path}"] = (path, compute_s + communication - hidden, None)
    return found


def _contention_s(system: str, size_bytes: float, gpus: int, rates: NodeRates | None) -> float:
    """Return what k GPUs of a node wait longer than one, by the max-rate of the node."""
    if gpus == 1:
        return 0.0
    if rates is None:
        raise InputError(f"is {gpus}, expected 1: the rate of a node of {system} is not given", argument="gpus")
    if gpus > rates.most_processes:
        raise InputError(
            f"is {gpus}, expected at most {rates.most_processes}: more GPUs of a node of {system} were not measured "
            "together",
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
    """Choose method and path for a message.

    Parameters
    ----------
    system, size_bytes, nodes, overlap, compute_s, gpus, rates, measured
        As for `times_and_energies`.
    objective : {'time', 'energy', 'edp'}
        What is to be small; edp is the product of energy and time.

    Returns
    -------
    Choice
        The winner, its lead over the second and whether that is a tie.

    Raises
    ------
    InputError
        If an argument is out of range, or the system's power is not known.

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
    for argument, (good, found, expected) in checks.items():
        if not good:
            raise InputError(f"is {found}, expected {expected}", argument=argument)
    values: dict[str, float] = {}
    table = times_and_energies(
        system, size_bytes, nodes=nodes, overlap=overlap, compute_s=compute_s, gpus=gpus, rates=rates,
        measured=measured,
    )  # fmt: skip
    for name, (_, time, energy) in table.items():
        if objective == "time":
            values[name] = time
        elif energy is None:
            raise InputError(f"is {objective}, expected time: the power of {system} is not known", argument="objective")
        else:
            values[name] = energy if objective == "energy" else energy * time
    first, second = sorted(values, key=lambda name: values[name])[:2]
    margin = values[second] / values[first] - 1
    path, time, _ = table[first]
    return Choice(first, path, values[first], time, margin, margin < TIE_MARGIN, second)


def crossovers(curves: Mapping[str, Callable[[float], float]], low_bytes: float, high_bytes: float) -> pd.DataFrame:
    """Return the sizes at which the fastest of some curves changes.

    Parameters
    ----------
    curves : mapping of str to callable
        Time in s as a function of the size in bytes.
    low_bytes, high_bytes : float
        Range that is searched, on a grid of 16 points a doubling, then by bisection.

    Returns
    -------
    pandas.DataFrame
        Columns size_bytes, fastest_below, fastest_above.

    Examples
    --------
    >>> crossovers({"a": lambda n: 1.0 + n, "b": lambda n: 5.0 + n / 2}, 1, 64)["size_bytes"].round(6).tolist()
    [8.0]
    """
    from scipy.optimize import bisect  # half a second: only where it is needed

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
