"""Measured copies in tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import MOST_ROWS, CsvRow, read_csv
from fabricast.inputs.files import read_text
from fabricast.inputs.parquet_files import ParquetRow, parquet_rows, read_parquet
from fabricast.pcie.graphs.programs import PROGRAMS, program_of
from fabricast.pcie.graphs.rates import Statistic
from fabricast.pcie.measurements.measured_graph import (
    CALIBRATION,
    EXCLUDED_ROLES,
    FASTEST_BYTES_PER_S,
    JUDGED,
    UNKNOWN_ROLE,
    MeasuredGraph,
)
from fabricast.pcie.topology.memory import HOST

__all__ = [
    "RATE_COLUMNS",
    "CopyRow",
    "copy_times",
    "csv_copy_rows",
    "graphs_of_rows",
    "parquet_copy_rows",
    "read_measured_copies",
]

#: Columns of rates, and their units in bytes/s.
RATE_COLUMNS = {
    "rate_bytes_per_s": 1.0,
    "rate_gb_per_s": 1e9,
    "rate_gib_per_s": 2.0**30,
    "total_bytes_per_s": 1.0,
    "total_gb_per_s": 1e9,
    "measured_gb_per_s": 1e9,
    "measured_GBps": 1e9,
}
_TOTALS = ("total_bytes_per_s", "total_gb_per_s", "measured_gb_per_s", "measured_GBps")
_LISTS = ("communications", "comms")
_NAMES = ("graph", "pattern")
_ARC = re.compile(r"([^>\s]+)>([^>\s]+)")
_READ = (
    "graph",
    "pattern",
    "source",
    "target",
    "size_bytes",
    "elapsed_s",
    "repetition",
    "program",
    "role",
    "system",
    "kind",
)
#: Informational columns, which the reader ignores.
_SAID = ("topology", "nflows", "statistic", "note", "tool")
#: Statistic of each value of the column kind; the mean of the rates of all copies is multiplied by their number.
_MEAN_KINDS = ("mean per copy", "mean per flow")
_KINDS: dict[str, Statistic] = {
    "": "total",
    "total": "total",
    "total write": "total",
    "total read": "total",
    "sum": "sum_of_copies",
    "sum of flows": "sum_of_copies",
    "sum of copies": "sum_of_copies",
    **dict.fromkeys(_MEAN_KINDS, "sum_of_copies"),
    "sum of readers": "sum_of_targets",
    "sum of writers": "sum_of_sources",
    "sum of targets": "sum_of_targets",
    "sum of sources": "sum_of_sources",
    "last listed": "last_listed",
}


#: A row of CSV or Parquet.
CopyRow = CsvRow | ParquetRow


def read_measured_copies(
    path: Path | str, *, program: str = "independent", system: str | None = None
) -> list[MeasuredGraph]:
    r"""Read a table of measured copies.

    Parameters
    ----------
    path : Path or str
        CSV or Parquet with one row per graph or one row per copy. A row of a graph has ``communications`` such as
        ``0>1 2>3`` and a total rate (``total_bytes_per_s``, ``total_gb_per_s``). A row of a copy has ``graph``,
        ``source``, ``target`` and a rate (``rate_bytes_per_s``, ``rate_gb_per_s``, ``rate_gib_per_s``), or
        ``size_bytes`` with ``elapsed_s``. Optional columns: ``graph`` (a name), ``repetition``, ``program``, ``role``,
        and ``kind`` of a rate of a graph: ``total`` (default), ``sum`` or ``mean_per_copy`` of the rates of its copies,
        ``sum_of_readers`` or ``sum_of_writers`` of the rates of GPUs, or ``last_listed`` (all bytes until the copy that
        is listed last ends).
    program : str, default 'independent'
        Program of rows that specify none.
    system : str, optional
        Read only rows of this ``system``; without it, all rows must be of one system.

    Returns
    -------
    list of MeasuredGraph
        Graphs in the order of their first rows.

    Raises
    ------
    InputError
        If a row is invalid; the message names the first such row and the expected value.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "measured.csv"
    >>> _ = path.write_text("graph,communications,total_gb_per_s,program\ntwo,0>4 1>5,56.4,torch\n")
    >>> one = read_measured_copies(path)[0]
    >>> one.flows, round(one.total_bytes_per_s / 1e9, 1), one.program
    ((('0', '4'), ('1', '5')), 56.4, 'ordered_writes')
    """
    path = Path(path)
    if path.suffix.lower() == ".parquet":
        rows = parquet_copy_rows(path, read_parquet(path, most_rows=MOST_ROWS))
    else:
        rows = csv_copy_rows(path, read_text(path, strict=True))
    return graphs_of_rows(rows, path, program=program, system=system)


def csv_copy_rows(path: Path | str, text: str) -> list[CopyRow]:
    """Return the rows of a CSV table of measured copies."""
    return list(read_csv(path, [], [*_READ, *_SAID, *_LISTS, *RATE_COLUMNS], text=text))


def parquet_copy_rows(path: Path | str, table: pd.DataFrame) -> list[CopyRow]:
    """Return the rows of a Parquet table of measured copies."""
    known = (*_READ, *_SAID, *_LISTS, *RATE_COLUMNS)
    unknown = [name for name in table.columns if name not in known]
    if unknown:
        raise InputError(f"has the unknown column '{unknown[0]}', expected some of {', '.join(known)}", path=path)
    if table.empty:
        raise InputError("contains no rows, expected at least one", path=path)
    return list(parquet_rows(Path(path), table))


def graphs_of_rows(
    rows: Sequence[CopyRow], path: Path | str, *, program: str = "independent", system: str | None = None
) -> list[MeasuredGraph]:
    """Return the graphs of the rows of a table, in the order of their first rows."""
    systems = list(dict.fromkeys(row.get("system") for row in rows))
    if system is not None:
        rows = [row for row in rows if row.get("system") == system]
        if not rows:
            raise InputError(f"contains no row of system '{system}', expected one of {', '.join(systems)}", path=path)
    elif len(systems) > 1:
        raise InputError(f"contains {len(systems)} systems, expected one: {', '.join(systems[:8])}", path=path)
    first = rows[0]
    list_column = next((name for name in _LISTS if name in first), None)
    if list_column is not None:
        graphs = [_total(row, list_column, program) for row in rows]
    elif "source" in first and "target" in first:
        graphs = _from_copies(rows, program)
    else:
        raise InputError(
            "has no columns of copies, expected 'communications' with a total rate, or 'graph', 'source' and 'target'",
            path=path,
        )
    names: dict[str, int] = {}
    for number, graph in enumerate(graphs):
        seen = names[graph.name] = names.get(graph.name, 0) + 1
        if seen > 1:
            graphs[number] = replace(graph, name=f"{graph.name} ({seen})")
    return graphs


def _rate(row: CopyRow, names: Iterable[str]) -> float:
    """Return the rate of a row in bytes/s; the row must have exactly one rate."""
    columns = [name for name in names if row.get(name)]
    if not columns:
        raise row.error(f"has no rate, expected one of {', '.join(names)}; remove rows that were not measured")
    if len(columns) > 1:
        raise row.error(f"has {len(columns)} rates, expected one of {', '.join(names)}")
    rate = row.number(columns[0]) * RATE_COLUMNS[columns[0]]
    if not 0 < rate <= FASTEST_BYTES_PER_S:
        raise row.error(f"{columns[0]} is {row[columns[0]]}, expected a rate above 0 and below 10 TB/s")
    return rate


def _program(row: CopyRow, default: str) -> str:
    try:
        return program_of(row.get("program") or default).name
    except InputError as error:
        raise row.error(str(error)) from error


def _role(row: CopyRow) -> str:
    """Return the role of a row.

    A row of an unknown role is excluded, and `validate` names it: a misspelt role would change how the row is used.
    """
    role: str = row.get("role") or ""
    is_known = not role or role in (CALIBRATION, *JUDGED, *EXCLUDED_ROLES) or role.startswith("test_")
    return role if is_known else UNKNOWN_ROLE


def _name(row: CopyRow, default: str) -> str:
    return next((row[name] for name in _NAMES if row.get(name)), default)


def _total(row: CopyRow, column: str, program: str) -> MeasuredGraph:
    flows = []
    for part in row[column].split():
        match = _ARC.fullmatch(part)
        if match is None or match[1] == match[2]:
            raise row.error(f"communication is '{part}', expected two endpoints such as 0>1")
        flows.append((match[1], match[2]))
    if not flows:
        raise row.error(f"{column} is empty, expected communications such as 0>1")
    kind = row.get("kind").strip().lower().replace("_", " ")
    if kind not in _KINDS:
        expected = "total, sum, mean_per_copy, sum_of_readers, sum_of_writers, last_listed or nothing"
        raise row.error(f"kind is '{row['kind']}', expected {expected}")
    rate = _rate(row, _TOTALS) * (len(flows) if kind in _MEAN_KINDS else 1)
    return MeasuredGraph(
        _name(row, row[column]),
        tuple(flows),
        rate,
        _program(row, program),
        _role(row),
        line=row.line,
        statistic=_KINDS[kind],
    )


def _from_copies(rows: Sequence[CopyRow], program: str) -> list[MeasuredGraph]:
    """Build graphs from rows of copies.

    The rate of a graph is the median of its total rates over the repetitions.
    """
    rows_by_graph: dict[str, dict[str, list[CopyRow]]] = {}
    for row in rows:
        rows_by_graph.setdefault(_name(row, "copies"), {}).setdefault(row.get("repetition"), []).append(row)
    if any(row.get("kind").strip() for row in rows):
        row = next(row for row in rows if row.get("kind").strip())
        raise row.error(f"kind is '{row['kind']}', expected nothing: each row has the rate or the time of its copy")
    graphs = []
    for name, repetitions in rows_by_graph.items():
        first = next(iter(repetitions.values()))
        flows = tuple(_ends(row) for row in first)
        _check_one_program(name, repetitions.values(), program)
        duplicate = next((number for number, flow in enumerate(flows) if flow in flows[:number]), None)
        if duplicate is not None:
            raise first[duplicate].error(
                f"graph '{name}' copies {' to '.join(flows[duplicate])} a second time in one repetition, expected "
                "another 'repetition', or a row whose 'communications' are the concurrent copies"
            )
        totals = []
        for repetition in repetitions.values():
            if sorted(_ends(row) for row in repetition) != sorted(flows):
                raise repetition[0].error(
                    f"graph '{name}' differs from its first repetition: {_missing(repetition, flows)}"
                )
            totals.append(_total_of(repetition))
        rates = np.array(totals)
        median = float(np.median(rates))
        graphs.append(
            MeasuredGraph(
                name,
                flows,
                median,
                _program(first[0], program),
                _role(first[0]),
                len(totals),
                float((rates.max() - rates.min()) / 2 / median),
                first[0].line,
                statistic="total" if first[0].get("elapsed_s") else "sum_of_copies",
            )
        )
    return graphs


def _check_one_program(name: str, repetitions: Iterable[list[CopyRow]], default: str) -> None:
    """Check that all rows of a graph have the same program and role."""
    rows = [row for repetition in repetitions for row in repetition]
    for column, of_row in (("program", lambda row: _program(row, default)), ("role", _role)):
        first = of_row(rows[0])
        other = next((row for row in rows if of_row(row) != first), None)
        if other is not None:
            raise other.error(f"{column} is '{of_row(other)}', expected '{first}' as in the other rows of '{name}'")


def _ends(row: CopyRow) -> tuple[str, str]:
    source, target = row["source"], row["target"]
    if not source or not target or source == target:
        raise row.error(f"copies from '{source}' to '{target}', expected two endpoints")
    return source, target


def _missing(own: list[CopyRow], flows: tuple[tuple[str, str], ...]) -> str:
    ends = [_ends(row) for row in own]
    lacking = [flow for flow in flows if flow not in ends]
    more = [flow for flow in ends if ends.count(flow) > flows.count(flow)]
    text = [f"{s}>{t} is missing" for s, t in lacking[:3]] + [f"{s}>{t} is a duplicate" for s, t in more[:3]]
    return ", ".join(dict.fromkeys(text))


def _total_of(rows: list[CopyRow]) -> float:
    """Return the total rate of copies in bytes/s.

    It is the sum of their rates, or all bytes divided by the time until the last completion.
    """
    both = next((name for row in rows for name in RATE_COLUMNS if row.get("elapsed_s") and row.get(name)), None)
    if both is not None:
        raise rows[0].error(f"has elapsed_s and {both}, expected one of them")
    if rows[0].get("elapsed_s"):
        sizes, ends = [], []
        for row in rows:
            size, elapsed = row.number("size_bytes") if row.get("size_bytes") else math.nan, row.number("elapsed_s")
            if not (size > 0 and elapsed > 0):
                raise row.error("size_bytes or elapsed_s is missing or not positive, expected both above 0")
            sizes.append(size)
            ends.append(elapsed)
        total = sum(sizes) / max(ends)
        if total > FASTEST_BYTES_PER_S:
            raise rows[0].error(f"size_bytes and elapsed_s yield {total / 1e9:.4g} GB/s, expected at most 10 TB/s")
        return total
    names = [name for name in RATE_COLUMNS if name not in _TOTALS]
    return sum(_rate(row, names) for row in rows)


def copy_times(rows: Sequence[CopyRow], graphs: Sequence[MeasuredGraph], path: Path | str) -> pd.DataFrame:
    """Return the times of measured copies between GPUs, for the calibration of model parameters.

    Copies of host memory and reads are omitted: the models describe writes between GPUs. Rows with ``size_bytes`` and
    ``elapsed_s`` determine the time of each copy; of other measurements, only isolated copies are used.
    """
    if rows and "elapsed_s" in rows[0] and "source" in rows[0]:
        times = [
            (_name(row, "copies"), row.get("repetition"), *_ends(row), *_size_and_time(row))
            for row in rows
            if not (row.get("program") and PROGRAMS[_program(row, "")].executor == "target")
        ]
    else:
        times = [
            (graph.name, "", *graph.flows[0], 1e9, 1e9 / graph.total_bytes_per_s)
            for graph in graphs
            if len(graph.flows) == 1 and PROGRAMS[graph.program].executor != "target"
        ]
    if not times:
        raise InputError("contains no isolated copies between GPUs, expected at least one", path=path)
    frame = pd.DataFrame(times, columns=["graph", "repetition", "source", "target", "size_bytes", "elapsed_s"])
    is_memory = frame[["source", "target"]].apply(lambda names: names.str.fullmatch(_MEMORY)).any(axis=1)
    return frame[~frame["graph"].isin(frame["graph"][is_memory])].reset_index(drop=True)


#: Names of host memory in files.
_MEMORY = rf"{HOST}|NUMA[0-9]+"
#: Sizes in bytes and times in s beyond these are typing errors.
_SIZES, _TIMES = (1.0, 1e15), (1e-12, 1e9)


def _size_and_time(row: CopyRow) -> tuple[float, float]:
    size_bytes, elapsed_s = row.number("size_bytes"), row.number("elapsed_s")
    if not (_SIZES[0] <= size_bytes <= _SIZES[1] and _TIMES[0] <= elapsed_s <= _TIMES[1]):
        raise row.error(
            f"size_bytes is {size_bytes:g} and elapsed_s is {elapsed_s:g}, expected positive numbers of bytes and "
            "seconds"
        )
    return size_bytes, elapsed_s
