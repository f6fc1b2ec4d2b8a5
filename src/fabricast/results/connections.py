"""DuckDB connections, and error reports for failed writes."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import duckdb

from fabricast.core.errors import InputError

_CATALOGUES = count()


def quoted(text: str) -> str:
    """Escape a text for an SQL string literal, for statements that do not accept parameters."""
    return text.replace("'", "''")


def connect(path: Path | str = ":memory:") -> duckdb.DuckDBPyConnection:
    """Open a DuckDB connection that does not install or load extensions automatically."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    return duckdb.connect(str(path), config=settings)


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    # One instance per process: starting DuckDB is slower than reading or writing a small table.
    connection = connect()
    # Closing removes temporary files that DuckDB writes if data do not fit in memory.
    atexit.register(connection.close)
    return connection


@contextmanager
def connect_apart() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an isolated connection to the shared DuckDB instance of this process.

    >>> with connect_apart() as one, connect_apart() as other:
    ...     _ = one.execute("CREATE TABLE kept AS SELECT 1"), other.execute("CREATE TABLE kept AS SELECT 2")
    ...     one.execute("FROM kept").fetchall()
    [(1,)]
    """
    with _instance().cursor() as connection:
        catalogue = f"catalogue_{next(_CATALOGUES)}"
        connection.execute(f"ATTACH ':memory:' AS {catalogue}")
        try:
            connection.execute(f"USE {catalogue}")
            yield connection
        finally:
            connection.execute("USE memory")
            connection.execute(f"DETACH {catalogue}")


@contextmanager
def connect_with_little_memory(memory: str, folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a separate DuckDB instance with a memory limit, for large tables."""
    with connect() as connection:
        connection.execute(f"SET memory_limit = '{memory}'")
        connection.execute(f"SET temp_directory = '{quoted(str(folder / f'.writing.{os.getpid()}'))}'")
        yield connection


def is_failed_write(error: duckdb.Error) -> bool:
    """Return whether an error of a statement or commit means that a file could not be written."""
    return re.search("Could not write|No space left", str(error)) is not None


@contextmanager
def report_full_disk(path: Path | str) -> Iterator[None]:
    """Convert DuckDB errors about failed writes to one-line errors."""
    try:
        yield
    except duckdb.Error as error:
        if not isinstance(error, duckdb.IOException) and not is_failed_write(error):
            raise
        text = str(error)
        number = re.search(r'"errno":"(\d+)"', text)
        reason = os.strerror(int(number[1])) if number else re.split(r'"[^"]*": ', text.splitlines()[0])[-1]
        raise InputError(f"cannot be written: {reason}", path=path) from error
