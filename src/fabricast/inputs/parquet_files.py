"""Tables that other programs wrote as Parquet, as columns and, where one is wrong, row by row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fabricast.core.errors import InputError

__all__ = ["ParquetRow", "parquet_blocks", "parquet_rows", "read_parquet"]


#: DuckDB gives rows in multiples of this.
_VECTOR_ROWS = 2048


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
    path: Path | str, texts: Iterable[str] = (), numbers: Iterable[str] = (), other_texts: Iterable[str] = ()
) -> pd.DataFrame:
    """Read a Parquet file.

    Parameters
    ----------
    path : Path or str
        The file.
    texts : iterable of str
        Columns that must be there, and are read as texts. Without any, all columns are read as they are.
    numbers : iterable of str
        Columns that may be there, with numbers.
    other_texts : iterable of str
        Columns that may be there, and are read as texts.

    Returns
    -------
    pandas.DataFrame
        Its rows, in order.

    Raises
    ------
    InputError
        If it is no Parquet, lacks a column, has another one, or one of numbers holds none.
    """
    # Imported here: a CSV file needs no database.
    import duckdb

    texts, numbers, other_texts = list(texts), list(numbers), list(other_texts)
    with duckdb.connect() as connection:
        try:
            relation = connection.read_parquet(str(path))
            kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
            if not texts:
                whole: pd.DataFrame = relation.df()
                return whole
            chosen: pd.DataFrame = relation.project(_columns(path, kinds, texts, numbers, other_texts)).df()
            return chosen
        except duckdb.Error as error:
            raise _unreadable(path, error) from error


def parquet_blocks(
    path: Path | str, texts: Iterable[str], numbers: Iterable[str], block_rows: int, other_texts: Iterable[str] = ()
) -> tuple[int, Iterator[tuple[pd.DataFrame, int]]]:
    """Read a Parquet file some rows at a time.

    Parameters
    ----------
    path, texts, numbers, other_texts
        As for `read_parquet`.
    block_rows : int
        About how many rows at a time.

    Returns
    -------
    tuple of (int, iterator)
        How many rows the file has, and its rows in order, each block with the number of rows before it.

    Raises
    ------
    InputError
        As of `read_parquet`, also while blocks are taken.
    """
    import duckdb

    texts, numbers, other_texts = list(texts), list(numbers), list(other_texts)
    with duckdb.connect() as connection:
        try:
            total = len(connection.read_parquet(str(path)))
        except duckdb.Error as error:
            raise _unreadable(path, error) from error

    def blocks() -> Iterator[tuple[pd.DataFrame, int]]:
        before = 0
        with duckdb.connect() as connection:
            try:
                relation = connection.read_parquet(str(path))
                kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
                chosen = _columns(path, kinds, texts, numbers, other_texts)
                found = connection.execute(f"SELECT {chosen} FROM read_parquet(?)", [str(path)])
                while len(table := found.fetch_df_chunk(-(-block_rows // _VECTOR_ROWS))):
                    yield table, before
                    before += len(table)
            except duckdb.Error as error:
                raise _unreadable(path, error) from error

    return total, blocks()


def _unreadable(path: Path | str, error: Exception) -> InputError:
    return InputError(f"is not a readable Parquet file ({str(error).splitlines()[0]})", path=path)


def _columns(
    path: Path | str, kinds: Mapping[str, str], texts: list[str], numbers: list[str], other_texts: list[str]
) -> str:
    """Return the columns of a query for texts and numbers."""
    _check_columns(path, kinds, texts, numbers, other_texts)
    there = [*texts, *(name for name in other_texts if name in kinds)]
    columns = [f"CAST({name} AS VARCHAR) AS {name}" for name in there]
    columns += [f"CAST({name} AS DOUBLE) AS {name}" for name in numbers if name in kinds]
    return ", ".join(columns)


def _check_columns(
    path: Path | str, kinds: Mapping[str, str], texts: list[str], numbers: list[str], other_texts: list[str]
) -> None:
    expected = ", ".join([*texts, *(f"[{name}]" for name in (*numbers, *other_texts))])
    missing = [name for name in texts if name not in kinds]
    unknown = [name for name in kinds if name not in (*texts, *numbers, *other_texts)]
    if missing or unknown:
        what = f"lacks the column '{missing[0]}'" if missing else f"has the unknown column '{unknown[0]}'"
        raise InputError(f"{what}, expected {expected}", path=path)
    wrong = [name for name in numbers if kinds.get(name, "DOUBLE") in ("VARCHAR", "BOOLEAN", "BLOB")]
    if wrong:
        raise InputError(f"column '{wrong[0]}' is {kinds[wrong[0]]}, expected numbers", path=path)


def parquet_rows(path: Path | str, table: pd.DataFrame, rows_before: int = 0) -> Iterator[ParquetRow]:
    """Give the rows of a table that `read_parquet` returned, or of a block after some rows, one by one."""
    for number, values in enumerate(table.astype(object).to_dict("records"), 1 + rows_before):
        yield ParquetRow(Path(path), number, {str(name): value for name, value in values.items()})
