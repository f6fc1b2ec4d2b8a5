"""Tables of rates and latencies of pairs: one row per pair and kind of measurement."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import CsvRow, read_csv
from fabricast.inputs.parquet_files import ParquetRow
from fabricast.pcie.measurements.measured_graph import CALIBRATION, MeasuredGraph
from fabricast.pcie.topology.memory import HOST
from fabricast.pcie.topology.tree import PcieTree

PAIR_COLUMNS = ("source", "target", "kind", "value", "unit")
_OPTIONAL = ("machine", "system", "reference", "note")
#: Name that stands for every GPU.
_EVERY = "*"
_Row = CsvRow | ParquetRow
#: Kinds that are read, with an optional class of pairs.
_PAIR = re.compile(r"(one_way|both_ways|latency)(?:_(same_socket|across_sockets|same_node|across_nodes))?")
_HOST_KINDS = ("host_to_device", "device_to_host", "host_to_device_all_total", "device_to_host_all_total")
_RATES, _LATENCIES = (1e6, 1e13), (1e-8, 1e-2)


class PairTable(NamedTuple):
    """Measured pairs of one machine."""

    graphs: list[MeasuredGraph]  # Isolated copies, bidirectional pairs, and copies of host memory
    latency_s: dict[tuple[str, str], float]  # Latency of copies between pairs of GPUs in s
    omitted: Counter[str]  # Number of rows of each kind that is not used


def csv_pair_rows(path: Path | str, text: str) -> list[CsvRow]:
    """Return the rows of a CSV table of pairs."""
    return read_csv(path, PAIR_COLUMNS, _OPTIONAL, text=text)


def pairs_of_rows(tree: PcieTree, rows: Sequence[_Row], path: Path | str, *, system: str | None = None) -> PairTable:
    r"""Return the pairs of one machine in the rows of a table.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> rows = csv_pair_rows("pairs.csv", "source,target,kind,value,unit\n0,1,one_way,25,GB/s\n0,1,latency,1.3,us\n")
    >>> table = pairs_of_rows(regular_tree("flat4x2", (2, 4)), rows, "pairs.csv")
    >>> table.graphs[0].total_bytes_per_s, table.latency_s
    (25000000000.0, {('0', '1'): 1.3e-06})
    """
    rows = _rows_of(rows, path, system)
    graphs: list[MeasuredGraph] = []
    latency_s: dict[tuple[str, str], float] = {}
    omitted: Counter[str] = Counter()
    for row in rows:
        match, kind = _PAIR.fullmatch(row["kind"]), row["kind"]
        if match is None and kind not in _HOST_KINDS:
            omitted[kind] += 1
        elif match is not None and match[1] == "latency":
            value = _value(row, "us", 1e-6, _LATENCIES)
            latency_s.update(dict.fromkeys(_pairs(tree, row, match[2]), value))
        elif match is not None:
            value = _value(row, "GB/s", 1e9, _RATES)
            for source, target in _pairs(tree, row, match[2]):
                flows = ((source, target), (target, source))[: 1 if match[1] == "one_way" else 2]
                name = f"{kind} {source} {target}"
                graphs.append(MeasuredGraph(name, flows, value, "independent", CALIBRATION, line=row.line))
        else:
            graphs.append(_host_copies(tree, row))
    if not graphs and not latency_s:
        raise InputError("contains no pair that is used, expected kinds one_way, both_ways or latency", path=path)
    return PairTable(graphs, latency_s, omitted)


def _rows_of(rows: Sequence[_Row], path: Path | str, system: str | None) -> Sequence[_Row]:
    """Return the rows of one machine."""
    column = "machine" if "machine" in rows[0] else "system"
    machines = list(dict.fromkeys(row.get(column) for row in rows))
    if system is not None:
        rows = [row for row in rows if row.get(column) == system]
        if not rows:
            raise InputError(f"contains no row of '{system}', expected one of {', '.join(machines[:12])}", path=path)
    elif len(machines) > 1:
        raise InputError(f"contains {len(machines)} machines, expected one: {', '.join(machines[:8])}", path=path)
    return rows


def _value(row: _Row, unit: str, scale: float, bounds: tuple[float, float]) -> float:
    if row["unit"] != unit:
        raise row.error(f"unit is '{row['unit']}', expected {unit} for kind '{row['kind']}'")
    value = row.number("value") * scale
    if not bounds[0] <= value <= bounds[1]:
        raise row.error(f"value is {row['value']} {unit}, expected {bounds[0] / scale:g} to {bounds[1] / scale:g}")
    return value


def _pairs(tree: PcieTree, row: _Row, of_class: str | None) -> Iterator[tuple[str, str]]:
    """Yield the pairs of GPUs of a row."""
    every = tree.accelerator_names
    ends = []
    for column in ("source", "target"):
        if row[column] != _EVERY and row[column] not in every:
            raise row.error(f"{column} is '{row[column]}', expected a GPU of '{tree.name}': {', '.join(every[:16])}")
        ends.append(every if row[column] == _EVERY else (row[column],))
    for source in ends[0]:
        for target in ends[1]:
            if source == target:
                continue
            across = tree.path_class(source, target) == "SYS"
            if of_class is None or across == of_class.startswith("across"):
                yield source, target


def _host_copies(tree: PcieTree, row: _Row) -> MeasuredGraph:
    """Return copies of host memory: of one GPU, or of all at the same time."""
    kind, value = row["kind"], _value(row, "GB/s", 1e9, _RATES)
    reads, together = kind.startswith("host"), kind.endswith("_all_total")
    gpu, memory = (row["target"], row["source"]) if reads else (row["source"], row["target"])
    if memory not in (HOST, _EVERY) or (gpu != _EVERY) == together:
        expected = f"host memory '{HOST}' and '{_EVERY}'" if together else f"host memory '{HOST}' and a GPU"
        raise row.error(f"source and target are {row['source']} and {row['target']}, expected {expected}")
    gpus = tree.accelerator_names if together else (gpu,)
    if not together and gpu not in tree.accelerator_names:
        raise row.error(f"names '{gpu}', expected a GPU of '{tree.name}'")
    flows = tuple((HOST, name) if reads else (name, HOST) for name in gpus)
    return MeasuredGraph(
        f"{kind} {gpu}", flows, value, "independent", CALIBRATION, line=row.line, statistic="sum_of_copies"
    )
