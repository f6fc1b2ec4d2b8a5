"""How the command line writes tables."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.inputs.files import atomic_write
from fabricast.results.connections import connect, quoted, report_full_disk

__all__ = ["elapsed_file", "write_elapsed"]


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
        return
    with elapsed_file(output) as write:
        write(table)


@contextmanager
def elapsed_file(output: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Write elapsed times some rows at a time, whole or not at all.

    Parameters
    ----------
    output : Path
        Parquet or CSV file.

    Yields
    ------
    callable
        Takes the next rows.
    """
    is_csv = output.suffix.lower() == ".csv"
    with atomic_write(output) as temporary, connect() as connection, report_full_disk(output):
        # Removed with the temporary file, whatever happens.
        parts: list[Path] = []

        def write(table: pd.DataFrame) -> None:
            parts.append(temporary.with_name(f"{temporary.name}.{len(parts)}"))
            _write_part(connection, table, parts[-1], is_csv=is_csv, is_first=len(parts) == 1)
            if is_csv and len(parts) > 1:
                with parts[0].open("ab") as whole, parts[-1].open("rb") as part:
                    shutil.copyfileobj(part, whole)
                parts[-1].unlink()

        yield write
        if is_csv or len(parts) == 1:
            parts[0].replace(temporary)
        else:
            # One row group after the other: several at a time take more memory than all before.
            connection.execute("SET threads = 1")
            names = ", ".join(f"'{quoted(escape(str(part)))}'" for part in parts)
            connection.execute(f"COPY (FROM read_parquet([{names}])) TO '{quoted(str(temporary))}' (FORMAT parquet)")


def _write_part(
    connection: duckdb.DuckDBPyConnection, table: pd.DataFrame, path: Path, *, is_csv: bool, is_first: bool
) -> None:
    values: dict[str, NDArray[np.generic]] = {}
    columns = []
    for name in table.columns:
        if not isinstance(table[name].dtype, pd.CategoricalDtype):
            values[name] = table[name].to_numpy()
            columns.append(name)
            continue
        # Each text is held once, rows point to it; -1 takes the last, which is none.
        texts = table[name].cat.categories.to_numpy(dtype=object)
        texts = np.concatenate([texts, np.array([None], dtype=object)])
        values[name] = texts[table[name].cat.codes.to_numpy()]
        # CSV would tell an empty text from none by quotes.
        columns.append(f"nullif({name}::VARCHAR, '') AS {name}" if is_csv else f"{name}::VARCHAR AS {name}")
    connection.register("elapsed", pd.DataFrame(values, copy=False))
    connection.execute(
        f"COPY (SELECT {', '.join(columns)} FROM elapsed) TO '{quoted(str(path))}' "
        f"(FORMAT {f'csv, HEADER {is_first}' if is_csv else 'parquet'})"
    )
