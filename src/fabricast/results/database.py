"""``results/fabricast.duckdb``: all tables, comments, views and digests in one file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd

from fabricast.core.errors import InputError
from fabricast.inputs.files import atomic_write
from fabricast.results.tables import (
    connect,
    create_schema,
    is_failed_write,
    key_columns,
    read_table,
    report_full_disk,
    table_names,
)

__all__ = ["build_database", "table_digests"]

#: Tables that hold when and where a run was made; they differ between equal runs.
VOLATILE_TABLES = ("run", "table_digest")
#: From here on the index of a key costs more than it is worth.
_LARGE_ROWS = 10_000


def table_digests(connection: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Return the content digest of every table that equal runs share.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        An open database.

    Returns
    -------
    pandas.DataFrame
        Rows of the table table_digest: md5 over the sorted md5 of all rows as text.
    """
    rows = []
    for table in table_names():
        if table in VOLATILE_TABLES:
            continue
        found = connection.execute(
            f"SELECT count(*), md5(coalesce(string_agg(h, '' ORDER BY h), '')) "
            f"FROM (SELECT md5(t::VARCHAR) AS h FROM {table} AS t)"
        ).fetchall()
        rows.append({"table_name": table, "rows": found[0][0], "digest": found[0][1]})
    return pd.DataFrame(rows)


def _rows(source: Path) -> int:
    """Return the rows of a Parquet file; 0 where it cannot be read, which is told when it is inserted."""
    with connect() as connection:
        try:
            found = connection.execute("SELECT sum(num_rows) FROM parquet_file_metadata(?)", [str(source)]).fetchall()
        except duckdb.Error:
            return 0
    return int(found[0][0] or 0)


def build_database(tables: dict[str, Path], path: Path) -> None:
    """Build the database from one Parquet file a table.

    Parameters
    ----------
    tables : dict
        Parquet file of each table; tables without one stay empty.
    path : Path
        The database, written whole or not at all, readable by DuckDB 1.5.

    Raises
    ------
    InputError
        If a table breaks the schema.
    """
    with atomic_write(path) as temporary, connect() as connection, report_full_disk(path):
        connection.execute(
            f"ATTACH '{str(temporary).replace(chr(39), chr(39) * 2)}' AS study (STORAGE_VERSION 'v1.5.0')"
        )
        connection.execute("USE study")
        create_schema(connection, large=[table for table, source in tables.items() if _rows(source) > _LARGE_ROWS])
        for table, source in tables.items():
            order = ", ".join(key_columns(table))
            try:
                connection.execute(
                    f"INSERT INTO {table} BY NAME SELECT * FROM read_parquet($source) ORDER BY {order}",
                    {"source": str(source)},
                )
            except duckdb.Error as error:
                if is_failed_write(error):
                    raise
                read_table(source)
                raise InputError(f"does not fit table '{table}': {error}", path=source) from error
        digests = table_digests(connection)
        connection.register("digests", digests)
        connection.execute("INSERT INTO table_digest BY NAME SELECT * FROM digests")
        connection.execute("UPDATE run SET finished = now()::TIMESTAMP")
        connection.execute("CHECKPOINT study")
        connection.execute("USE memory")
        connection.execute("DETACH study")
