"""Selection of the communication method and path for messages between GPUs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError
from fabricast.core.node_rate import NodeRates
from fabricast.core.quantities import to_bytes
from fabricast.core.resources import published
from fabricast.gpucentric.parameters import read_measured
from fabricast.gpucentric.selector import Choice, select, systems
from fabricast.maxrate.fitting import MaxRateRegressor
from fabricast.maxrate.measurements import read_measurements
from fabricast.maxrate.models import CONVENTIONS
from fabricast.maxrate.tables import LARGE_BYTES

_STARTS = 4


@with_checked_types
def select_method(
    system: str,
    size: float | str,
    *,
    nodes: int = 2,
    overlap: float = 0.0,
    compute_s: float = 0.0,
    objective: str = "time",
    gpus: int = 1,
    measured: str | Path | None = None,
) -> Choice:
    """Select the best communication method and path for a message between GPUs.

    Parameters
    ----------
    system : str
        System: k20_extoll, lassen_mvapich, lassen_spectrum or summit_spectrum.
    size : float or str
        Message size in bytes, or text with a unit such as ``"512 KiB"``.
    nodes : int, default 2
        Number of nodes. Each node has two neighbours, or one if there are two nodes.
    overlap : float, default 0
        Fraction of communication that can overlap with computation, 0 to 1.
    compute_s : float, default 0
        Computation time per step in s.
    objective : {'time', 'energy', 'edp'}
        Minimised quantity. edp is the product of energy and time.
    gpus : int, default 1
        GPUs per node that send at the same time, at most as many as were measured concurrently. The rates of the node
        are fitted to public measurements.
    measured : str or Path, optional
        Parameters of a measured GPU (this_gpu.parameters.csv) that replace assumed values.

    Returns
    -------
    Choice
        Best method, its margin over the second-best method, and whether the two are tied.

    Raises
    ------
    InputError
        If an argument is out of range or the power of the system is unknown.

    References
    ----------
    Froening, "Towards efficient communication methods and models for scalable GPU-centric
    computing systems", GTC 2016 (S6357).

    Examples
    --------
    >>> import fabricast as fc
    >>> fc.select_method("summit_spectrum", "4 B").path
    'direct'
    """
    rates = gpu_node_rates(system) if gpus > 1 and system in systems()[1:] else None
    return select(
        system,
        to_bytes(size),
        nodes=nodes,
        overlap=overlap,
        compute_s=compute_s,
        objective=objective,  # type: ignore[arg-type]  # checked there
        gpus=gpus,
        rates=rates,
        measured=None if measured is None else read_measured(Path(measured)),
    )


@cache
def gpu_node_rates(system: str) -> NodeRates:
    """Fit the refined max-rate model to the public measurements of a system's GPUs.

    Measurements of BenchPress, messages of 8 KiB and more (config/published/maxrate_measurements.csv).

    >>> rates = gpu_node_rates("lassen_spectrum")
    >>> rates.most_processes
    4
    """
    measurement = read_measurements(published() / "maxrate_measurements.csv")
    rows = measurement[(measurement["dataset"] == f"{system}_gpu") & (measurement["size_bytes"] >= LARGE_BYTES)]
    if rows.empty:
        raise InputError(
            f"is {system}, expected a system with concurrent measurements of several GPUs per node", argument="system"
        )
    cells = rows[["size_bytes", "processes"]].to_numpy(dtype=np.float64)
    # Convert to one-way times: a round trip consists of two messages.
    times = rows["time_s"].to_numpy(dtype=np.float64) / rows["convention"].map(CONVENTIONS).to_numpy(dtype=np.float64)
    parameters = MaxRateRegressor("refined", _STARTS).fit(cells, times).parameters_
    return NodeRates(
        r_n=parameters["r_n"], r_b=parameters["r_b"], r_i=parameters["r_i"], most_processes=int(rows["processes"].max())
    )
