"""Matrices of rates and latencies, as nvbandwidth and p2pBandwidthLatencyTest print them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from fabricast.core.errors import InputError

#: Columns of tables of bandwidths.
BANDWIDTH_COLUMNS = ["program", "test", "row", "column", "value", "unit", "line"]
#: Plausible rates and latencies; values outside indicate damaged output.
_BOUNDS = {"bytes/s": (1e3, 1e15), "s": (1e-12, 1e3)}
#: First words of the lines below a matrix.
_END = re.compile(r"SUM |MIN |MAX |AVG |Running |memcpy |.*Matrix \(|\s*P2P=")


#: Cells of copies that were not measured; authors of pages write dashes on the diagonal.
_NOT_MEASURED = ("N/A", "-", "\u2013", "\u2014")


class Cell(NamedTuple):
    """Cell of a matrix with the line of its row; the unit is bytes/s or s."""

    program: str
    test: str
    row: str
    column: str
    value: float
    unit: str
    line: int


def number_of(text: str) -> float:
    """Return the number of a cell; NaN for a pair that was not measured."""
    if text.upper() in _NOT_MEASURED:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        raise InputError(f"a cell is '{text[:20]}', expected a rate, or N/A for a copy without measurement") from None
    if not (math.isfinite(number) and number >= 0):
        raise InputError(
            f"a cell is '{text[:20]}', expected a rate of at least 0, or N/A for a copy without measurement"
        )
    return number


def read_matrix(lines: Sequence[str], start: int) -> tuple[list[str], list[tuple[str, list[float], int]]]:
    """Return column names and rows of a matrix whose header is line `start`, and the line number of each row."""
    columns = [word for word in lines[start].split() if word not in ("D\\D", "GPU", "CPU")]
    for word in columns:
        if not re.fullmatch("[0-9]{1,4}", word):
            raise InputError(f"the name of a column is '{word}', expected a device number", line=start + 1)
    rows: list[tuple[str, list[float], int]] = []
    for number, line in enumerate(lines[start + 1 :], start + 2):
        words = line.split()
        if not words or len(rows) == len(columns) or _END.match(line):
            break
        if not words[0].isdigit():
            # A warning of another program between two rows.
            continue
        try:
            rows.append((words[0], _values(words, columns, {row for row, *_ in rows}), number))
        except ValueError as error:
            raise InputError(getattr(error, "reason", str(error)), line=number) from error
    return columns, rows


def _values(words: list[str], columns: list[str], known: set[str]) -> list[float]:
    """Return the numbers of a row."""
    if len(words) != len(columns) + 1:
        raise InputError(f"row {words[0][:20]} has {len(words) - 1} values, expected {len(columns)}")
    if words[0] in known:
        raise InputError(f"row {words[0]} is a duplicate")
    values = [number_of(word) for word in words[1:]]
    for column, value in zip(columns, values, strict=True):
        if value == 0 and column != words[0]:
            raise InputError(
                f"the rate from {words[0]} to {column} is 0: repeat the copy, or write N/A to leave it out"
            )
    return values


def check_unit(title: str, known: tuple[str, ...] = ("GB/s", "us", "ns")) -> None:
    """Raise an error if the unit in the title of a matrix is not a known unit."""
    # The unit is one of the words in brackets; others such as (row) are not.
    words = re.findall(r"\(([^()]*)\)", title) or ["no unit"]
    unit = next((word for word in words if word in known), words[-1])
    if unit not in known:
        raise InputError(f"'{title.strip()[:80]}' has '{unit}', expected {' or '.join(known)}")


def check_complete(name: str, columns: Sequence[str], rows: Sequence[str], *, is_square: bool) -> None:
    """Raise an error if rows of a matrix are missing."""
    if is_square and list(rows) != list(columns):
        raise InputError(f"the matrix of '{name}' has {len(rows)} rows, expected {len(columns)}")
    if not rows:
        raise InputError(f"the matrix of '{name}' has no rows, expected at least one")


def checked_cells(cells: Sequence[Cell]) -> Iterator[Cell]:
    """Yield the measured cells of one matrix; values that are not plausible are errors."""
    for cell in cells:
        # nvbandwidth prints N/A for pairs that were not measured; older versions print 0.
        if math.isnan(cell.value) or cell.value == 0:
            continue
        low, high = _BOUNDS[cell.unit]
        if not low <= cell.value <= high:
            raise InputError(
                f"{cell.test} is {cell.value:g} {cell.unit} from {cell.row} to {cell.column}, expected {low:g} to "
                f"{high:g}",
                line=cell.line or None,
            )
        yield cell


def table_of(cells: Sequence[Cell]) -> pd.DataFrame:
    """Return cells as a data frame with `BANDWIDTH_COLUMNS`."""
    return pd.DataFrame(cells, columns=BANDWIDTH_COLUMNS)
