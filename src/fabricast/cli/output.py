"""Output of tables as CSV and Parquet, for the command line."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import typer

from fabricast.api.prediction_table import makespans
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.units import MIB
from fabricast.inputs.files import atomic_write

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["print_elapsed", "printed_format", "write_elapsed", "write_elapsed_parts"]

_FORMATS = ("table", "csv", "json")
#: Maximum number of copies in a printed table.
_MOST_LINES = 60
#: Number of rows per Parquet row group.
_GROUP_ROWS = 122_880


def printed_format(name: str | None, output: Path | None) -> str:
    """Return the format of printed results: table on a terminal, otherwise csv, unless a format is specified."""
    if name is None:
        return "table" if sys.stdout.isatty() else "csv"
    if name not in _FORMATS:
        raise unknown_name("--format", name, _FORMATS)
    if output is not None:
        raise InputError("--format is for printed results, expected no --output; the ending of its name is its format")
    return name


def print_elapsed(table: pd.DataFrame, form: str) -> None:
    """Print the times of copies."""
    if form == "csv":
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
    elif form == "json":
        typer.echo(table.to_json(orient="records", indent=1, force_ascii=False))
    else:
        typer.echo("\n".join(elapsed_lines(table)))


def elapsed_lines(table: pd.DataFrame) -> list[str]:
    """Return the times of copies as an aligned table, followed by the makespan and rate of each graph.

    >>> import fabricast as fc
    >>> times = fc.predict("storm8", [("0", "1"), ("2", "1")], bandwidth="10 GiB/s", size="100 MiB")
    >>> print(elapsed_lines(times)[-1])
    graph: all copies complete after 19.5 ms, 10.7 GB/s in total
    """
    shown = table.head(_MOST_LINES)
    columns = {"copy": [f"{source}>{target}" for source, target in zip(shown["source"], shown["target"], strict=True)]}
    if table["graph"].nunique() > 1:
        columns = {"graph": shown["graph"].astype(str).tolist(), **columns}
    columns["MiB"] = [f"{size / MIB:.3g}" for size in shown["size_bytes"]]
    columns["ms"] = [f"{time * 1e3:.3g}" for time in shown["elapsed_s"]]
    if "earliest_s" in shown:
        ranges = zip(shown["earliest_s"], shown["latest_s"], strict=True)
        columns["range"] = [f"{low * 1e3:.3g} to {high * 1e3:.3g}" if high > low else "" for low, high in ranges]
        if not any(columns["range"]):
            del columns["range"]
    if "staged_s" in shown:
        columns["staged ms"] = [f"{time * 1e3:.3g}" for time in shown["staged_s"]]
    columns["slowdown"] = [f"{slowdown:.3g}" for slowdown in shown["slowdown"]]
    for name, head in (("bottleneck", "bottleneck"), ("caused_by", "caused by"), ("limited_by", "limited by")):
        if name in shown:
            columns[head] = shown[name].astype(str).tolist()
    if "elapsed_without_s" in shown:
        without = shown["elapsed_without_s"]
        columns["ms without it"] = ["" if np.isnan(time) else f"{time * 1e3:.3g}" for time in without]
    lines = pd.DataFrame(columns).to_string(index=False).split("\n")
    if len(table) > _MOST_LINES:
        lines.append(f"... {len(table) - _MOST_LINES:,} more copies; --output FILE writes all")
    ends = makespans(table)
    staged = makespans(table.assign(elapsed_s=table["staged_s"])) if "staged_s" in table else None
    sizes = table["size_bytes"].groupby(table["graph"], observed=True, sort=False).sum()
    for name in ends.index[:_MOST_LINES]:
        rate = sizes[name] / ends[name] / 1e9
        also = "" if staged is None else f"; staged copies after {staged[name] * 1e3:.3g} ms"
        total = f"{rate:,.0f}" if rate >= 1000 else f"{rate:.3g}"
        lines.append(f"{name}: all copies complete after {ends[name] * 1e3:.3g} ms, {total} GB/s in total{also}")
    return lines


def write_elapsed(table: pd.DataFrame, output: Path | None) -> None:
    """Write the times of copies to a file, or print them as CSV."""
    if output is None:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
    else:
        write_elapsed_parts([table], output)


def write_elapsed_parts(tables: Iterable[pd.DataFrame], output: Path) -> None:
    """Write a sequence of tables to one file.

    The file is written completely or not at all.
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
