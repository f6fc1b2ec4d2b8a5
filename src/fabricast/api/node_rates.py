"""Rates of nodes on which several GPUs send, fitted to public measurements when they are asked for."""

from __future__ import annotations

from functools import cache

import numpy as np

from fabricast.core.errors import InputError
from fabricast.core.node_rate import NodeRates
from fabricast.core.resources import published
from fabricast.maxrate.fitting import MaxRateRegressor
from fabricast.maxrate.measurements import read_measurements
from fabricast.maxrate.models import CONVENTIONS
from fabricast.maxrate.tables import LARGE_BYTES

__all__ = ["gpu_node_rates"]

_STARTS = 4


@cache
def gpu_node_rates(system: str) -> NodeRates:
    """Fit the refined max-rate model to the public measurements of a system's GPUs.

    Parameters
    ----------
    system : str
        A system of `fabricast.gpucentric.selector.systems` whose paths are measured.

    Returns
    -------
    NodeRates
        Rates one way, and the most GPUs of a node that were measured.

    Raises
    ------
    InputError
        If no GPUs of the system were measured together.

    References
    ----------
    Measurements of BenchPress, messages of 8 KiB and more (config/published/maxrate_measurements.csv).

    Examples
    --------
    >>> rates = gpu_node_rates("lassen_spectrum")
    >>> rates.most_processes
    4
    """
    measurement = read_measurements(published() / "maxrate_measurements.csv")
    rows = measurement[(measurement["dataset"] == f"{system}_gpu") & (measurement["size_bytes"] >= LARGE_BYTES)]
    if rows.empty:
        raise InputError(f"is {system}, of which no GPUs of one node were measured together", argument="system")
    cells = rows[["size_bytes", "processes"]].to_numpy(dtype=np.float64)
    # A round trip takes as long as two ways.
    times = rows["time_s"].to_numpy(dtype=np.float64) / rows["convention"].map(CONVENTIONS).to_numpy(dtype=np.float64)
    parameters = MaxRateRegressor("refined", _STARTS).fit(cells, times).parameters_
    return NodeRates(
        r_n=parameters["r_n"], r_b=parameters["r_b"], r_i=parameters["r_i"],
        most_processes=int(rows["processes"].max()),
    )  # fmt: skip
