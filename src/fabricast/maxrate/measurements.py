"""Measurements of k processes a node, read from CSV."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import read_csv
from fabricast.maxrate.models import CONVENTIONS

__all__ = ["choose_datasets", "read_measurements"]

#: More processes of one node, larger messages and other times are damaged data.
MOST_PROCESSES = 1_000_000
LARGEST_BYTES, SHORTEST_S, LONGEST_S = 1e15, 1e-12, 1e6
_REQUIRED = ("processes", "size_bytes", "time_s")
_OPTIONAL = {"dataset": "user", "system": "user", "path": "network", "convention": "one_way", "estimator": "given",
             "repetitions": "1", "spread": ""}  # fmt: skip


def read_measurements(path: Path | str) -> pd.DataFrame:
    """Read measurements; lines that start with ``#`` are comments.

    Parameters
    ----------
    path : Path or str
        CSV with the columns processes, size_bytes, time_s and, if wanted, dataset, system,
        path, convention (round_trip, one_way, windowed), estimator, repetitions, spread.

    Returns
    -------
    pandas.DataFrame
        All columns, one row a cell.

    Raises
    ------
    InputError
        On the first row that is wrong.
    """
    found = []
    seen = set()
    for row in read_csv(path, _REQUIRED, list(_OPTIONAL)):
        processes, size, time = (row.number(name) for name in _REQUIRED)
        if (
            not 1 <= processes <= MOST_PROCESSES
            or processes != int(processes)
            or not 0 < size <= LARGEST_BYTES
            or not SHORTEST_S <= time <= LONGEST_S
        ):
            raise row.error(
                f"processes, size_bytes and time_s are {', '.join(row[name] for name in _REQUIRED)}; expected a whole "
                f"number of processes up to {MOST_PROCESSES:,}, sizes up to {LARGEST_BYTES:g} and times from "
                f"{SHORTEST_S:g} to {LONGEST_S:g}"
            )
        repetitions = row.number("repetitions", default=1.0)
        if not 1 <= repetitions <= LARGEST_BYTES or repetitions != int(repetitions):
            raise row.error(f"repetitions is {row['repetitions']}, expected a whole number from 1")
        text = {**_OPTIONAL, **row.fields}
        if text["convention"] not in CONVENTIONS:
            raise row.error(f"convention is '{text['convention']}', expected one of {', '.join(CONVENTIONS)}")
        key = (text["dataset"], text["system"], text["path"], processes, size)
        if key in seen:
            raise row.error("repeats a cell; give one time for each, such as the median")
        seen.add(key)
        found.append(
            {
                "dataset": text["dataset"], "system": text["system"], "path": text["path"],
                "processes": int(processes), "size_bytes": size, "time_s": time, "convention": text["convention"],
                "estimator": text["estimator"], "repetitions": int(repetitions),
                "spread": row.number("spread") if text["spread"] else math.nan,
            }
        )  # fmt: skip
    return pd.DataFrame(found)


def choose_datasets(measurement: pd.DataFrame, names: list[str] | None) -> pd.DataFrame:
    """Return the rows of chosen data sets.

    Parameters
    ----------
    measurement : pandas.DataFrame
        Measurements.
    names : list of str or None
        Data sets; None keeps all.

    Returns
    -------
    pandas.DataFrame
        Their rows.

    Raises
    ------
    InputError
        If there is no such data set.
    """
    if names is None:
        return measurement
    known = list(dict.fromkeys(measurement["dataset"]))
    for name in names:
        if name not in known:
            raise InputError(f"maxrate.datasets names '{name}', expected some of {', '.join(known)}")
    return measurement[measurement["dataset"].isin(names)].reset_index(drop=True)
