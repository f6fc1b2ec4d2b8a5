"""Measured copies from CSV, Parquet and benchmark output."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fabricast.core.errors import InputError
from fabricast.core.warnings import Warning
from fabricast.inputs.csv_files import MOST_ROWS, CsvRow, read_csv
from fabricast.inputs.files import is_table
from fabricast.inputs.parquet_files import ParquetRow, parquet_rows, read_parquet
from fabricast.pcie.graphs.programs import program_of
from fabricast.pcie.measurements.addresses import address_warnings, by_address, printed_addresses
from fabricast.pcie.measurements.benchmark_output import FASTEST_BYTES_PER_S, copies_in, read_benchmark_output
from fabricast.pcie.measurements.measured_graph import CALIBRATION, EXCLUDED_ROLES, JUDGED, MeasuredGraph
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["MachineCopies", "copies_of_machine", "read_measured_copies"]

#: Columns of a rate, and what one of their units is in bytes/s.
_RATES = {
    "rate_bytes_per_s": 1.0, "rate_gb_per_s": 1e9, "rate_gib_per_s": 2.0**30, "total_bytes_per_s": 1.0,
    "total_gb_per_s": 1e9, "measured_gb_per_s": 1e9, "measured_GBps": 1e9,
}  # fmt: skip
_TOTALS = ("total_bytes_per_s", "total_gb_per_s", "measured_gb_per_s", "measured_GBps")
_LISTS = ("communications", "comms")
_NAMES = ("graph", "pattern")
_ARC = re.compile(r"([^>\s]+)>([^>\s]+)")
_READ = ("graph", "pattern", "source", "target", "size_bytes", "elapsed_s", "repetition", "program", "role", "system")
#: Columns that say something to people.
_SAID = ("topology", "nflows", "kind", "statistic", "note", "tool")


#: A row of CSV or Parquet.
_Row = CsvRow | ParquetRow


def read_measured_copies(
    path: Path | str, *, program: str = "independent", system: str | None = None
) -> list[MeasuredGraph]:
    r"""Read measured copies.

    Parameters
    ----------
    path : Path or str
        CSV, Parquet, or what nvbandwidth (text or JSON), p2pBandwidthLatencyTest, p2pmark, rocm_bandwidth_test or
        TransferBench printed. In tables either a row a graph: ``communications`` such as ``0>1 2>3`` and a total rate
        (``total_bytes_per_s``, ``total_gb_per_s``); or a row a copy: ``graph``, ``source``, ``target`` and its rate
        (``rate_bytes_per_s``, ``rate_gb_per_s``, ``rate_gib_per_s``) or ``size_bytes`` with ``elapsed_s``. Further:
        ``graph`` (a name), ``repetition``, ``program``, ``role``.
    program : str, default 'independent'
        Program of rows that name none.
    system : str, optional
        Take only rows whose column ``system`` says so; without it, rows of one system are expected.

    Returns
    -------
    list of MeasuredGraph
        In the order of their first rows.

    Raises
    ------
    InputError
        On the first row that is wrong, with what was expected.

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
    if not is_table(path):
        return copies_in(read_benchmark_output(path))
    rows = _rows(path)
    systems = list(dict.fromkeys(row.get("system") for row in rows))
    if system is not None:
        rows = [row for row in rows if row.get("system") == system]
        if not rows:
            raise InputError(f"holds no row of system '{system}', expected one of {', '.join(systems)}", path=path)
    elif len(systems) > 1:
        raise InputError(f"holds {len(systems)} systems, expected one: {', '.join(systems[:8])}", path=path)
    first = rows[0]
    given = next((name for name in _LISTS if name in first), None)
    if given is not None:
        graphs = [_total(row, given, program) for row in rows]
    elif "source" in first and "target" in first:
        graphs = _from_copies(rows, program)
    else:
        raise InputError(
            "has neither a column 'communications' with a total rate, nor 'graph', 'source' and 'target' of copies",
            path=path,
        )
    names: dict[str, int] = {}
    for number, graph in enumerate(graphs):
        seen = names[graph.name] = names.get(graph.name, 0) + 1
        if seen > 1:
            graphs[number] = replace(graph, name=f"{graph.name} ({seen})")
    return graphs


def _rows(path: Path) -> list[_Row]:
    if path.suffix.lower() != ".parquet":
        return list(read_csv(path, [], [*_READ, *_SAID, *_LISTS, *_RATES]))
    table = read_parquet(path, most_rows=MOST_ROWS)
    known = (*_READ, *_SAID, *_LISTS, *_RATES)
    unknown = [name for name in table.columns if name not in known]
    if unknown:
        raise InputError(f"has the unknown column '{unknown[0]}', expected some of {', '.join(known)}", path=path)
    return list(parquet_rows(path, table))


def _rate(row: _Row, names: Iterable[str]) -> float:
    """Return the one rate of a row in bytes/s."""
    given = [name for name in names if row.get(name)]
    if not given:
        raise row.error(f"has no rate, expected one of {', '.join(names)}; leave out what was not measured")
    if len(given) > 1:
        raise row.error(f"has {len(given)} rates, expected one of {', '.join(names)}")
    rate = row.number(given[0]) * _RATES[given[0]]
    if not 0 < rate <= FASTEST_BYTES_PER_S:
        raise row.error(f"{given[0]} is {row[given[0]]}, expected a rate above 0 and below 10 TB/s")
    return rate


def _program(row: _Row, default: str) -> str:
    try:
        return program_of(row.get("program") or default).name
    except InputError as error:
        raise row.error(str(error)) from error


def _role(row: _Row) -> str:
    """Return the role of a row; one that is misspelt would be judged, or not."""
    role: str = row.get("role") or ""
    if role and role not in (CALIBRATION, *JUDGED, *EXCLUDED_ROLES) and not role.startswith("test_"):
        expected = ", ".join((CALIBRATION, *JUDGED, *EXCLUDED_ROLES))
        raise row.error(f"role is '{role}', expected {expected}, a name that begins with test_, or nothing")
    return role


def _name(row: _Row, default: str) -> str:
    return next((row[name] for name in _NAMES if row.get(name)), default)


def _total(row: _Row, column: str, program: str) -> MeasuredGraph:
    flows = []
    for part in row[column].split():
        match = _ARC.fullmatch(part)
        if match is None or match[1] == match[2]:
            raise row.error(f"communication '{part}', expected two endpoints such as 0>1")
        flows.append((match[1], match[2]))
    if not flows:
        raise row.error(f"{column} is empty, expected communications such as 0>1")
    rate = _rate(row, _TOTALS)
    return MeasuredGraph(_name(row, row[column]), tuple(flows), rate, _program(row, program), _role(row), line=row.line)


def _from_copies(rows: list[_Row], program: str) -> list[MeasuredGraph]:
    """Sum the copies of each graph and repetition; the graph takes the median of its repetitions."""
    found: dict[str, dict[str, list[_Row]]] = {}
    for row in rows:
        found.setdefault(_name(row, "copies"), {}).setdefault(row.get("repetition"), []).append(row)
    graphs = []
    for name, repetitions in found.items():
        first = next(iter(repetitions.values()))
        flows = tuple(_ends(row) for row in first)
        again = next((place for place, flow in enumerate(flows) if flow in flows[:place]), None)
        if again is not None:
            raise first[again].error(
                f"graph '{name}' copies {' to '.join(flows[again])} a second time in one repetition, expected another "
                "'repetition', or a row with 'communications' of copies side by side"
            )
        totals = []
        for own in repetitions.values():
            if sorted(_ends(row) for row in own) != sorted(flows):
                raise own[0].error(
                    f"graph '{name}' has other copies than in its first repetition: {_missing(own, flows)}"
                )
            totals.append(_total_of(own))
        rates = np.array(totals)
        median = float(np.median(rates))
        graphs.append(
            MeasuredGraph(name, flows, median, _program(first[0], program), _role(first[0]), len(totals),
                          float((rates.max() - rates.min()) / 2 / median), first[0].line,
                          rates_summed=not first[0].get("elapsed_s"))
        )  # fmt: skip
    return graphs


def _ends(row: _Row) -> tuple[str, str]:
    source, target = row["source"], row["target"]
    if not source or not target or source == target:
        raise row.error(f"copies from '{source}' to '{target}', expected two endpoints")
    return source, target


def _missing(own: list[_Row], flows: tuple[tuple[str, str], ...]) -> str:
    ends = [_ends(row) for row in own]
    lacking = [flow for flow in flows if flow not in ends]
    more = [flow for flow in ends if ends.count(flow) > flows.count(flow)]
    text = [f"{s}>{t} is missing" for s, t in lacking[:3]] + [f"{s}>{t} is a duplicate" for s, t in more[:3]]
    return ", ".join(dict.fromkeys(text))


def _total_of(rows: list[_Row]) -> float:
    """Return the rate of copies together: the sum of their rates, or all bytes until the last one ends."""
    both = next((name for row in rows for name in _RATES if row.get("elapsed_s") and row.get(name)), None)
    if both is not None:
        raise rows[0].error(f"has elapsed_s and {both}, expected one of them")
    if rows[0].get("elapsed_s"):
        sizes, ends = [], []
        for row in rows:
            size, elapsed = row.number("size_bytes") if row.get("size_bytes") else math.nan, row.number("elapsed_s")
            if not (size > 0 and elapsed > 0):
                raise row.error("expected size_bytes and elapsed_s above 0")
            sizes.append(size)
            ends.append(elapsed)
        total = sum(sizes) / max(ends)
        if total > FASTEST_BYTES_PER_S:
            raise rows[0].error(f"{total / 1e9:.4g} GB/s follow from size and time, expected at most 10 TB/s")
        return total
    names = [name for name in _RATES if name not in _TOTALS]
    return sum(_rate(row, names) for row in rows)


class MachineCopies(NamedTuple):
    """Measured copies between the endpoints of a topology.

    Parameters
    ----------
    graphs : list of MeasuredGraph
        In the order of the file.
    warnings : tuple of Warning
        Doubts about whether the file is of the machine.
    """

    graphs: list[MeasuredGraph]
    warnings: tuple[Warning, ...]


def copies_of_machine(
    tree: PcieTree, path: Path | str, *, program: str = "independent", system: str | None = None
) -> MachineCopies:
    """Read measured copies, with GPUs renamed to the endpoints of a topology.

    Parameters
    ----------
    tree : PcieTree
        The machine.
    path : Path or str
        As for `read_measured_copies`.
    program : str, default 'independent'
        Program of rows that specify none.
    system : str, optional
        Read only rows of this system.

    Raises
    ------
    InputError
        If the file is invalid, or prints PCI addresses of which the topology has some but not all.
    """
    if is_table(path):
        return MachineCopies(read_measured_copies(path, program=program, system=system), ())
    output = read_benchmark_output(path)
    addresses = {} if output.path.suffix.lower() == ".json" else printed_addresses(output.text)
    return MachineCopies(by_address(tree, copies_in(output), addresses), address_warnings(tree, addresses))
