"""``results/fabricast.duckdb``: all tables, comments, views and digests in one file."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pandas as pd

from fabricast.core.errors import InputError
from fabricast.inputs.files import atomic_write
from fabricast.results.tables import (
    column_names,
    connect,
    create_schema,
    is_failed_write,
    key_columns,
    quoted,
    refuse_duplicates,
    report_damaged_files,
    report_full_disk,
    table_names,
)

__all__ = ["build_database", "table_digests"]

#: Tables that hold when and where a run was made; they differ between equal runs.
VOLATILE_TABLES = ("run", "table_digest")
#: Sorts of millions of rows go to the disk beyond this, for hardly more time.
_MEMORY_LIMIT = "500MB"
#: From here on the index of a key costs more than it is worth.
_LARGE_ROWS = 10_000
#: Orders of rows in which equal numbers are neighbours and take hardly any room; other tables keep that of the key.
_COMPACT_ORDERS = {
    "prediction": "value",
    "comparison": "reference, predicted",
    "reference": "value",
}


def table_digests(connection: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Return the content digest of every table that equal runs share.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        An open database.

    Returns
    -------
    pandas.DataFrame
        Rows of the table table_digest: md5 over the number of rows and the sum of their hashes (60 bits of the md5 of
        each row as text), whatever their order.
    """
    rows = []
    for table in table_names():
        if table in VOLATILE_TABLES:
            continue
        # Absent values are told from texts by a character that no text holds.
        columns = ", ".join(f"coalesce({name}::VARCHAR, chr(1))" for name in column_names(connection, table))
        row_hash = f"(md5_number(concat_ws(chr(2), {columns})) >> 68)::BIGINT"
        found = connection.execute(
            f"SELECT count(*), md5(concat(count(*), ' ', sum({row_hash}))) FROM {table}"
        ).fetchall()
        rows.append({"table_name": table, "rows": found[0][0], "digest": found[0][1]})
    return pd.DataFrame(rows)


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
    order = _COMPACT_ORDERS.get(table) or ("" if len(parts) == 1 else ", ".join(key_columns(table)))
    connection.execute(
        f"INSERT INTO {table} BY NAME SELECT * FROM read_parquet($parts, union_by_name = true) "
        + (f"ORDER BY {order}, file_index, file_row_number" if order else ""),
        {"parts": list(map(str, parts))},
    )


def _insert_table(connection: duckdb.DuckDBPyConnection, table: str, parts: Sequence[Path]) -> None:
    try:
        with report_damaged_files(parts):
            _insert(connection, table, parts)
            if len(parts) > 1:
                refuse_duplicates(connection, table)
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
        tempfile.TemporaryDirectory(prefix=".duckdb-", dir=path.parent) as spilled,
        connect() as connection,
        report_full_disk(path),
    ):
        connection.execute(f"SET memory_limit = '{_MEMORY_LIMIT}'")
        connection.execute(f"SET temp_directory = '{quoted(spilled)}'")
        connection.execute(f"ATTACH '{quoted(str(temporary))}' AS study (STORAGE_VERSION 'v1.5.0')")
        connection.execute("USE study")
        create_schema(connection, large=_large(connection, tables))
        for table, parts in tables.items():
            _insert_table(connection, table, parts)
        digests = table_digests(connection)
        connection.register("digests", digests)
        connection.execute("INSERT INTO table_digest BY NAME SELECT * FROM digests")
        connection.execute("UPDATE run SET finished = now()::TIMESTAMP")
        connection.execute("CHECKPOINT study")
        connection.execute("USE memory")
        connection.execute("DETACH study")
