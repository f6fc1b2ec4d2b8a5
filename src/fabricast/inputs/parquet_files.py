"""Tables that other programs wrote as Parquet, as columns and, where one is wrong, row by row."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from fabricast.core.errors import InputError
from fabricast.inputs.arrow_columns import columns_of, record_batches

if TYPE_CHECKING:
    import duckdb
    from arro3.core import RecordBatch

__all__ = ["ParquetRow", "parquet_blocks", "parquet_rows", "read_parquet"]


@dataclass(frozen=True)
class ParquetRow:
    """One row of a Parquet file, with the messages of a row of CSV.

    Parameters
    ----------
    path : Path
        The file.
    line : int
        Number of the row, counted from 1.
    values : mapping
        Value by column.
    """

    path: Path
    line: int
    values: Mapping[str, object]

    def __contains__(self, column: str) -> bool:
        """Return whether the file has a column."""
        return column in self.values

    def __getitem__(self, column: str) -> str:
        """Return a value as text; empty where there is none."""
        value = self.values[column]
        return "" if value is None or value != value else str(value)

    def get(self, column: str, default: str = "") -> str:
        """Return the text of a column, or a default where the file lacks it."""
        return self[column] if column in self.values else default

    def number(self, column: str, *, default: float | None = None) -> float:
        """Return the finite number in a column; the default where it is absent or empty."""
        if default is not None and not self.get(column):
            return default
        try:
            found = float(self[column])
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            raise self.error(f"{column} is '{self[column]}', expected a number")
        return found

    def error(self, message: str) -> InputError:
        """Return what refuses this row, with file and number."""
        return InputError(f"row {self.line}: {message}", path=self.path)


def read_parquet(
    path: Path | str, texts: Iterable[str] = (), numbers: Iterable[str] = (), other_texts: Iterable[str] = (),
    *, required_numbers: Iterable[str] = (), most_rows: int | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Read a Parquet file.

    Parameters
    ----------
    path : Path or str
        The file.
    texts : iterable of str
        Columns that must be there, and are read as texts: categories, in the order in which they come first, an empty
        one where none is given. Without any column that must be there, all are read as they are.
    numbers : iterable of str
        Columns that may be there, with numbers, NaN where none is given.
    other_texts : iterable of str
        Columns of texts that may be there.
    required_numbers : iterable of str
        Columns that must be there, with numbers.
    most_rows : int, optional
        Limit, seen before any row is read: a small file may hold billions of equal ones.

    Returns
    -------
    pandas.DataFrame
        Its rows, in order.

    Raises
    ------
    InputError
        If it is no Parquet, has more rows, lacks a column, has another one, or one of numbers holds none.
    """
    texts, other_texts, required = list(texts), list(other_texts), list(required_numbers)
    # Imported here: a CSV file needs no database.
    import duckdb

    with duckdb.connect() as connection:
        with _naming(path):
            relation = connection.read_parquet(_name(path))
            if most_rows is not None and len(relation) > most_rows:
                raise InputError(f"holds {len(relation):,} rows, expected at most {most_rows:,}", path=path)
            if not (texts or required):
                whole: pd.DataFrame = relation.df()
                return whole
            columns = _columns(path, relation, texts, [*required, *numbers], other_texts, required)
        return columns_of(_batches(path, relation, columns), columns, (*texts, *other_texts))


def parquet_blocks(
    path: Path | str, texts: Sequence[str], numbers: Sequence[str], other_texts: Sequence[str], block_rows: int
) -> tuple[int, Iterator[pd.DataFrame]]:
    """Read a Parquet file some rows at a time.

    Parameters
    ----------
    path, texts, numbers, other_texts
        As for `read_parquet`.
    block_rows : int
        How many rows at a time.

    Returns
    -------
    tuple of (int, iterator)
        How many rows the file has, and these in order, as of `read_parquet`; their index counts from the first of the
        file.

    Raises
    ------
    InputError
        As of `read_parquet`, also while rows are taken.
    """
    import duckdb

    connection = duckdb.connect()
    with _naming(path):
        relation = connection.read_parquet(_name(path))
        columns = _columns(path, relation, list(texts), list(numbers), list(other_texts))
        total = len(relation)

    def blocks() -> Iterator[pd.DataFrame]:
        before = 0
        with connection:
            for batch in _batches(path, relation, columns):
                for first in range(0, batch.num_rows, block_rows):
                    part = batch.slice(first, min(block_rows, batch.num_rows - first))
                    table = columns_of([part], columns, (*texts, *other_texts))
                    yield table.set_index(pd.RangeIndex(before, before + len(table)))
                    before += len(table)

    return total, blocks()


def _batches(path: Path | str, relation: duckdb.DuckDBPyRelation, columns: Mapping[str, str]) -> Iterator[RecordBatch]:
    """Give what a query asks for, and name the file where it cannot be read."""
    chosen = relation.project(", ".join(f"{column} AS {name}" for name, column in columns.items()))
    batches = record_batches(chosen)
    while True:
        with _naming(path):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextmanager
def _naming(path: Path | str) -> Iterator[None]:
    """Name the file in whatever cannot be read of it: through Arrow, errors of DuckDB lose their type."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [repr(error)])[0].removeprefix("C Data interface error: ")
        raise InputError(f"is not a readable Parquet file ({reason})", path=path) from error


def _name(path: Path | str) -> str:
    """Return what DuckDB takes for this file alone: it looks for patterns in names."""
    if not Path(path).is_file():
        if Path(path).exists() and not Path(path).is_dir():
            raise InputError("is a pipe or device, expected a file", path=path)
        problem = errno.EISDIR if Path(path).is_dir() else errno.ENOENT
        raise InputError(f"cannot be read: {os.strerror(problem)}", path=path)
    return escape(str(path))


def _columns(
    path: Path | str, relation: duckdb.DuckDBPyRelation, texts: list[str], numbers: list[str], other_texts: list[str],
    required: Sequence[str] = (),
) -> dict[str, str]:  # fmt: skip
    """Return what a query asks for, texts and numbers, by column; what is missing is an empty text, or no number."""
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    _check_columns(path, kinds, texts, numbers, other_texts, required)
    as_texts = {name: f"coalesce(CAST({name} AS VARCHAR), '')" for name in (*texts, *other_texts) if name in kinds}
    return as_texts | {name: f"coalesce(CAST({name} AS DOUBLE), 'NaN')" for name in numbers if name in kinds}


def _check_columns(
    path: Path | str, kinds: Mapping[str, str], texts: list[str], numbers: list[str], other_texts: list[str],
    required: Sequence[str],
) -> None:  # fmt: skip
    more = [name for name in (*numbers, *other_texts) if name not in required]
    expected = ", ".join([*texts, *required, *(f"[{name}]" for name in more)])
    missing = [name for name in (*texts, *required) if name not in kinds]
    unknown = [name for name in kinds if name not in (*texts, *numbers, *other_texts)]
    if missing or unknown:
        what = f"lacks the column '{missing[0]}'" if missing else f"has the unknown column '{unknown[0]}'"
        raise InputError(f"{what}, expected {expected}", path=path)
    wrong = [name for name in numbers if kinds.get(name, "DOUBLE") in ("VARCHAR", "BOOLEAN", "BLOB")]
    if wrong:
        raise InputError(f"column '{wrong[0]}' is {kinds[wrong[0]]}, expected numbers", path=path)


def parquet_rows(path: Path | str, table: pd.DataFrame) -> Iterator[ParquetRow]:
    """Give the rows of a table that `read_parquet` or `parquet_blocks` returned, one by one."""
    for number, values in zip(table.index, table.astype(object).to_dict("records"), strict=True):
        yield ParquetRow(Path(path), 1 + number, {str(name): value for name, value in values.items()})
