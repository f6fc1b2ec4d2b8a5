"""Measurements of k processes a node, read from CSV."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pandas as pd

from fabricast.errors import InputError
from fabricast.maxrate.models import CONVENTIONS

__all__ = ["choose_datasets", "read_measurements"]

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
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text: {error.reason}", path=path) from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line and not line.startswith("#")]
    rows = list(csv.reader(line for _, line in numbered))
    header = [name.strip() for name in rows[0]] if rows else []
    known = {*_REQUIRED, *_OPTIONAL}
    if not set(_REQUIRED) <= set(header) or not set(header) <= known or len(set(header)) != len(header):
        raise InputError(
            f"has the columns {','.join(header) or 'none'}, expected {','.join(_REQUIRED)} and, if wanted, "
            f"{','.join(_OPTIONAL)}", path=path, line=numbered[0][0] if numbered else 1,
        )  # fmt: skip
    found = []
    seen = set()
    for (line, _), cells in zip(numbered[1:], rows[1:], strict=True):
        if len(cells) != len(header):
            raise InputError(f"has {len(cells)} fields, expected {len(header)}", path=path, line=line)
        row = {**_OPTIONAL, **dict(zip(header, (cell.strip() for cell in cells), strict=True))}
        try:
            numbers = {name: float(row[name]) for name in _REQUIRED}
            spread = float(row["spread"]) if row["spread"] else math.nan
            repetitions = int(row["repetitions"])
        except ValueError as error:
            raise InputError(f"is not a measurement: {error}", path=path, line=line) from error
        good = (
            all(math.isfinite(value) for value in numbers.values())
            and numbers["processes"] >= 1
            and numbers["processes"] == int(numbers["processes"])
            and numbers["size_bytes"] > 0
            and numbers["time_s"] > 0
        )
        if not good:
            raise InputError(
                f"processes, size_bytes and time_s are {', '.join(row[name] for name in _REQUIRED)}; expected a whole "
                "number of processes and positive sizes and times", path=path, line=line,
            )  # fmt: skip
        if row["convention"] not in CONVENTIONS:
            raise InputError(
                f"convention is '{row['convention']}', expected one of {', '.join(CONVENTIONS)}", path=path, line=line
            )
        key = (row["dataset"], row["system"], row["path"], numbers["processes"], numbers["size_bytes"])
        if key in seen:
            raise InputError("repeats a cell; give one time for each, such as the median", path=path, line=line)
        seen.add(key)
        found.append(
            {
                "dataset": row["dataset"], "system": row["system"], "path": row["path"],
                "processes": int(numbers["processes"]), "size_bytes": numbers["size_bytes"],
                "time_s": numbers["time_s"], "convention": row["convention"], "estimator": row["estimator"],
                "repetitions": repetitions, "spread": spread,
            }
        )  # fmt: skip
    if not found:
        raise InputError("holds no measurements, expected at least one", path=path)
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
