"""Max-rate models fitted to measurements of several processes per node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.api.machine_inputs import Files, paths_of
from fabricast.api.messages import check_counts_of_table, datasets_of_facts, message_facts
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.quantities import check_count, check_seed
from fabricast.core.seeds import random_generator
from fabricast.maxrate.fitting import MaxRateRegressor
from fabricast.maxrate.intervals import parameter_intervals
from fabricast.maxrate.models import CONVENTIONS, FORMS

__all__ = ["DatasetFit", "fit_datasets", "fit_max_rate"]

FEWEST_CELLS = 4
_UNITS = {"s": "s", "r": "bytes/s", "k": "processes"}


@dataclass(frozen=True)
class DatasetFit:
    """Max-rate model fitted to one data set.

    Parameters
    ----------
    dataset, convention : str
        Name of the data set, and convention of its times.
    cells : ndarray of float64, shape (cells, 2)
        Message sizes in bytes and numbers of processes.
    times : ndarray of float64, shape (cells,)
        Measured times in s.
    regressor : MaxRateRegressor
        Fitted model.
    intervals : dict
        95 % interval of each parameter; None if the data do not identify the parameter.
    """

    dataset: str
    convention: str
    cells: NDArray[np.float64]
    times: NDArray[np.float64]
    regressor: MaxRateRegressor
    intervals: dict[str, tuple[float, float] | None]


def fit_datasets(
    measurements: pd.DataFrame, model: str, *, smallest_bytes: float, draws: int, seed: int, path: str | None = None
) -> Iterator[DatasetFit]:
    """Fit a model to every data set."""
    if model not in FORMS:
        raise unknown_name("model", model, FORMS)
    rows = measurements[measurements["size_bytes"] >= smallest_bytes]
    if rows.empty:
        raise InputError(f"contains no messages of at least {smallest_bytes:g} bytes", path=path)
    fewest = max(FEWEST_CELLS, len(FORMS[model].parameters))
    for dataset, part in rows.groupby("dataset", sort=True):
        if len(part) < fewest:
            raise InputError(
                f"data set '{dataset}' has {len(part)} cells, expected at least {fewest} for the model '{model}'",
                path=path,
            )
        conventions = sorted(set(part["convention"]))
        if len(conventions) > 1:
            raise InputError(
                f"data set '{dataset}' mixes the conventions {', '.join(conventions)}, expected one", path=path
            )
        cells = part[["size_bytes", "processes"]].to_numpy(dtype=np.float64)
        times = part["time_s"].to_numpy(dtype=np.float64)
        regressor = MaxRateRegressor(model, random_state=seed % 2**32).fit(cells, times)
        generator = random_generator(seed, f"maxrate.{dataset}")
        intervals = parameter_intervals(regressor, cells, times, draws=draws, generator=generator)
        yield DatasetFit(str(dataset), conventions[0], cells, times, regressor, intervals)


@with_checked_types
def fit_max_rate(
    measurements: pd.DataFrame | Files,
    *,
    model: str = "refined",
    processes: int | None = None,
    node_pairs: int = 1,
    smallest_bytes: float = 0.0,
    draws: int = 200,
    seed: int = 20161113,
) -> pd.DataFrame:
    """Fit a max-rate model to measurements, with 95 % intervals of the parameters.

    Max-rate models describe the time for several processes of a node to send messages of the same size, limited by
    the rate of each process and of the node.

    Parameters
    ----------
    measurements : pandas.DataFrame, str, Path or sequence of these
        Columns processes, size_bytes, time_s and, optionally, dataset and convention (round_trip, one_way or
        windowed; one_way by default). Files are CSV or Parquet, or output of benchmark programs; outputs of one
        program with different numbers of processes are fitted together.
    model : str, default 'refined'
        Model: postal, maxrate, refined, refined_latency or overload.
    processes : int, optional
        Number of process pairs, if the benchmark output omits it.
    node_pairs : int, default 1
        Number of node pairs over which the processes of benchmark output are spread evenly.
    smallest_bytes : float, default 0
        Size in bytes below which messages are ignored.
    draws : int, default 200
        Number of bootstrap samples for the intervals.
    seed : int, default 20161113
        Seed of the starting points of the fit and of the bootstrap.

    Returns
    -------
    pandas.DataFrame
        One row per data set and parameter: dataset, model, convention, parameter, value, unit, low, high, determined.
        `determined` is false if the data do not identify the parameter; value, low and high are then NaN.

    Raises
    ------
    InputError
        If a file or column is invalid, or a data set is too small.

    References
    ----------
    Gropp, Olson, Samfass, "Modeling MPI communication performance on SMP nodes: Is it time to
    retire the ping pong test", EuroMPI 2016, https://doi.org/10.1145/2966884.2966919

    Examples
    --------
    >>> import fabricast as fc
    >>> k, n = np.meshgrid([1, 2, 4, 8, 16], 2.0 ** np.arange(10, 21))
    >>> times = 2e-6 + k * n / np.minimum(10e9, k * 3e9)
    >>> df = pd.DataFrame({"processes": k.ravel(), "size_bytes": n.ravel(), "time_s": times.ravel()})
    >>> fit = fc.fit_max_rate(df, model="maxrate", draws=20).set_index("parameter")
    >>> (fit["value"] / [1e-6, 1e9, 1e9]).round(3).to_dict()
    {'s': 2.0, 'r_n': 10.0, 'r_c': 3.0}
    """
    check_count("draws", draws, 100_000, least=20)
    check_seed(seed)
    check_count("node_pairs", node_pairs, 1_000_000)
    if processes is not None:
        check_count("processes", processes, 1_000_000)
    path: str | None = None
    if isinstance(measurements, pd.DataFrame):
        check_counts_of_table(processes, node_pairs)
        rows = _checked(measurements)
    else:
        path = next(iter(paths_of(measurements)), None)
        if path is None:
            raise InputError("is empty, expected at least one file", argument="measurements")
        found = datasets_of_facts(message_facts(measurements), processes=processes, node_pairs=node_pairs)
        rows = pd.concat([part for _, part in found], ignore_index=True)
    records = []
    for fit in fit_datasets(rows, model, smallest_bytes=smallest_bytes, draws=draws, seed=seed, path=path):
        for name, value in fit.regressor.parameters_.items():
            interval = fit.intervals[name]
            low, high = (np.nan, np.nan) if interval is None else interval
            records.append(
                {
                    "dataset": fit.dataset,
                    "model": model,
                    "convention": fit.convention,
                    "parameter": name,
                    "value": np.nan if interval is None else value,
                    "unit": _UNITS[name[0]],
                    "low": low,
                    "high": high,
                    "determined": interval is not None,
                }
            )
    return pd.DataFrame(records)


def _checked(measurements: pd.DataFrame) -> pd.DataFrame:
    rows = measurements.copy()
    needed = ["processes", "size_bytes", "time_s"]
    missing = [name for name in needed if name not in rows]
    if missing:
        raise InputError(f"lacks the columns {', '.join(missing)}", argument="measurements")
    numbers = rows[needed].apply(pd.to_numeric, errors="coerce")
    wrong = ~((numbers > 0) & np.isfinite(numbers)).all(axis=1)
    wrong |= (numbers["processes"] % 1 != 0) | (rows["processes"].map(lambda value: isinstance(value, bool)))
    if wrong.any():
        raise InputError(
            f"contains {int(wrong.sum())} invalid rows, expected positive numbers and whole numbers of processes",
            argument="measurements",
        )
    rows[needed] = numbers
    for name, default in (("dataset", "mine"), ("convention", "one_way")):
        if name not in rows:
            rows[name] = default
    unknown = sorted(set(rows["convention"]) - set(CONVENTIONS))
    if unknown:
        raise unknown_name("convention", unknown[0], CONVENTIONS)
    return rows
