"""How the command line writes tables."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from arro3.core import DataType, RecordBatch, RecordBatchReader, Table
from arro3.io import write_parquet

from fabricast.inputs.files import atomic_write
from fabricast.results.arrow_batches import arrow_batch

__all__ = ["write_elapsed", "write_elapsed_parts"]

#: Rows that are packed, and can be read, by themselves.
_GROUP_ROWS = 122_880


def write_elapsed(table: pd.DataFrame, output: Path | None) -> None:
    """Write elapsed times.

    Parameters
    ----------
    table : pandas.DataFrame
        As `fabricast.predict` or `fabricast.simulate` gives.
    output : Path or None
        Parquet or CSV file; None prints CSV.
    """
    if output is None:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
    else:
        write_elapsed_parts([table], output)


def write_elapsed_parts(tables: Iterable[pd.DataFrame], output: Path) -> None:
    """Write elapsed times some rows at a time, whole or not at all.

    Parameters
    ----------
    tables : iterable of pandas.DataFrame
        At least one, each asked for once those before it are written; what it raises is raised here.
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


def _write_parquet(tables: Iterable[pd.DataFrame], path: Path) -> None:
    remaining = iter(tables)
    first = arrow_batch(next(remaining))
    failures: list[BaseException] = []

    def batches() -> Iterator[RecordBatch]:
        # The library would make a text of an error.
        try:
            yield first
            for table in remaining:
                if file.failure is not None:
                    return
                yield arrow_batch(table)
        except BaseException as error:
            failures.append(error)

    with _File(path, "wb") as file:
        stream = RecordBatchReader.from_batches(first.schema, batches())
        write_parquet(stream, file, compression="snappy", max_row_group_size=_GROUP_ROWS, skip_arrow_metadata=True)
    for failure in (*failures, file.failure):
        if failure is not None:
            raise failure


class _File(io.FileIO):
    """A file that keeps why it could not be written, where the library that writes would panic."""

    failure: OSError | None = None

    def write(self, content: Any) -> int:
        if self.failure is None:
            try:
                return super().write(content)
            except OSError as error:
                self.failure = error
        return len(content)


def _write_csv(tables: Iterable[pd.DataFrame], path: Path, output: Path) -> None:
    # Imported here: Parquet needs no database.
    from fabricast.results.connections import connect, quoted, report_full_disk

    # Removed with the file, whatever happens.
    part = path.with_name(f"{path.name}.next")
    with connect() as connection, report_full_disk(output), path.open("wb") as whole:
        connection.execute("SET threads = 1")
        for number, table in enumerate(tables):
            batch = arrow_batch(table)
            schema = batch.schema
            texts = [name for name in schema.names if DataType.is_string(schema.field(name).type)]
            # CSV would tell an empty text from none by quotes.
            changed = ", ".join(f"nullif({name}, '') AS {name}" for name in texts)
            connection.register("elapsed", Table.from_batches([batch]))
            connection.execute(
                f"COPY (SELECT * {f'REPLACE ({changed})' if texts else ''} FROM elapsed) TO '{quoted(str(part))}' "
                f"(FORMAT csv, HEADER {number == 0})"
            )
            with part.open("rb") as rows:
                shutil.copyfileobj(rows, whole)
