"""Congestion graphs from CSV and Parquet files, all at once or some at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.inputs.csv_columns import csv_columns, numbered, text_column
from fabricast.inputs.csv_files import CsvRow, read_csv
from fabricast.inputs.files import LARGEST_TEXT_BYTES, line_blocks, read_text
from fabricast.inputs.parquet_files import ParquetRow, parquet_blocks, parquet_rows, read_parquet
from fabricast.pcie.graphs.congestion_graphs import OPTIONAL, REQUIRED, CongestionGraphs
from fabricast.pcie.graphs.programs import PROGRAMS, program_of
from fabricast.pcie.graphs.rows import GraphRows
from fabricast.pcie.topology.memory import HOST, has_host_memory, memory_beside
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["GraphBlocks", "ScatteredGraphError", "graph_blocks", "read_ends", "read_graphs"]

#: What a communication can be: beyond this, times lose their meaning or their digits.
SMALLEST_BYTES, LARGEST_BYTES = 1e-3, 1e15
LATEST_START_S = 1e6
#: What is read of a file at a time: about as many communications of CSV as of Parquet.
_BLOCK_BYTES, _BLOCK_ROWS = 1_400_000, 122_880
#: Rows of Parquet that are read at once: a small file may hold billions of equal ones.
_MOST_ROWS = 10_000_000
#: Column that says who copies a graph, where that matters.
_PROGRAM = "program"
#: A line that is neither blank nor a comment.
_CONTENT = re.compile(r"^[^#\r\n][^\n]*\n?", re.MULTILINE)


@dataclass(frozen=True)
class GraphBlocks:
    """The graphs of a file, some at a time.

    Parameters
    ----------
    total : int
        Size of the file, in `unit`.
    unit : str
        What the size counts.
    blocks : iterator of (CongestionGraphs, int)
        Whole graphs in file order, and how much of the size they take.
    """

    total: int
    unit: str
    blocks: Iterator[tuple[CongestionGraphs, int]]


class ScatteredGraphError(Exception):
    """Rows of one graph are in several places: its file cannot be read some graphs at a time."""


def read_graphs(path: Path | str, tree: PcieTree, *, size_bytes: float, programs: bool = False) -> CongestionGraphs:
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
    programs : bool, default False
        Whether the file may have a column ``program``, one a graph (`fabricast.pcie.graphs.programs.PROGRAMS`).

    Returns
    -------
    CongestionGraphs
        Graphs in order of their first row; communications of a graph in file order.

    Raises
    ------
    InputError
        On the first row that is wrong, with file, line, what was found and what was expected; if the file is larger
        than 64 MB, or Parquet has more than 10 million rows.
    """
    more = (_PROGRAM,) if programs else ()
    # A file without a flaw is read as columns; row by row only to name the first one that is wrong.
    if Path(path).suffix.lower() == ".parquet":
        table = read_parquet(path, REQUIRED, OPTIONAL, more, most_rows=_MOST_ROWS)
        return _parquet_rows(path, table, tree, size_bytes).grouped()
    return _csv_rows(path, read_text(path, strict=True), 0, tree, size_bytes, (*OPTIONAL, *more)).grouped()


def graph_blocks(path: Path | str, tree: PcieTree, *, size_bytes: float, programs: bool = False) -> GraphBlocks:
    r"""Read congestion graphs from a CSV or Parquet file of any size, some at a time.

    Parameters
    ----------
    path, tree, size_bytes, programs
        As for `read_graphs`; rows of a graph stand together in the file.

    Returns
    -------
    GraphBlocks
        The same graphs as of `read_graphs`, in the same order.

    Raises
    ------
    InputError
        While blocks are taken, on the first row that is wrong.
    ScatteredGraphError
        While blocks are taken, if the rows of a graph do not stand together. `read_graphs` reads such files,
        CSV up to 64 MB and Parquet up to 10 million rows; a larger one is refused here.

    Examples
    --------
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

        parts = ((_parquet_rows(path, table, tree, size_bytes), len(table)) for table in blocks)
        return GraphBlocks(total, "rows", _whole_graphs(parts, _scattered(path, total, _MOST_ROWS, "rows")))
    if not Path(path).is_file():
        # A pipe is read once, and its size is not known.
        graphs = read_graphs(path, tree, size_bytes=size_bytes, programs=programs)
        return GraphBlocks(1, "files", iter([(graphs, 1)]))
    total = Path(path).stat().st_size
    of_file = _csv_blocks(path, tree, size_bytes, (*OPTIONAL, *more))
    return GraphBlocks(total, "bytes", _whole_graphs(of_file, _scattered(path, total, LARGEST_TEXT_BYTES, "bytes")))


def _scattered(path: Path | str, size: int, most: int, unit: str) -> Exception:
    """Return what says that rows of a graph are in several places; files that are not too large are then read whole."""
    if size <= most:
        return ScatteredGraphError()
    together = f"expected them together in more than {most:,} {unit}"
    return InputError(f"has rows of a graph in several places, {together}", path=path)


def _csv_blocks(
    path: Path | str, tree: PcieTree, size_bytes: float, optional: tuple[str, ...]
) -> Iterator[tuple[GraphRows, int]]:
    header, held, before = "", "", 0
    for block, lines_before in line_blocks(path, _BLOCK_BYTES):
        text, before = held + block, before if held else lines_before
        found = _CONTENT.search(text)
        if found is None or not (header or _CONTENT.search(text, found.end())):
            held = text
            continue
        # Every block is read as a file of its own, under the header of the first.
        yield _csv_rows(path, header + text, before - bool(header), tree, size_bytes, optional), len(text.encode())
        header, held = header or found[0], ""
    if not header:
        # Says what is missing.
        read_csv(path, REQUIRED, optional, text=held)


def _whole_graphs(
    parts: Iterable[tuple[GraphRows, int]], scattered: Exception
) -> Iterator[tuple[CongestionGraphs, int]]:
    """Give graphs once all their rows are there; none may come again."""
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
    found = _from_columns(table, tree, size_bytes)
    return found or _from_rows(path, parquet_rows(path, table), tree, size_bytes)


def _csv_rows(
    path: Path | str, text: str, lines_before: int, tree: PcieTree, size_bytes: float, optional: tuple[str, ...]
) -> GraphRows:
    ends = [*tree.endpoint_names, *([HOST] if HOST not in tree.endpoint_names else [])]
    known = dict.fromkeys(REQUIRED[1:], ends)
    parsed = csv_columns(text, REQUIRED, optional, numbers=OPTIONAL, known=known)
    if parsed is None or parsed[list(known)].isna().any(axis=None):
        # Blanks around names of endpoints do not count.
        parsed = csv_columns(text, REQUIRED, optional, numbers=OPTIONAL)
    found = None if parsed is None else _from_columns(parsed, tree, size_bytes)
    if found is not None:
        return found
    table_rows = read_csv(path, REQUIRED, optional, text=text, lines_before=lines_before)
    return _from_rows(path, table_rows, tree, size_bytes)


def _from_columns(table: pd.DataFrame, tree: PcieTree, size_bytes: float) -> GraphRows | None:
    """Return the rows of a table of texts; None where a row is wrong."""
    if table.empty:
        return None
    graphs = text_column(table["graph"])
    if graphs is None:
        return None
    codes, names = graphs
    ends = []
    for column in REQUIRED[1:]:
        places, texts = numbered(table[column])
        # Where a row has no text its place is -1: the last number.
        numbers = [*(_number(tree, text.strip()) for text in texts), _UNKNOWN]
        ends.append(np.array(numbers, dtype=np.int64)[places])
    return _checked(names, codes, ends, table, tree, size_bytes)


def _checked(
    names: list[str], codes: NDArray[np.int64], numbers: Sequence[NDArray[np.int64]], table: pd.DataFrame,
    tree: PcieTree, size_bytes: float,
) -> GraphRows | None:  # fmt: skip
    """Return rows; None where one is wrong."""
    first, second = numbers
    if not all(names) or min(first.min(), second.min()) < _BESIDE:
        return None
    ends = _with_memory(tree, first, second)
    if ends is None:
        return None
    source, target = ends
    size = table["size_bytes"].to_numpy() if "size_bytes" in table else np.full(len(table), float(size_bytes))
    start = table["start_s"].to_numpy() if "start_s" in table else np.zeros(len(table))
    in_range = (size >= SMALLEST_BYTES) & (size <= LARGEST_BYTES) & (start >= 0) & (start <= LATEST_START_S)
    if (source == target).any() or not in_range.all():
        return None
    program = _program_places(table[_PROGRAM]) if _PROGRAM in table else None
    if program is not None:
        of_graph = np.empty(len(names), dtype=np.int64)
        of_graph[codes[::-1]] = program[::-1]
        if program.min() < -1 or (program != of_graph[codes]).any():
            return None
    return GraphRows(names, codes, source, target, size, start, program)


def _program_places(column: pd.Series) -> NDArray[np.int64]:
    """Return the place of each program in `PROGRAMS`; -1 for none, -2 for one that nobody knows."""
    places, texts = pd.factorize(column, use_na_sentinel=False)
    known = list(PROGRAMS)
    found = []
    for text in texts:
        try:
            name = "" if pd.isna(text) else str(text).strip()
            found.append(known.index(program_of(name).name) if name else -1)
        except InputError:
            found.append(-2)
    return np.array(found, dtype=np.int64)[places]


#: Number of host memory next to the other end, until that is known, and of what is no end.
_BESIDE, _UNKNOWN = -1, -2


def _number(tree: PcieTree, name: str) -> int:
    return tree.endpoint_number.get(name, _BESIDE if name == HOST and has_host_memory(tree) else _UNKNOWN)


def _with_memory(
    tree: PcieTree, source: NDArray[np.int64], target: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return ends with the memory next to the other end where host memory is asked for; None where both are memory."""
    # Most trees have no memory: nothing to look for in millions of rows.
    if not has_host_memory(tree):
        return source, target
    beside = memory_beside(tree)
    ends = np.where(source == _BESIDE, beside[target], source), np.where(target == _BESIDE, beside[source], target)
    is_memory = np.array([tree.vertex(name).host_memory for name in tree.endpoint_names])
    both = (source == _BESIDE) & (target == _BESIDE) | is_memory[ends[0]] & is_memory[ends[1]]
    return None if both.any() else ends


def _from_rows(
    path: Path | str, table_rows: Iterable[CsvRow | ParquetRow], tree: PcieTree, size_bytes: float
) -> GraphRows:
    codes: dict[str, int] = {}
    programs: dict[int, int] = {}
    rows: list[tuple[int, int, int, float, float]] = []
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
        code = codes.setdefault(row["graph"], len(codes))
        program = _program_place(row)
        if programs.setdefault(code, program) != program:
            raise row.error(f"program is '{row.get(_PROGRAM)}', expected that of the first row of the graph")
        rows.append((code, source, target, size, start))
    if not rows:
        raise InputError("holds no row, expected communications", path=path)
    table = np.array(rows, dtype=np.float64)
    code, source_numbers, target_numbers = (column.astype(np.int64) for column in table.T[:3])
    of_rows = np.array([programs[number] for number in code.tolist()], dtype=np.int64)
    return GraphRows(
        list(codes), code, source_numbers, target_numbers, table[:, 3].copy(), table[:, 4].copy(),
        of_rows if _PROGRAM in row else None,
    )  # fmt: skip


def _program_place(row: CsvRow | ParquetRow) -> int:
    name = str(row.get(_PROGRAM) or "").strip()
    try:
        return list(PROGRAMS).index(program_of(name).name) if name else -1
    except InputError as error:
        raise row.error(str(error)) from error


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
    for column in ("source", "target"):
        if _number(tree, row[column]) < _BESIDE:
            known = tree.endpoint_names
            shown = ", ".join(known[:16]) + (", ..." if len(known) > 16 else "")
            host = "; host memory is for the model endpoint_engines" if row[column] == HOST else ""
            raise row.error(f"{column} is '{row[column]}', expected an endpoint of {tree.name}: {shown}{host}")
    found = _with_memory(tree, *(np.array([_number(tree, row[column])]) for column in ("source", "target")))
    if found is None:
        raise row.error(f"copies {row['source']} to {row['target']}, expected a GPU at one end")
    ends = [int(end[0]) for end in found]
    if ends[0] == ends[1]:
        raise row.error(f"source and target are both '{row['source']}', expected two endpoints")
    size = row.number("size_bytes") if "size_bytes" in row else size_bytes
    if not SMALLEST_BYTES <= size <= LARGEST_BYTES:
        raise row.error(
            f"size_bytes is {size:g}, expected a positive number from {SMALLEST_BYTES:g} to {LARGEST_BYTES:g}"
        )
    return ends[0], ends[1], size
