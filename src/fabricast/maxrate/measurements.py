"""Reader of measurements of k processes per node (CSV or Parquet)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.inputs.csv_columns import csv_columns, text_codes
from fabricast.inputs.csv_files import MOST_ROWS, CsvRow, read_csv
from fabricast.inputs.files import read_text
from fabricast.inputs.parquet_files import ParquetRow, parquet_row, read_parquet
from fabricast.maxrate.models import CONVENTIONS

#: Limits of valid data.
MOST_PROCESSES = 1_000_000
LARGEST_BYTES, SHORTEST_S, LONGEST_S = 1e15, 1e-12, 1e6
_REQUIRED = ("processes", "size_bytes", "time_s")
_OPTIONAL = {
    "dataset": "user",
    "system": "user",
    "path": "network",
    "convention": "one_way",
    "estimator": "given",
    "repetitions": "1",
    "spread": "",
}
_TEXTS = ("dataset", "system", "path", "convention", "estimator")
#: Integers up to this value are exact in float64.
_LARGEST_WHOLE = 2.0**53
#: Columns that identify a cell together with processes and size.
_CELL = ("dataset", "system", "path")


def read_measurements(path: Path | str, *, text: str | None = None) -> pd.DataFrame:
    """Read measurements from CSV, from the text of a CSV file, or from Parquet.

    Lines that start with ``#`` are comments.
    """
    if Path(path).suffix.lower() == ".parquet":
        table = read_parquet(
            path, (), ("repetitions", "spread"), _TEXTS, required_numbers=_REQUIRED, most_rows=MOST_ROWS
        )
        if table.empty:
            raise InputError("contains no rows, expected at least one", path=path)
        return _of_columns(table, lambda number: parquet_row(path, table, number))
    text, optional = read_text(path, strict=True) if text is None else text, list(_OPTIONAL)
    columns = csv_columns(path, text, _REQUIRED, optional, numbers=(*_REQUIRED, "repetitions", "spread"))
    return _of_columns(columns, lambda number: read_csv(path, _REQUIRED, optional, text=text)[number])


def _of_columns(table: pd.DataFrame, row_of: Callable[[int], CsvRow | ParquetRow]) -> pd.DataFrame:
    """Return the measurements; `row_of` returns a row of the file for the message about the first error."""
    processes, size, time = (table[name].to_numpy() for name in _REQUIRED)
    invalid = ~((processes >= 1) & (processes <= MOST_PROCESSES) & (processes == np.round(processes)))
    invalid |= ~((size > 0) & (size <= LARGEST_BYTES) & (time >= SHORTEST_S) & (time <= LONGEST_S))
    repetitions = table["repetitions"].fillna(1.0).to_numpy() if "repetitions" in table else np.ones(len(table))
    invalid |= ~((repetitions >= 1) & (repetitions <= LARGEST_BYTES) & (repetitions == np.round(repetitions)))
    spread = table["spread"].to_numpy() if "spread" in table else np.full(len(table), math.nan)
    texts, cells = {}, {"processes": processes, "size_bytes": size}
    for name in _TEXTS:
        codes, different = (
            text_codes(table[name]) if name in table else (np.zeros(len(table), np.int64), [_OPTIONAL[name]])
        )
        if name == "convention":
            invalid |= ~np.isin(different, list(CONVENTIONS))[codes]
        texts[name] = pd.Series(different).array.take(codes)
        if name in _CELL and len(different) > 1:
            cells[name] = codes
    repeats = np.zeros(len(table), dtype=np.bool_)
    if invalid.any() or _repeat(cells):
        repeats = pd.DataFrame(cells).duplicated().to_numpy()
    invalid |= repeats | np.isinf(spread)
    if invalid.any():
        first = int(np.argmax(invalid))
        raise _error(row_of(first), repeats=bool(repeats[first]))
    return pd.DataFrame(
        {
            "dataset": texts["dataset"],
            "system": texts["system"],
            "path": texts["path"],
            "processes": processes.astype(np.int64),
            "size_bytes": size,
            "time_s": time,
            "convention": texts["convention"],
            "estimator": texts["estimator"],
            "repetitions": repetitions.astype(np.int64),
            "spread": spread,
        },
        copy=False,
    )


def _repeat(columns: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether any two rows are equal in all columns."""
    # Integers of small ranges are packed into one integer per row, which sorts faster than pandas finds duplicates.
    rows, spread = np.zeros(1, dtype=np.int64), 1.0
    for column in columns.values():
        least, most = float(column.min()), float(column.max())
        spread *= most - least + 1.0
        if spread >= _LARGEST_WHOLE or (column != np.floor(column)).any():
            return bool(pd.DataFrame(columns, copy=False).duplicated().any())
        rows = rows * np.int64(most - least + 1) + (column - least).astype(np.int64)
    rows = np.sort(rows)
    return bool((rows[1:] == rows[:-1]).any())


def _error(row: CsvRow | ParquetRow, *, repeats: bool) -> InputError:
    """Return the error about an invalid row."""
    processes, size, time = (row.number(name) for name in _REQUIRED)
    if (
        not 1 <= processes <= MOST_PROCESSES
        or processes != int(processes)
        or not 0 < size <= LARGEST_BYTES
        or not SHORTEST_S <= time <= LONGEST_S
    ):
        return row.error(
            f"processes, size_bytes and time_s are {', '.join(row[name] for name in _REQUIRED)}; expected a whole "
            f"number of processes up to {MOST_PROCESSES:,}, sizes up to {LARGEST_BYTES:g} and times from "
            f"{SHORTEST_S:g} to {LONGEST_S:g}"
        )
    repetitions = row.number("repetitions", default=1.0)
    if not 1 <= repetitions <= LARGEST_BYTES or repetitions != int(repetitions):
        return row.error(f"repetitions is {row['repetitions']}, expected a whole number from 1")
    convention = row.get("convention", _OPTIONAL["convention"])
    if convention not in CONVENTIONS:
        return row.error(f"convention is '{convention}', expected one of {', '.join(CONVENTIONS)}")
    if repeats:
        return row.error("repeats a cell, expected one time per cell; use for example the median")
    return row.error(f"spread is '{row['spread']}', expected a finite number")


def choose_datasets(measurement: pd.DataFrame, names: list[str] | None) -> pd.DataFrame:
    """Select the rows of some data sets."""
    if names is None:
        return measurement
    known = list(dict.fromkeys(measurement["dataset"]))
    for name in names:
        if name not in known:
            raise InputError(f"maxrate.datasets contains '{name}', expected some of {', '.join(known)}")
    return measurement[measurement["dataset"].isin(names)].reset_index(drop=True)
