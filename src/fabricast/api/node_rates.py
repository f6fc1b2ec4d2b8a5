"""Rates of nodes with several sending GPUs, fitted to public measurements."""

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
        System of `fabricast.gpucentric.selector.systems` with measured paths.

    Returns
    -------
    NodeRates
        Rates of one-way messages in bytes/s, and the largest number of GPUs per node that was measured.

    Raises
    ------
    InputError
        If several GPUs of a node were never measured concurrently on this system.

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
        raise InputError(
            f"is {system}, expected a system with concurrent measurements of several GPUs per node", argument="system"
        )
    cells = rows[["size_bytes", "processes"]].to_numpy(dtype=np.float64)
    # Convert to one-way times: a round trip consists of two messages.
    times = rows["time_s"].to_numpy(dtype=np.float64) / rows["convention"].map(CONVENTIONS).to_numpy(dtype=np.float64)
    parameters = MaxRateRegressor("refined", _STARTS).fit(cells, times).parameters_
    return NodeRates(
        r_n=parameters["r_n"], r_b=parameters["r_b"], r_i=parameters["r_i"],
        most_processes=int(rows["processes"].max()),
    )  # fmt: skip
