"""Tables that other programs wrote as Parquet, as columns and, where one is wrong, row by row."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError

if TYPE_CHECKING:
    import duckdb

__all__ = ["ParquetBlock", "ParquetRow", "as_category", "parquet_blocks", "parquet_rows", "read_parquet"]


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


@dataclass(frozen=True)
class ParquetBlock:
    """Some rows of a file.

    Parameters
    ----------
    texts : list of str
        Text of each run of rows.
    begins : ndarray of bool, shape (rows,)
        Whether a run begins in a row; the first of the block always counts as one.
    columns : pandas.DataFrame
        The other columns.
    rows_before : int
        How many rows stand before these.
    """

    texts: list[str]
    begins: NDArray[np.bool_]
    columns: pd.DataFrame
    rows_before: int


def read_parquet(
    path: Path | str, texts: Iterable[str] = (), numbers: Iterable[str] = (), other_texts: Iterable[str] = (),
    rows: range | None = None, *, required_numbers: Iterable[str] = (), most_rows: int | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Read a Parquet file.

    Parameters
    ----------
    path : Path or str
        The file.
    texts : iterable of str
        Columns that must be there, and are read as texts. Without any that must be there, all columns are read as they
        are.
    numbers : iterable of str
        Columns that may be there, with numbers.
    other_texts : iterable of str
        Columns that may be there, with few different texts: categories.
    rows : range, optional
        Which rows; without, all of them.
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
    # Imported here: a CSV file needs no database.
    import duckdb

    texts, required = list(texts), list(required_numbers)
    numbers, other_texts = [*required, *numbers], list(other_texts)
    with duckdb.connect() as connection:
        try:
            relation = connection.read_parquet(_name(path))
            if most_rows is not None and len(relation) > most_rows:
                raise InputError(f"holds {len(relation):,} rows, expected at most {most_rows:,}", path=path)
            kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
            if not (texts or required):
                whole: pd.DataFrame = relation.df()
                return whole
            columns = _columns(path, kinds, texts, numbers, other_texts, required)
            relation.create_view("every_row")
            for name in (name for name in other_texts if name in kinds):
                columns[name] = as_category(connection, "every_row", name, columns[name])
            chosen = relation.project(", ".join(f"{column} AS {name}" for name, column in columns.items()))
            some: pd.DataFrame = chosen.limit(rows.stop - rows.start, offset=rows.start).df() if rows else chosen.df()
            return some
        except duckdb.Error as error:
            raise _unreadable(path, error) from error


def as_category(connection: duckdb.DuckDBPyConnection, rows: str, name: str, text: str) -> str:
    """Make a type of the different texts of a column, and return the expression that reads them so, as categories.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Where the type is made.
    rows : str
        Table or view.
    name : str
        Column, for which the type is called.
    text : str
        Expression of its texts.

    Examples
    --------
    >>> import duckdb
    >>> with duckdb.connect() as connection:
    ...     _ = connection.execute("CREATE TABLE kept AS FROM (VALUES ('b'), (NULL), ('a')) AS kept(name)")
    ...     connection.sql(f"SELECT {as_category(connection, 'kept', 'name', 'name')} AS name FROM kept").types
    [ENUM('a', 'b')]
    """
    texts = f"SELECT DISTINCT {text} FROM {rows} WHERE {text} IS NOT NULL ORDER BY ALL"
    connection.execute(f"CREATE TYPE {name}_texts AS ENUM ({texts})")
    return f"{text}::{name}_texts"


def parquet_blocks(
    path: Path | str, run: str, places: Iterable[str], known: Sequence[str], numbers: Iterable[str], block_rows: int,
    other_texts: Iterable[str] = (),
) -> tuple[int, Iterator[ParquetBlock]]:  # fmt: skip
    """Read a Parquet file some rows at a time, with as few texts as tell its rows: each costs as much as a whole row.

    Parameters
    ----------
    path : Path or str
        The file.
    run : str
        Column of texts of which equal ones stand together.
    places : iterable of str
        Columns of texts of which few are known, read as their places among these; -1 for any other.
    known : sequence of str
        These texts.
    numbers, other_texts : iterable of str
        As for `read_parquet`.
    block_rows : int
        About how many rows at a time.

    Returns
    -------
    tuple of (int, iterator)
        How many rows the file has, and its rows in order.

    Raises
    ------
    InputError
        As of `read_parquet`, also while blocks are taken.
    """
    import duckdb

    places, numbers, other_texts = list(places), list(numbers), list(other_texts)
    with duckdb.connect() as connection:
        try:
            total = len(connection.read_parquet(_name(path)))
        except duckdb.Error as error:
            raise _unreadable(path, error) from error

    def blocks() -> Iterator[ParquetBlock]:
        before, last = 0, ""
        with duckdb.connect() as connection:
            try:
                relation = connection.read_parquet(_name(path))
                kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
                columns = _columns(path, kinds, [run, *places], numbers, other_texts)
                connection.register("known_texts", pd.DataFrame({"text": known}))
                connection.execute("CREATE TYPE known AS ENUM (SELECT text FROM known_texts)")
                text = f"coalesce({columns.pop(run)}, '')"
                begins = f"{text} IS DISTINCT FROM lag({text}) OVER ()"
                for name in places:
                    columns[name] = f"coalesce(enum_code(TRY_CAST(trim({columns[name]}) AS known))::INTEGER, -1)"
                chosen = ", ".join(f"{column} AS {name}" for name, column in columns.items())
                found = connection.execute(f"SELECT {begins} AS begins, {chosen} FROM read_parquet(?)", [_name(path)])
                texts = connection.cursor().execute(
                    f"SELECT text FROM (SELECT {text} AS text, {begins} AS begins FROM read_parquet(?)) WHERE begins",
                    [_name(path)],
                )
                while len(table := found.fetch_df_chunk(-(-block_rows // _VECTOR_ROWS))):
                    first = table.pop("begins").to_numpy(copy=True)
                    own = [one for (one,) in texts.fetchmany(int(first.sum()))]
                    if not first[0]:
                        own, first[0] = [last, *own], True
                    last = own[-1]
                    yield ParquetBlock(own, first, table, before)
                    before += len(table)
            except duckdb.Error as error:
                raise _unreadable(path, error) from error

    return total, blocks()


def _name(path: Path | str) -> str:
    """Return what DuckDB takes for this file alone: it looks for patterns in names."""
    if not Path(path).is_file():
        if Path(path).exists() and not Path(path).is_dir():
            raise InputError("is a pipe or device, expected a file", path=path)
        problem = errno.EISDIR if Path(path).is_dir() else errno.ENOENT
        raise InputError(f"cannot be read: {os.strerror(problem)}", path=path)
    return escape(str(path))


def _unreadable(path: Path | str, error: Exception) -> InputError:
    return InputError(f"is not a readable Parquet file ({str(error).splitlines()[0]})", path=path)


def _columns(
    path: Path | str, kinds: Mapping[str, str], texts: list[str], numbers: list[str], other_texts: list[str],
    required: Sequence[str] = (),
) -> dict[str, str]:  # fmt: skip
    """Return what a query asks for, texts and numbers, by column."""
    _check_columns(path, kinds, texts, numbers, other_texts, required)
    there = [*texts, *(name for name in other_texts if name in kinds)]
    as_texts = {name: f"CAST({name} AS VARCHAR)" for name in there}
    return as_texts | {name: f"CAST({name} AS DOUBLE)" for name in numbers if name in kinds}


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


def parquet_rows(path: Path | str, table: pd.DataFrame, rows_before: int = 0) -> Iterator[ParquetRow]:
    """Give the rows of a table that `read_parquet` returned, or of a block after some rows, one by one."""
    for number, values in enumerate(table.astype(object).to_dict("records"), 1 + rows_before):
        yield ParquetRow(Path(path), number, {str(name): value for name, value in values.items()})
