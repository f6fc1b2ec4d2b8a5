"""Results on the terminal: aligned tables, CSV and JSON."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import typer

from fabricast.api.prediction_table import makespans
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.units import MIB

_FORMATS = ("table", "csv", "json")
#: Maximum number of copies in a printed table.
_MOST_LINES = 60
#: Maximum number of limiting copies that a printed line names.
_MOST_NAMED = 8


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
    columns["MiB"] = [f"{size / MIB:,.4g}" for size in shown["size_bytes"]]
    columns["ms"] = [f"{time * 1e3:.3g}" for time in shown["elapsed_s"]]
    if "earliest_s" in shown:
        ranges = zip(shown["earliest_s"], shown["latest_s"], strict=True)
        shown_ends = [(f"{low * 1e3:.3g}", f"{high * 1e3:.3g}") for low, high in ranges]
        columns["range"] = [f"{low} to {high}" if high != low else "" for low, high in shown_ends]
        if not any(columns["range"]):
            del columns["range"]
    if "staged_s" in shown:
        columns["staged ms"] = [f"{time * 1e3:.3g}" for time in shown["staged_s"]]
    columns["slowdown"] = [f"{slowdown:.3g}" for slowdown in shown["slowdown"]]
    for name, head in (("bottleneck", "bottleneck"), ("caused_by", "caused by"), ("limited_by", "limited by")):
        if name in shown:
            columns[head] = [_abbreviated(text) for text in shown[name].astype(str)]
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


def _abbreviated(text: str) -> str:
    """Return a list of copies with the first ones only; files have all."""
    copies = text.split(" ")
    if len(copies) <= _MOST_NAMED or ">" not in copies[0]:
        return text
    return f"{' '.join(copies[:_MOST_NAMED])} ({len(copies) - _MOST_NAMED} more)"


def write_elapsed(table: pd.DataFrame, output: Path | None) -> None:
    """Write the times of copies to a file, or print them as CSV."""
    if output is None:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
    else:
        from fabricast.api.prediction_files import write_table

        write_table(table, output)
