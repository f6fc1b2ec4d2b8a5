"""Builder of the results database ``results/fabricast.duckdb``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from fabricast.core.errors import InputError
from fabricast.inputs.files import atomic_write
from fabricast.results.connections import connect_with_little_memory, is_failed_write, quoted, report_full_disk
from fabricast.results.tables import (
    create_schema,
    key_columns,
    plain_columns,
    report_damaged_files,
    table_names,
    verify_files,
)

#: Tables with the time and place of a run; they differ between equal runs.
VOLATILE_TABLES = ("run", "table_digest")
#: Memory limit of DuckDB; larger sorts use the disk.
_MEMORY = "500MB"
#: Tables with more rows have no index on the primary key; duplicates are checked by a query.
_LARGE_ROWS = 10_000
#: Block size of the database file. Each column uses at least one block, so the default of 256 KiB wastes space.
_BLOCK_BYTES = 65_536
#: Row order by table that groups equal numbers, which compresses best.
_COMPACT_ORDERS = {"comparison": "reference, predicted"}
#: Tables whose shards are concatenated, each in key order; merging millions of rows would be slow.
_APART = ("prediction", "reference")


def table_digests(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, int, str]]:
    """Return the content digest of each table that is equal for equal runs."""
    rows = []
    for table in table_names():
        if table in VOLATILE_TABLES:
            continue
        row_hash = f"hash({', '.join(plain_columns(connection, table).values())})"
        digest = f"concat(version(), ':', md5(concat(count(*), ' ', sum({row_hash}))))"
        rows += connection.execute(f"SELECT '{table}', count(*), {digest} FROM {table}").fetchall()
    return rows


def _large(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, Sequence[Path]]) -> list[str]:
    """Return the tables with many rows.

    Unreadable files are ignored here; the insertion reports them.
    """
    large = []
    for table, parts in tables.items():
        with contextlib.suppress(duckdb.Error):
            (rows,) = connection.execute(
                "SELECT sum(num_rows) FROM parquet_file_metadata($parts)", {"parts": list(map(str, parts))}
            ).fetchall()[0]
            if rows > _LARGE_ROWS:
                large.append(table)
    return large


def _insert(connection: duckdb.DuckDBPyConnection, table: str, parts: Sequence[Path]) -> None:
    """Insert the rows of Parquet files into a table, sorted by key unless in key order."""
    is_in_order = len(parts) == 1 or table in _APART
    order = _COMPACT_ORDERS.get(table) or ("" if is_in_order else ", ".join(key_columns(table)))
    connection.execute(
        f"INSERT INTO {table} BY NAME SELECT * FROM read_parquet($parts, union_by_name = true) "
        + (f"ORDER BY {order}, file_index, file_row_number" if order else ""),
        {"parts": list(map(str, parts))},
    )


def _refuse_duplicates(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Raise an error if a table without an index has duplicate keys."""
    key = ", ".join(key_columns(table))
    # Different hashes imply different keys. Equal hashes may be collisions, so only then the keys are compared.
    (equal_hashes,) = connection.execute(f"SELECT count(*) - count(DISTINCT hash({key})) FROM {table}").fetchall()[0]
    if equal_hashes:
        counted = f"SELECT {key} FROM {table} GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 1"
        twice = connection.execute(counted).fetchall()
        if twice:
            raise duckdb.ConstraintException(f"table {table}: duplicate key {twice[0]}")


def _insert_table(connection: duckdb.DuckDBPyConnection, table: str, parts: Sequence[Path]) -> None:
    try:
        with report_damaged_files(parts):
            verify_files(connection, parts)
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
        # Each shard is valid, so the error depends on their combination.
        raise InputError(f"does not fit table '{table}' with its other shards: {error}", path=parts[-1]) from error


def build_database(tables: Mapping[str, Sequence[Path]], path: Path) -> None:
    """Build the database of a run from the shards of all tables."""
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
