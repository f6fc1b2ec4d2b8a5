"""Congestion graphs from CSV and Parquet files."""

from __future__ import annotations

import io
import itertools
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import MOST_ROWS, CsvRow, read_csv
from fabricast.inputs.files import read_text
from fabricast.inputs.parquet_files import ParquetRow, parquet_rows, read_parquet
from fabricast.pcie.graphs import OPTIONAL, REQUIRED, CongestionGraphs
from fabricast.pcie.tree import PcieTree

__all__ = ["read_ends", "read_graphs"]

#: What a communication can be: beyond this, times lose their meaning or their digits.
SMALLEST_BYTES, LARGEST_BYTES = 1e-3, 1e15
LATEST_START_S = 1e6


def read_graphs(path: Path | str, tree: PcieTree, *, size_bytes: float) -> CongestionGraphs:
    """Read congestion graphs from a CSV or Parquet file.

    Parameters
    ----------
    path : Path or str
        File, CSV unless it ends with ``.parquet``, with the columns ``graph,source,target`` and optionally
        ``size_bytes,start_s``.
    tree : PcieTree
        Topology whose endpoint names the file uses.
    size_bytes : float
        Size where the file has no column ``size_bytes``.

    Returns
    -------
    CongestionGraphs
        Graphs in order of their first row; communications of a graph in file order.

    Raises
    ------
    InputError
        On the first row that is wrong, with file, line, what was found and what was expected.
    """
    # A file without a flaw is read as columns; row by row only to name the first one that is wrong.
    if Path(path).suffix.lower() == ".parquet":
        table = read_parquet(path, REQUIRED, OPTIONAL)
        return _from_columns(table, tree, size_bytes) or _from_rows(path, parquet_rows(path, table), tree, size_bytes)
    text = read_text(path, strict=True)
    parsed = _parsed(text)
    found = None if parsed is None else _from_columns(parsed, tree, size_bytes)
    return found or _from_rows(path, read_csv(path, REQUIRED, OPTIONAL, text=text), tree, size_bytes)


def _parsed(text: str) -> pd.DataFrame | None:
    """Return the columns of CSV; None where anything is unusual."""
    header = text.partition("\n")[0].strip().split(",")
    if len(set(header)) != len(header) or not set(REQUIRED) <= set(header) <= {*REQUIRED, *OPTIONAL} or "#" in text:
        return None
    if text.count("\n") > MOST_ROWS:
        return None
    kinds: dict[Hashable, Any] = dict.fromkeys(REQUIRED, str) | dict.fromkeys(OPTIONAL, np.float64)
    try:
        return pd.read_csv(
            io.StringIO(text), dtype={name: kinds[name] for name in header}, keep_default_na=False, na_values=[],
            index_col=False, on_bad_lines="error", float_precision="round_trip",
        )  # fmt: skip
    except (ValueError, pd.errors.ParserError, pd.errors.ParserWarning):
        return None


def _from_columns(table: pd.DataFrame, tree: PcieTree, size_bytes: float) -> CongestionGraphs | None:
    """Return the graphs of a table; None where a row is wrong."""
    if table.empty or table[list(REQUIRED)].isna().any().any():
        return None
    codes, names = pd.factorize(table["graph"])
    graph_names = [str(name) for name in names]
    if any(not name or name != name.strip() for name in graph_names):
        return None
    ends = []
    for column in ("source", "target"):
        places, texts = pd.factorize(table[column])
        numbers = [tree.endpoint_number.get(str(text).strip(), -1) for text in texts]
        if min(numbers) < 0:
            return None
        ends.append(np.array(numbers, dtype=np.int64)[places])
    source, target = ends
    size = table["size_bytes"].to_numpy() if "size_bytes" in table else np.full(len(table), float(size_bytes))
    start = table["start_s"].to_numpy() if "start_s" in table else np.zeros(len(table))
    in_range = (size >= SMALLEST_BYTES) & (size <= LARGEST_BYTES) & (start >= 0) & (start <= LATEST_START_S)
    if (source == target).any() or not in_range.all():
        return None
    # Graphs in order of their first row, communications of a graph in file order.
    order = np.argsort(codes, kind="stable")
    return CongestionGraphs(
        names=tuple(graph_names),
        families=("user",) * len(graph_names),
        offset=np.concatenate([[0], np.cumsum(np.bincount(codes))]).astype(np.int64),
        source=source[order],
        target=target[order],
        size_bytes=size[order].astype(np.float64),
        start_s=start[order].astype(np.float64),
    )


def _from_rows(
    path: Path | str, table_rows: Iterable[CsvRow | ParquetRow], tree: PcieTree, size_bytes: float
) -> CongestionGraphs:
    rows: dict[str, list[tuple[int, int, float, float]]] = {}
    for row in table_rows:
        if not row["graph"]:
            raise row.error("graph is empty, expected a name")
        source, target, size = read_ends(row, tree, size_bytes=size_bytes)
        start = row.number("start_s", default=0.0)
        if not 0 <= start <= LATEST_START_S:
            raise row.error(
                f"start_s is {start:g}, expected 0 or more and at most {LATEST_START_S:,.0f}: times count from the "
                "start of the graph"
            )
        rows.setdefault(row["graph"], []).append((source, target, size, start))
    if not rows:
        raise InputError("holds no row, expected communications", path=path)
    flat = list(itertools.chain.from_iterable(rows.values()))
    table = np.array(flat, dtype=np.float64)
    return CongestionGraphs(
        names=tuple(rows),
        families=("user",) * len(rows),
        offset=np.concatenate([[0], np.cumsum([len(part) for part in rows.values()])]).astype(np.int64),
        source=table[:, 0].astype(np.int64),
        target=table[:, 1].astype(np.int64),
        size_bytes=table[:, 2].copy(),
        start_s=table[:, 3].copy(),
    )


def read_ends(row: CsvRow | ParquetRow, tree: PcieTree, *, size_bytes: float) -> tuple[int, int, float]:
    """Read one communication from a row with the columns source, target and, if wanted, size_bytes.

    Parameters
    ----------
    row : CsvRow or ParquetRow
        The row.
    tree : PcieTree
        Topology whose endpoint names the file uses.
    size_bytes : float
        Size where the file has no column ``size_bytes``.

    Returns
    -------
    tuple of (int, int, float)
        Source, target and size in bytes.

    Raises
    ------
    InputError
        If an end is unknown, both are the same, or the size is out of range.
    """
    ends = []
    for column in ("source", "target"):
        number = tree.endpoint_number.get(row[column])
        if number is None:
            known = tree.endpoint_names
            shown = ", ".join(known[:16]) + (", ..." if len(known) > 16 else "")
            raise row.error(f"{column} is '{row[column]}', expected an endpoint of {tree.name}: {shown}")
        ends.append(number)
    if ends[0] == ends[1]:
        raise row.error(f"source and target are both '{row['source']}', expected two endpoints")
    size = row.number("size_bytes") if "size_bytes" in row else size_bytes
    if not SMALLEST_BYTES <= size <= LARGEST_BYTES:
        raise row.error(
            f"size_bytes is {size:g}, expected a positive number from {SMALLEST_BYTES:g} to {LARGEST_BYTES:g}"
        )
    return ends[0], ends[1], size
