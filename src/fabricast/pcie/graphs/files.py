"""Readers of congestion graphs in CSV and Parquet files, whole or in blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.core.quantities import LARGEST_BYTES, SMALLEST_BYTES
from fabricast.inputs.csv_columns import csv_columns, numbered, text_codes
from fabricast.inputs.csv_files import CsvRow, read_csv
from fabricast.inputs.files import LARGEST_TEXT_BYTES, line_blocks, read_text
from fabricast.inputs.parquet_files import ParquetRow, parquet_blocks, parquet_row, parquet_row_count, read_parquet
from fabricast.pcie.graphs.congestion_graphs import LATEST_START_S, OPTIONAL, REQUIRED, CongestionGraphs
from fabricast.pcie.graphs.programs import PROGRAMS, program_of
from fabricast.pcie.graphs.rows import GraphRows
from fabricast.pcie.topology.memory import HOST, has_host_memory, nearest_memory
from fabricast.pcie.topology.tree import PcieTree

#: Size of a block of CSV in bytes and of Parquet in rows: both contain about the same number of copies.
_BLOCK_BYTES, _BLOCK_ROWS = 1_400_000, 122_880
#: Limit of the rows of a Parquet file that is read whole: compression makes a file with billions of equal rows small.
_MOST_ROWS = 10_000_000
#: Column with the copy program of a graph.
_PROGRAM = "program"
#: A line that is neither blank nor a comment.
_CONTENT = re.compile(r"^[^#\r\n][^\n]*\n?", re.MULTILINE)


@dataclass(frozen=True)
class GraphBlocks:
    """Graphs of a file as an iterator of blocks."""

    total: int  # Size of the file in `unit`
    unit: str  # Unit of the sizes: 'bytes', 'rows', 'files'
    #: Complete graphs in file order, and the share of `total` that they were read from.
    blocks: Iterator[tuple[CongestionGraphs, int]]


class ScatteredGraphError(Exception):
    """The rows of a graph are not contiguous, so the file cannot be read in blocks."""


def read_graphs(
    path: Path | str, tree: PcieTree, *, size_bytes: float, programs: bool = False, text: str | None = None
) -> CongestionGraphs:
    """Read congestion graphs from a CSV or Parquet file.

    A file has one row per copy; `text` is its content if it was read before. Use `graph_blocks` for files that are too
    large to read whole.
    """
    more = (_PROGRAM,) if programs else ()
    if Path(path).suffix.lower() == ".parquet":
        table = read_parquet(path, REQUIRED, OPTIONAL, more, most_rows=_MOST_ROWS)
        return _parquet_rows(path, table, tree, size_bytes).grouped()
    text = read_text(path, strict=True) if text is None else text
    return _csv_rows(path, text, 0, tree, size_bytes, (*OPTIONAL, *more)).grouped()


def graph_blocks(path: Path | str, tree: PcieTree, *, size_bytes: float, programs: bool = False) -> GraphBlocks:
    r"""Read congestion graphs from a CSV or Parquet file of any size in blocks.

    Only the rows of a block and a hash of each graph name are kept in memory. The rows of a graph must be contiguous.
    Errors are raised while the blocks are iterated.

    >>> import tempfile
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> path = Path(tempfile.mkdtemp()) / "graphs.csv"
    >>> _ = path.write_text("graph,source,target\nhalo,0,1\nhalo,1,0\n")
    >>> found = graph_blocks(path, regular_tree("pair", (2,)), size_bytes=1e6)
    >>> [(graphs.names, size) for graphs, size in found.blocks], found.total, found.unit
    ([(('halo',), 38)], 38, 'bytes')
    """
    more = (_PROGRAM,) if programs else ()
    if Path(path).suffix.lower() == ".parquet":
        total, blocks = parquet_blocks(path, REQUIRED, OPTIONAL, more, _BLOCK_ROWS)
        if total == 0:
            read_graphs(path, tree, size_bytes=size_bytes, programs=programs)

        row_blocks = ((_parquet_rows(path, table, tree, size_bytes), len(table)) for table in blocks)
        return GraphBlocks(total, "rows", _whole_graphs(row_blocks, _scattered(path, total, _MOST_ROWS, "rows")))
    if not Path(path).is_file():
        # A pipe can be read only once, and its size is unknown.
        graphs = read_graphs(path, tree, size_bytes=size_bytes, programs=programs)
        return GraphBlocks(1, "files", iter([(graphs, 1)]))
    total = Path(path).stat().st_size
    of_file = _csv_blocks(path, tree, size_bytes, (*OPTIONAL, *more))
    return GraphBlocks(total, "bytes", _whole_graphs(of_file, _scattered(path, total, LARGEST_TEXT_BYTES, "bytes")))


def _scattered(path: Path | str, size: int, most: int, unit: str) -> Exception:
    """Return the exception for a graph whose rows are not contiguous.

    Callers catch `ScatteredGraphError` and read the file whole, so files of more than `most` units get an `InputError`.
    """
    if size <= most:
        return ScatteredGraphError()
    together = f"expected contiguous rows in files of more than {most:,} {unit}"
    return InputError(f"has rows of a graph in several places, {together}", path=path)


def _csv_blocks(
    path: Path | str, tree: PcieTree, size_bytes: float, optional: tuple[str, ...]
) -> Iterator[tuple[GraphRows, int]]:
    header, held, before = "", "", 0
    for block, lines_before in line_blocks(path, _BLOCK_BYTES):
        text, before = held + block, before if held else lines_before
        content = _CONTENT.search(text)
        if content is None or not (header or _CONTENT.search(text, content.end())):
            held = text
            continue
        # Each block is parsed as a separate file with the header of the first block.
        yield _csv_rows(path, header + text, before - bool(header), tree, size_bytes, optional), len(text.encode())
        header, held = header or content[0], ""
    if not header:
        # Raises the error about the missing header or rows.
        read_csv(path, REQUIRED, optional, text=held)


def _whole_graphs(
    parts: Iterable[tuple[GraphRows, int]], scattered: Exception
) -> Iterator[tuple[CongestionGraphs, int]]:
    """Yield complete graphs; raise `scattered` if the rows of one are not contiguous."""
    rest, unseen, seen = None, 0, []
    for rows, size in parts:
        if (np.diff(rows.codes) < 0).any():
            raise scattered
        done, rest = (rows if rest is None else rest.followed_by(rows)).parted()
        unseen += size
        if done.names:
            seen.append(np.fromiter(map(hash, done.names), dtype=np.int64))
            yield done.grouped(), unseen
            unseen = 0
    if rest is not None:
        seen.append(np.fromiter(map(hash, rest.names), dtype=np.int64))
        yield rest.grouped(), unseen
    every = np.sort(np.concatenate(seen)) if seen else np.zeros(0)
    if (every[1:] == every[:-1]).any():
        raise scattered


def _parquet_rows(path: Path | str, table: pd.DataFrame, tree: PcieTree, size_bytes: float) -> GraphRows:
    if table.empty:
        raise InputError("contains no rows, expected at least one copy", path=path)
    return _from_columns(table, tree, size_bytes, lambda number: parquet_row(path, table, number))


def _csv_rows(
    path: Path | str, text: str, lines_before: int, tree: PcieTree, size_bytes: float, optional: tuple[str, ...]
) -> GraphRows:
    ends = [*tree.endpoint_names, *([HOST] if HOST not in tree.endpoint_names else [])]

    def parsed(known: dict[str, list[str]]) -> pd.DataFrame:
        return csv_columns(path, text, REQUIRED, optional, numbers=OPTIONAL, known=known, lines_before=lines_before)

    table = parsed(dict.fromkeys(REQUIRED[1:], ends))
    if table[list(REQUIRED[1:])].isna().any(axis=None):
        # Unknown endpoint names may have blanks around them.
        table = parsed({})

    def row_of(number: int) -> CsvRow:
        return read_csv(path, REQUIRED, optional, text=text, lines_before=lines_before)[number]

    return _from_columns(table, tree, size_bytes, row_of)


def _from_columns(
    table: pd.DataFrame, tree: PcieTree, size_bytes: float, row_of: Callable[[int], CsvRow | ParquetRow]
) -> GraphRows:
    """Return the copies of a table; `row_of` returns a row of the file for the message about the first error."""
    codes, names = text_codes(table["graph"])
    first, second = (_end_numbers(table[column], tree) for column in REQUIRED[1:])
    source, target, are_both_memory = _with_memory(tree, first, second)
    size = table["size_bytes"].to_numpy() if "size_bytes" in table else np.full(len(table), float(size_bytes))
    start = table["start_s"].fillna(0.0).to_numpy() if "start_s" in table else np.zeros(len(table))
    valid = (size >= SMALLEST_BYTES) & (size <= LARGEST_BYTES) & (start >= 0) & (start <= LATEST_START_S)
    valid &= (np.minimum(first, second) >= _NEAREST_MEMORY) & ~are_both_memory & (source != target)
    if not all(names):
        valid &= np.array(names, dtype=object)[codes] != ""
    program = _program_places(table[_PROGRAM]) if _PROGRAM in table else None
    if program is not None:
        of_graph = np.empty(len(names), dtype=np.int64)
        of_graph[codes[::-1]] = program[::-1]
        valid &= (program >= -1) & (program == of_graph[codes])
    if not valid.all():
        raise _error(row_of(int(np.argmin(valid))), tree, size_bytes)
    return GraphRows(names, codes, source, target, size, start, program)


def _end_numbers(column: pd.Series, tree: PcieTree) -> NDArray[np.int64]:
    """Return the endpoint number of each row, `_NEAREST_MEMORY` or `_UNKNOWN`."""
    indices, texts = numbered(column)
    # Missing values have the index -1, which selects the last element: _UNKNOWN.
    numbers = [*(_number(tree, text.strip()) for text in texts), _UNKNOWN]
    of_rows: NDArray[np.int64] = np.array(numbers, dtype=np.int64)[indices]
    return of_rows


def _error(row: CsvRow | ParquetRow, tree: PcieTree, size_bytes: float) -> InputError:
    """Return the error about an invalid row."""
    if not row["graph"]:
        return row.error("graph is empty, expected a name")
    read_ends(row, tree, size_bytes=size_bytes)
    start = row.number("start_s", default=0.0)
    if not 0 <= start <= LATEST_START_S:
        return row.error(
            f"start_s is {start:g}, expected 0 or more and at most {LATEST_START_S:,.0f} seconds after the start of "
            "the graph"
        )
    name = row.get(_PROGRAM).strip()
    try:
        program_of(name or next(iter(PROGRAMS)))
    except InputError as error:
        return row.error(str(error))
    return row.error(f"program is '{name}', expected the program of the first row of the graph")


def _program_places(column: pd.Series) -> NDArray[np.int64]:
    """Return the index of each program in `PROGRAMS`: -1 unspecified, -2 unknown."""
    indices, texts = pd.factorize(column, use_na_sentinel=False)
    names = list(PROGRAMS)
    numbers = []
    for text in texts:
        try:
            name = "" if pd.isna(text) else str(text).strip()
            numbers.append(names.index(program_of(name).name) if name else -1)
        except InputError:
            numbers.append(-2)
    return np.array(numbers, dtype=np.int64)[indices]


#: Placeholder endpoint numbers: host memory nearest to the other endpoint of the copy, and an unknown endpoint.
_NEAREST_MEMORY, _UNKNOWN = -1, -2


def _number(tree: PcieTree, name: str) -> int:
    return tree.endpoint_number.get(name, _NEAREST_MEMORY if name == HOST and has_host_memory(tree) else _UNKNOWN)


def _with_memory(
    tree: PcieTree, source: NDArray[np.int64], target: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Replace `_NEAREST_MEMORY` by the nearest memory; also return which copies are within host memory."""
    # Trees without host memory have nothing to replace.
    if not has_host_memory(tree):
        return source, target, np.zeros(source.shape, dtype=np.bool_)
    nearest = nearest_memory(tree)
    ends = (
        np.where(source == _NEAREST_MEMORY, nearest[target], source),
        np.where(target == _NEAREST_MEMORY, nearest[source], target),
    )
    is_memory = np.array([tree.vertex(name).host_memory for name in tree.endpoint_names])
    both = (source == _NEAREST_MEMORY) & (target == _NEAREST_MEMORY) | is_memory[ends[0]] & is_memory[ends[1]]
    return *ends, both


def read_ends(row: CsvRow | ParquetRow, tree: PcieTree, *, size_bytes: float) -> tuple[int, int, float]:
    """Read one copy from the columns source, target and optionally size_bytes."""
    for column in ("source", "target"):
        if _number(tree, row[column]) < _NEAREST_MEMORY:
            names = tree.endpoint_names
            shown = ", ".join(names[:16]) + (", ..." if len(names) > 16 else "")
            host = (
                "; host memory requires a model with engines, such as ports_and_engines" if row[column] == HOST else ""
            )
            raise row.error(f"{column} is '{row[column]}', expected an endpoint of {tree.name}: {shown}{host}")
    numbers = (np.array([_number(tree, row[column])]) for column in ("source", "target"))
    source, target, are_both_memory = _with_memory(tree, *numbers)
    if are_both_memory.any():
        raise row.error(f"copies {row['source']} to {row['target']}, expected a GPU at one end")
    ends = int(source[0]), int(target[0])
    if ends[0] == ends[1]:
        raise row.error(f"source and target are both '{row['source']}', expected two different endpoints")
    size = row.number("size_bytes") if "size_bytes" in row else size_bytes
    if not SMALLEST_BYTES <= size <= LARGEST_BYTES:
        raise row.error(
            f"size_bytes is {size:g}, expected a positive number from {SMALLEST_BYTES:g} to {LARGEST_BYTES:g}"
        )
    return ends[0], ends[1], size


def count_rows(path: Path | str) -> int:
    """Return the number of rows of a file, with its header and comments."""
    if Path(path).suffix.lower() == ".parquet":
        return parquet_row_count(path)
    with Path(path).open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK_BYTES), b""))
