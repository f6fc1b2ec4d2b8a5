"""Copies in the matrices of nvbandwidth and p2pBandwidthLatencyTest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from fabricast.pcie.measurements.measured_graph import CALIBRATION, MeasuredGraph
from fabricast.pcie.topology.memory import HOST

__all__ = ["copies_in_matrices"]


#: Copy-engine tests of nvbandwidth in which each cell is a single copy or a bidirectional pair.
_NVBANDWIDTH = re.compile(r"device_to_device_(bidirectional_)?memcpy_(read|write)_ce(_total)?")


#: Tests in which all GPUs copy at the same time, and whether they read host memory.
_TOGETHER = {"all_to_host_memcpy_ce": False, "host_to_all_memcpy_ce": True}


#: Pairs of tests that each print one direction of bidirectional copies: reads of host memory, writes, and whether all
#: GPUs copy at the same time.
_BOTH_WAYS = (
    ("host_to_device_bidirectional_memcpy_ce", "device_to_host_bidirectional_memcpy_ce", False),
    ("host_to_all_bidirectional_memcpy_ce", "all_to_host_bidirectional_memcpy_ce", True),
)


#: Tests between one GPU and all others; each cell is a total rate.
_ONE_AND_ALL = re.compile(r"(all_to_one|one_to_all)_(read|write)_ce")


class _Cell(NamedTuple):
    """Cell of a matrix, and the line of its row."""

    row: str
    column: str
    bytes_per_s: float
    line: int


_Tests = dict[str, list[_Cell]]


def copies_in_matrices(table: pd.DataFrame) -> list[MeasuredGraph]:
    """Return the single copies and bidirectional pairs in bandwidth matrices."""
    tests: _Tests = {}
    for row in table.to_dict("records"):
        if row["unit"] == "bytes/s":
            cell = _Cell(str(row["row"]), str(row["column"]), float(row["value"]), int(row["line"]))
            tests.setdefault(str(row["test"]), []).append(cell)
    graphs = [
        MeasuredGraph(
            f"{name} {cell.row} {cell.column}", flows, cell.bytes_per_s, "independent", CALIBRATION, line=cell.line
        )
        for name, cells in tests.items()
        for cell in cells
        if (flows := _copies(name, cell.row, cell.column))
    ]
    for name, is_read in _TOGETHER.items():
        if name in tests:
            cells = tests[name]
            ends = tuple((HOST, cell.column) if is_read else (cell.column, HOST) for cell in cells)
            total = sum(cell.bytes_per_s for cell in cells)
            graphs.append(
                MeasuredGraph(
                    name, ends, total, "independent", CALIBRATION, line=cells[0].line, statistic="sum_of_copies"
                )
            )
    return [*graphs, *_both_ways(tests), *_one_and_all(tests)]


def _both_ways(tests: _Tests) -> Iterator[MeasuredGraph]:
    """Yield bidirectional copies of host memory from pairs of tests, one per direction."""
    for reads, writes, together in _BOTH_WAYS:
        read = {cell.column: cell.bytes_per_s for cell in tests.get(reads, [])}
        written = {cell.column: cell.bytes_per_s for cell in tests.get(writes, [])}
        if not read or read.keys() != written.keys():
            continue
        for gpus in [list(read)] if together else [[gpu] for gpu in read]:
            flows = tuple(flow for gpu in gpus for flow in ((HOST, gpu), (gpu, HOST)))
            total = sum(read[gpu] + written[gpu] for gpu in gpus)
            name = f"{reads} and back" + ("" if together else f" {gpus[0]}")
            yield MeasuredGraph(name, flows, total, "independent", CALIBRATION, statistic="sum_of_copies")


def _one_and_all(tests: _Tests) -> Iterator[MeasuredGraph]:
    """Yield copies between one GPU and all others, which are used for validation."""
    for name, cells in tests.items():
        match = _ONE_AND_ALL.fullmatch(name)
        gpus = [cell.column for cell in cells]
        if match is None or len(gpus) < 3:
            continue
        program = "unordered_reads" if match[2] == "read" else "unordered_writes"
        for cell in cells:
            hub = cell.column
            peers = [gpu for gpu in gpus if gpu != hub]
            flows = tuple((peer, hub) if match[1] == "all_to_one" else (hub, peer) for peer in peers)
            yield MeasuredGraph(f"{name} {hub}", flows, cell.bytes_per_s, program, line=cell.line)


def _copies(test: str, row: str, column: str) -> tuple[tuple[str, str], ...]:
    """Return the copies of a matrix cell; empty if the cell is not used."""
    if test in ("host_to_device_memcpy_ce", "device_to_host_memcpy_ce"):
        return ((HOST, column),) if test.startswith("host") else ((column, HOST),)
    if row == column:
        return ()
    match = _NVBANDWIDTH.fullmatch(test)
    if match is not None:
        if match[1]:
            # A separate test prints the total of both directions; the other tests print one direction.
            return ((row, column), (column, row)) if match[3] else ()
        return ((row, column),) if match[2] == "write" else ((column, row),)
    if "P2P=Enabled" in test and "Latency" not in test:
        return ((row, column),) if test.startswith("Unidirectional") else ((row, column), (column, row))
    return ()
