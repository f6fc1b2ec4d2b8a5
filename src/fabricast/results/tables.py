"""Result tables: schema (schema.sql), and Parquet input and output in key order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from fabricast.core.errors import InputError
from fabricast.inputs.files import atomic_write
from fabricast.results.connections import connect_apart, connect_with_little_memory, quoted, report_full_disk

if TYPE_CHECKING:
    import pandas as pd


#: Tables with more rows are written by a separate DuckDB instance with a memory limit. The process including its rows
#: stays below 700 MB.
_LARGE_ROWS = 100_000
_WRITING_MEMORY = "150MB"
#: Rows per sorted block: larger blocks need more memory, smaller blocks convert the categories more often.
_BLOCK_ROWS = 1_000_000


@cache
def schema_statements() -> tuple[str, ...]:
    """Return the statements of schema.sql, with comments as COMMENT statements."""
    text = resources.files("fabricast.results").joinpath("schema.sql").read_text(encoding="utf-8")
    statements: list[str] = []
    block: list[str] = []
    for line in text.splitlines():
        block.append(line)
        if line.rstrip().endswith(";"):
            statements += _statements_of_block(block)
            block = []
    return tuple(statements)


@cache
def schema_digest() -> str:
    """Return an 8-digit hexadecimal hash of the schema, ignoring comments."""
    plain = (re.sub(r"\s*--[^\n]*", "", text) for text in schema_statements() if not text.startswith("COMMENT"))
    return hashlib.sha256("\0".join(plain).encode()).hexdigest()[:8]


def _statements_of_block(block: list[str]) -> list[str]:
    statement = "\n".join(block)
    statements = [statement]
    created = re.search(r"^CREATE (TABLE|VIEW) (\w+)", statement, re.MULTILINE)
    if created is None:
        return statements
    kind, name = created.groups()
    above = " ".join(line[3:] for line in block if line.startswith("-- "))
    statements.append(f"COMMENT ON {kind} {name} IS '{quoted(above)}'")
    for line in block:
        column = re.match(r"  (\w+) .*-- (.*)$", line)
        if kind == "TABLE" and column:
            statements.append(f"COMMENT ON COLUMN {name}.{column[1]} IS '{quoted(column[2])}'")
    return statements


@contextmanager
def open_run(database: Path | str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the database of a finished run for reading."""
    if not Path(database).is_file():
        raise InputError("does not exist as a file; 'make' in a clone of the repository writes it", path=database)
    try:
        with duckdb.connect(str(database), read_only=True) as connection:
            # Databases without the column schema_digest are older and have another schema.
            runs = connection.sql("SELECT * FROM run").df()
    except duckdb.IOException as error:
        reason = "is open elsewhere for writing" if "lock" in str(error) else "is not a database of fabricast"
        raise InputError(reason, path=database) from error
    except duckdb.Error as error:
        raise InputError("is not a database of fabricast", path=database) from error
    digests = runs["schema_digest"].tolist() if "schema_digest" in runs else ["an older one"]
    digest = next((other for other in digests if other != schema_digest()), None)
    if digest is not None:
        raise InputError(
            f"has the tables of another version (schema {digest}, this version's is {schema_digest()}); "
            "run 'snakemake' again, or use the version that made it",
            path=database,
        )
    with duckdb.connect(str(database), read_only=True) as connection:
        yield connection


def create_schema(connection: duckdb.DuckDBPyConnection, *, large: Collection[str] = ()) -> None:
    """Create all types, tables and views with their comments."""
    # In one transaction: otherwise each statement would be written to the disk separately.
    connection.begin()
    for statement in schema_statements():
        created = re.search(r"^CREATE TABLE (\w+)", statement, re.MULTILINE)
        if created and created[1] in large:
            statement = _without_key(statement)
        connection.execute(statement)
    for table in large:
        comments = connection.execute("SELECT comment FROM duckdb_tables() WHERE table_name = ?", [table])
        [(comment,)] = comments.fetchall()
        text = f"{comment} Key, checked when the database was built: {', '.join(key_columns(table))}."
        connection.execute(f"COMMENT ON TABLE {table} IS '{quoted(text)}'")
    connection.commit()


def _without_key(statement: str) -> str:
    # A comment may separate the last column from the key.
    plain = re.sub(r"\s*--[^\n]*", "", statement)
    without_key, count = re.subn(r",\s*PRIMARY KEY \([^)]*\)", "", plain)
    assert count == 1, statement
    return without_key


@cache
def _layout() -> dict[str, tuple[str, ...]]:
    """Return the key columns of each table, in the order of schema.sql."""
    keys = {}
    for statement in schema_statements():
        created = re.search(r"^CREATE TABLE (\w+)", statement, re.MULTILINE)
        if created:
            # The key is one line of each table. To query DuckDB would require the creation of all tables.
            (key,) = re.findall(r"^  PRIMARY KEY \(([^)]*)\)", statement, re.MULTILINE)
            keys[created[1]] = tuple(key.split(", "))
    return keys


def table_names() -> tuple[str, ...]:
    """Return the names of all tables, in the order of schema.sql.

    >>> "claim" in table_names()
    True
    """
    return tuple(_layout())


def key_columns(table: str) -> tuple[str, ...]:
    """Return the key columns of a table.

    >>> key_columns("communication")
    ('graph', 'communication')
    """
    return _layout()[table]


def write_table(frame: pd.DataFrame, table: str, path: Path | str) -> None:
    """Validate rows with the schema and write them as Parquet in key order."""
    from fabricast.results.key_order import key_order  # imports pandas, which readers of a database do not need

    create = next(s for s in schema_statements() if re.search(rf"^CREATE TABLE {table} ", s, re.MULTILINE))
    with atomic_write(path) as temporary, _connect_for(frame, Path(path)) as connection, report_full_disk(path):
        for statement in schema_statements():
            created = re.search(r"^CREATE TYPE (\w+)", statement, re.MULTILINE)
            if created and created[1] in create:
                connection.execute(statement)
        # An index on the key is expensive for millions of rows; `key_order` detects duplicates instead.
        connection.execute(_without_key(create))
        types = _types(connection, table)
        order = key_order(frame, table, {name: types[name] for name in key_columns(table)})
        for first in range(0, len(frame), _BLOCK_ROWS):
            connection.register("frame", frame.iloc[order[first : first + _BLOCK_ROWS]])
            connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM frame")
        columns = ", ".join(f"{plain} AS {name}" for name, plain in plain_columns(connection, table).items())
        rows = f"(SELECT {columns} FROM {table})"
        metadata = f"KV_METADATA {{{_DIGEST}: '{_digest(connection, rows)}'}}"
        connection.execute(f"COPY {rows} TO '{quoted(str(temporary))}' (FORMAT parquet, {metadata})")


#: Key of the digest of a table in the metadata of its Parquet file. DuckDB writes no checksums of pages.
_DIGEST = "digest"
_VERSION = re.compile(r"v\d+\.\d+\.\d+\S*:\d+:")


def _digest(connection: duckdb.DuckDBPyConnection, rows: str) -> str:
    """Return the digest of rows, which depends on the version of DuckDB."""
    # The type of a row has the names of its columns.
    content = "count(*), ':', sum(hash(part)), ':', md5(any_value(typeof(part)))"
    query = f"SELECT concat(version(), ':', {content}) FROM {rows} AS part"
    [(digest,)] = connection.execute(query).fetchall()
    return str(digest)


def verify_files(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path | str]) -> None:
    """Raise an error if the rows of a Parquet file differ from those that were written."""
    for path in paths:
        name = f"'{quoted(str(path))}'"
        query = f"SELECT decode(value) FROM parquet_kv_metadata({name}) WHERE decode(key) = '{_DIGEST}'"
        written = next((row[0] for row in connection.execute(query).fetchall()), "")
        found = _digest(connection, f"read_parquet({name})")
        # Another version of DuckDB has other hashes.
        is_other = written.partition(":")[0] != found.partition(":")[0] and _VERSION.match(written) is not None
        if written != found and not is_other:
            raise InputError(
                "holds other rows than were written to it, or was written by another version: delete it and run "
                "snakemake to recreate it",
                path=path,
            )


def _connect_for(frame: pd.DataFrame, path: Path) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    return connect_with_little_memory(_WRITING_MEMORY, path.parent) if len(frame) > _LARGE_ROWS else connect_apart()


@contextmanager
def report_damaged_files(parts: Sequence[Path | str]) -> Iterator[None]:
    """Convert DuckDB errors about unreadable Parquet files to errors that name the file."""
    try:
        yield
    except duckdb.ConstraintException:
        raise
    except duckdb.Error:
        for part in parts:
            read_table(part)
        raise


def _types(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    rows = connection.table(table)
    return dict(zip(rows.columns, map(str, rows.types), strict=True))


def plain_columns(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """Return an SQL expression for each column of a table, with enumerations cast to text."""
    types = _types(connection, table)
    return {name: f"{name}::VARCHAR" if kind.startswith("ENUM") else name for name, kind in types.items()}


def read_tables(
    files: Mapping[str, Path | str | Sequence[Path | str]], *, categories: bool = False
) -> Callable[[str], pd.DataFrame]:
    """Return a function that reads tables by name and caches them."""

    @cache
    def read(name: str) -> pd.DataFrame:
        source = files[name]
        if isinstance(source, str | Path):
            return read_table(source, categories=categories)
        rows = read_table(*source, categories=categories)
        # Sorted, because the order of concatenated shards depends on their number.
        return rows.sort_values(list(key_columns(name)), ignore_index=True) if name in table_names() else rows

    return read


def read_table(*paths: Path | str, categories: bool = False) -> pd.DataFrame:
    """Read one or more Parquet files of the same table."""
    frames: list[pd.DataFrame] = []
    with connect_apart() as connection:
        with report_damaged_files(paths):
            types = _text_types(connection, paths) if categories else ""
        for path in paths:
            try:
                verify_files(connection, [path])
                frames.append(connection.execute(f"SELECT * {types} FROM read_parquet(?)", [str(path)]).df())
            except duckdb.Error as error:
                said = f"is not a readable Parquet table ({str(error).splitlines()[0]})"
                raise InputError(f"{said}; delete it and run snakemake to recreate it", path=path) from error
    if len(frames) == 1:
        return frames[0]
    import pandas as pd

    return pd.concat(frames, ignore_index=True)


def _text_types(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path | str]) -> str:
    """Create an enumeration of each text column over all files; return the REPLACE clause."""
    connection.read_parquet([str(path) for path in paths]).create_view("every_file")
    names = [name for name, kind in _types(connection, "every_file").items() if kind == "VARCHAR"]
    for name in names:
        texts = f"SELECT DISTINCT {name} FROM every_file WHERE {name} IS NOT NULL ORDER BY ALL"
        connection.execute(f"CREATE TYPE {name}_texts AS ENUM ({texts})")
    return f"REPLACE ({', '.join(f'{name}::{name}_texts AS {name}' for name in names)})"
