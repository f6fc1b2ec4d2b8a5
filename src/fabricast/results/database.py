"""``results/fabricast.duckdb``: all tables, comments, views and digests in one file."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from fabricast.core.errors import InputError
from fabricast.inputs.files import atomic_write
from fabricast.results.connections import connect_with_little_memory, is_failed_write, quoted, report_full_disk
from fabricast.results.tables import create_schema, key_columns, plain_columns, report_damaged_files, table_names

__all__ = ["build_database", "table_digests"]

#: Tables that hold when and where a run was made; they differ between equal runs.
VOLATILE_TABLES = ("run", "table_digest")
#: Sorts of millions of rows go to the disk beyond this, for hardly more time.
_MEMORY = "500MB"
#: From here on the index of a key costs more than it is worth.
_LARGE_ROWS = 10_000
#: With the usual blocks of 256 KiB, of which every column takes one, the file is larger by a third.
_BLOCK_BYTES = 65_536
#: An order in which equal numbers are neighbours and take hardly any room, where it saves most of it.
_COMPACT_ORDERS = {"comparison": "reference, predicted"}
#: Of these the parts stand one after the other, each in the order of the key: to merge millions of rows takes long.
_APART = ("prediction", "reference")


def table_digests(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, int, str]]:
    """Return the content digest of every table that equal runs share.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        An open database.

    Returns
    -------
    list of (str, int, str)
        Rows of the table table_digest. A digest is the md5 of the number of rows and the sum of their hashes, whatever
        their order, behind the version of DuckDB, whose hash it is: to hash texts of all numbers by md5 takes as long
        as the rest of the database.
    """
    rows = []
    for table in table_names():
        if table in VOLATILE_TABLES:
            continue
        row_hash = f"hash({', '.join(plain_columns(connection, table).values())})"
        digest = f"concat(version(), ':', md5(concat(count(*), ' ', sum({row_hash}))))"
        rows += connection.execute(f"SELECT '{table}', count(*), {digest} FROM {table}").fetchall()
    return rows


def _large(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, Sequence[Path]]) -> list[str]:
    """Return the tables with many rows; a file that cannot be read is told when it is inserted."""
    found = []
    for table, parts in tables.items():
        with contextlib.suppress(duckdb.Error):
            (rows,) = connection.execute(
                "SELECT sum(num_rows) FROM parquet_file_metadata($parts)", {"parts": list(map(str, parts))}
            ).fetchall()[0]
            if rows > _LARGE_ROWS:
                found.append(table)
    return found


def _insert(connection: duckdb.DuckDBPyConnection, table: str, parts: Sequence[Path]) -> None:
    """Insert the rows of some Parquet files, those that stand in the order of the key already as they stand."""
    is_in_order = len(parts) == 1 or table in _APART
    order = _COMPACT_ORDERS.get(table) or ("" if is_in_order else ", ".join(key_columns(table)))
    connection.execute(
        f"INSERT INTO {table} BY NAME SELECT * FROM read_parquet($parts, union_by_name = true) "
        + (f"ORDER BY {order}, file_index, file_row_number" if order else ""),
        {"parts": list(map(str, parts))},
    )


def _refuse_duplicates(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Check the key of a table that has no index."""
    key = ", ".join(key_columns(table))
    # Different hashes are different keys; only where some are equal, maybe by chance, the keys are compared.
    (equal_hashes,) = connection.execute(f"SELECT count(*) - count(DISTINCT hash({key})) FROM {table}").fetchall()[0]
    if equal_hashes:
        counted = f"SELECT {key} FROM {table} GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 1"
        twice = connection.execute(counted).fetchall()
        if twice:
            raise duckdb.ConstraintException(f"table {table}: duplicate key {twice[0]}")


def _insert_table(connection: duckdb.DuckDBPyConnection, table: str, parts: Sequence[Path]) -> None:
    try:
        with report_damaged_files(parts):
            _insert(connection, table, parts)
            if len(parts) > 1:
                _refuse_duplicates(connection, table)
    except duckdb.Error as error:
        if is_failed_write(error):
            raise
        for part in parts:
            try:
                connection.execute(f"DELETE FROM {table}")
                _insert(connection, table, [part])
            except duckdb.Error as own:
                raise InputError(f"does not fit table '{table}': {own}", path=part) from own
        # Each by itself does.
        raise InputError(f"does not fit table '{table}' beside other parts: {error}", path=parts[-1]) from error


def build_database(tables: Mapping[str, Sequence[Path]], path: Path) -> None:
    """Build the database from the parts of every table.

    Parameters
    ----------
    tables : mapping
        Parquet files of each table, as `write_table` makes them; tables without one stay empty.
    path : Path
        The database, written whole or not at all, readable by DuckDB 1.5.

    Raises
    ------
    InputError
        If a part breaks the schema, or parts of a table hold the same key.
    """
    with (
        atomic_write(path) as temporary,
        connect_with_little_memory(_MEMORY, path.parent) as connection,
        report_full_disk(path),
    ):
        connection.execute(
            f"ATTACH '{quoted(str(temporary))}' AS study (STORAGE_VERSION 'v1.5.0', BLOCK_SIZE {_BLOCK_BYTES})"
        )
        connection.execute("USE study")
        create_schema(connection, large=_large(connection, tables))
        for table, parts in tables.items():
            _insert_table(connection, table, parts)
        connection.executemany("INSERT INTO table_digest VALUES (?, ?, ?)", table_digests(connection))
        connection.execute("UPDATE run SET finished = now()::TIMESTAMP")
        connection.execute("CHECKPOINT study")
        connection.execute("USE memory")
        connection.execute("DETACH study")
