"""Output of tables as CSV and Parquet, for the command line."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from fabricast.inputs.files import atomic_write

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["write_elapsed", "write_elapsed_parts"]

#: Number of rows per Parquet row group.
_GROUP_ROWS = 122_880


def write_elapsed(table: pd.DataFrame, output: Path | None) -> None:
    """Write the times of copies to a file, or print them as CSV.

    Parameters
    ----------
    table : pandas.DataFrame
        Table returned by `fabricast.predict` or `fabricast.simulate`.
    output : Path or None
        Parquet or CSV file; CSV is printed if None.
    """
    if output is None:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
    else:
        write_elapsed_parts([table], output)


def write_elapsed_parts(tables: Iterable[pd.DataFrame], output: Path) -> None:
    """Write a sequence of tables to one file.

    The file is written completely or not at all.

    Parameters
    ----------
    tables : iterable of pandas.DataFrame
        At least one table. Each table is requested after the previous one was written, and exceptions of the
        iterable are propagated.
    output : Path
        Parquet or CSV file.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    with atomic_write(output) as temporary:
        if output.suffix.lower() == ".csv":
            _write_csv(tables, temporary, output)
        else:
            _write_parquet(tables, temporary)


def _arrow_table(frame: pd.DataFrame) -> pa.Table:
    """Convert a data frame to Arrow, with categories as strings.

    All blocks of rows then have the same schema.
    """
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    fields = [pa.field(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))


def _write_parquet(tables: Iterable[pd.DataFrame], path: Path) -> None:
    import pyarrow.parquet as pq

    blocks = map(_arrow_table, tables)
    first = next(blocks)
    with pq.ParquetWriter(path, first.schema, store_schema=False) as writer:
        for block in itertools.chain([first], blocks):
            writer.write_table(block, row_group_size=_GROUP_ROWS)


def _write_csv(tables: Iterable[pd.DataFrame], path: Path, output: Path) -> None:
    # Imported here because Parquet output does not need DuckDB.
    import pyarrow as pa

    from fabricast.results.connections import connect, quoted, report_full_disk

    # `atomic_write` removes files whose names start with its temporary name.
    part = path.with_name(f"{path.name}.next")
    with connect() as connection, report_full_disk(output), path.open("wb") as whole:
        connection.execute("SET threads = 1")
        for number, table in enumerate(tables):
            batch = _arrow_table(table)
            texts = [name for name in batch.schema.names if pa.types.is_string(batch.schema.field(name).type)]
            # CSV distinguishes an empty text from a missing one only by quotes.
            changed = ", ".join(f"nullif({name}, '') AS {name}" for name in texts)
            connection.register("elapsed", batch)
            connection.execute(
                f"COPY (SELECT * {f'REPLACE ({changed})' if texts else ''} FROM elapsed) TO '{quoted(str(part))}' "
                f"(FORMAT csv, HEADER {number == 0})"
            )
            with part.open("rb") as rows:
                shutil.copyfileobj(rows, whole)
