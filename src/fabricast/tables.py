"""The tables of ``results/``: declared in schema.sql, written as ordered Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import duckdb
import pandas as pd

from fabricast.errors import InputError
from fabricast.files import whole_file

__all__ = [
    "connect",
    "create_schema",
    "key_columns",
    "merge_tables",
    "read_table",
    "read_tables",
    "schema_statements",
    "table_names",
    "write_table",
]


@cache
def schema_statements() -> tuple[str, ...]:
    """Return the statements of schema.sql, each comment turned into a COMMENT statement.

    Returns
    -------
    tuple of str
        In order: types, tables and views, each followed by its comments.
    """
    text = resources.files("fabricast").joinpath("schema.sql").read_text(encoding="utf-8")
    statements: list[str] = []
    block: list[str] = []
    for line in text.splitlines():
        block.append(line)
        if line.rstrip().endswith(";"):
            statements += _statements_of_block(block)
            block = []
    return tuple(statements)


def _statements_of_block(block: list[str]) -> list[str]:
    statement = "\n".join(block)
    statements = [statement]
    created = re.search(r"^CREATE (TABLE|VIEW) (\w+)", statement, re.MULTILINE)
    if created is None:
        return statements
    kind, name = created.groups()
    above = [line[3:] for line in block if line.startswith("-- ")]
    statements.append(f"COMMENT ON {kind} {name} IS '{_quoted(above[-1])}'")
    for line in block:
        column = re.match(r"  (\w+) .*-- (.*)$", line)
        if kind == "TABLE" and column:
            statements.append(f"COMMENT ON COLUMN {name}.{column[1]} IS '{_quoted(column[2])}'")
    return statements


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def connect(path: Path | str = ":memory:") -> duckdb.DuckDBPyConnection:
    """Open a DuckDB connection that never loads extensions from outside.

    Parameters
    ----------
    path : Path or str, default ':memory:'
        Database file.

    Returns
    -------
    duckdb.DuckDBPyConnection
        The connection.
    """
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    return duckdb.connect(str(path), config=settings)


def create_schema(connection: duckdb.DuckDBPyConnection) -> None:
    """Create all types, tables and views with their comments."""
    for statement in schema_statements():
        connection.execute(statement)


@cache
def _layout() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Columns and key columns of every table."""
    layout = {}
    for statement in schema_statements():
        created = re.search(r"^CREATE TABLE (\w+)", statement, re.MULTILINE)
        if created:
            columns = tuple(re.findall(r"^  (?!PRIMARY)(\w+) ", statement, re.MULTILINE))
            key = re.search(r"PRIMARY KEY \(([^)]*)\)", statement)
            assert key is not None
            layout[created[1]] = (columns, tuple(part.strip() for part in key[1].split(",")))
    return layout


def table_names() -> tuple[str, ...]:
    """Return the names of all tables, in the order of schema.sql.

    Examples
    --------
    >>> "claim" in table_names()
    True
    """
    return tuple(_layout())


def key_columns(table: str) -> tuple[str, ...]:
    """Return the key columns of a table.

    Examples
    --------
    >>> key_columns("communication")
    ('graph', 'communication')
    """
    return _layout()[table][1]


def write_table(frame: pd.DataFrame, table: str, path: Path | str) -> None:
    """Check rows against the schema and write them as Parquet in the order of the key.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows; columns by name, missing ones become NULL.
    table : str
        Name of a table of schema.sql.
    path : Path or str
        The Parquet file, written whole or not at all; equal rows give equal bytes.

    Raises
    ------
    duckdb.ConstraintException
        If a row breaks a constraint of the schema.
    """
    with connect() as connection:
        connection.register("frame", frame)
        _write_ordered(connection, "frame", table, path)


def merge_tables(parts: Sequence[Path | str], table: str, path: Path | str) -> None:
    """Merge Parquet files of one table into one, checked and in the order of the key.

    Parameters
    ----------
    parts : sequence of Path or str
        Parquet files; columns by name, missing ones become NULL.
    table : str
        Name of a table of schema.sql.
    path : Path or str
        The merged file, written whole or not at all.

    Raises
    ------
    duckdb.ConstraintException
        If a row breaks a constraint of the schema.
    """
    with connect() as connection:
        # Frames would turn millions of texts into objects; the rows stay in the database.
        connection.read_parquet([str(part) for part in parts], union_by_name=True).create_view("parts")
        _write_ordered(connection, "parts", table, path)


def _write_ordered(connection: duckdb.DuckDBPyConnection, source: str, table: str, path: Path | str) -> None:
    create = next(s for s in schema_statements() if re.search(rf"^CREATE TABLE {table} ", s, re.MULTILINE))
    with whole_file(path) as temporary:
        for statement in schema_statements():
            if statement.lstrip().startswith("CREATE TYPE") or "\nCREATE TYPE" in statement:
                connection.execute(statement)
        # The key's index is costly on millions of rows: check uniqueness by a query instead.
        connection.execute(re.sub(r",\s*PRIMARY KEY \([^)]*\)", "", create))
        connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM {source}")
        key = ", ".join(key_columns(table))
        twice = connection.execute(
            f"SELECT {key} FROM {table} GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 1"
        ).fetchall()
        if twice:
            raise duckdb.ConstraintException(f"table {table}: key {twice[0]} stands twice")
        columns = ", ".join(_plain_columns(connection, table))
        connection.execute(
            f"COPY (SELECT {columns} FROM {table} ORDER BY {_text_order(connection, table)}) "
            f"TO '{_quoted(str(temporary))}' (FORMAT parquet)"
        )


def _types(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    rows = connection.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [table]
    ).fetchall()
    return dict(rows)


def _plain_columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """Columns with enumerations as text, so that any Parquet reader understands them."""
    return [
        f"{name}::VARCHAR AS {name}" if kind.startswith("ENUM") else name
        for name, kind in _types(connection, table).items()
    ]


def _text_order(connection: duckdb.DuckDBPyConnection, table: str) -> str:
    types = _types(connection, table)
    return ", ".join(f"{n}::VARCHAR" if types[n].startswith("ENUM") else n for n in key_columns(table))


def read_tables(files: Mapping[str, Path | str | Sequence[Path | str]]) -> Callable[[str], pd.DataFrame]:
    """Return a function that reads the table behind a name, each at most once.

    Parameters
    ----------
    files : mapping
        Parquet file or files by name.

    Returns
    -------
    callable
        From a name to its rows.
    """

    @cache
    def read(name: str) -> pd.DataFrame:
        found = files[name]
        return read_table(found) if isinstance(found, str | Path) else read_table(*found)

    return read


def read_table(*paths: Path | str) -> pd.DataFrame:
    """Read one or more Parquet files of the same table.

    Parameters
    ----------
    *paths : Path or str
        The files, read in this order.

    Returns
    -------
    pandas.DataFrame
        Their rows, one file after the other.

    Raises
    ------
    InputError
        If a file is missing or is not Parquet.
    """
    frames: list[pd.DataFrame] = []
    with connect() as connection:
        for path in paths:
            try:
                frames.append(connection.read_parquet(str(path)).df())
            except duckdb.Error as error:
                raise InputError(f"is not a readable Parquet table: {error}", path=path) from error
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
