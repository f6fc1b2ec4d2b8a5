"""Copies in the matrices of nvbandwidth and p2pBandwidthLatencyTest."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from fabricast.pcie.measurements.measured_graph import CALIBRATION, MeasuredGraph
from fabricast.pcie.topology.memory import HOST

__all__ = ["copies_in_matrices"]


#: Tests of nvbandwidth by copy engines whose matrix has a copy alone, or two opposite ones, in each cell.
_NVBANDWIDTH = re.compile(r"device_to_device_(bidirectional_)?memcpy_(read|write)_ce(_total)?")


#: Tests in which all GPUs copy at the same time, and whether host memory is read.
_TOGETHER = {"all_to_host_memcpy_ce": False, "host_to_all_memcpy_ce": True}


#: Tests that print one direction each while both are used: reading of host memory, writing, and whether all GPUs do.
_BOTH_WAYS = (
    ("host_to_device_bidirectional_memcpy_ce", "device_to_host_bidirectional_memcpy_ce", False),
    ("host_to_all_bidirectional_memcpy_ce", "all_to_host_bidirectional_memcpy_ce", True),
)


#: Tests of one GPU, of which each cell is the total, and all others.
_ONE_AND_ALL = re.compile(r"(all_to_one|one_to_all)_(read|write)_ce")


def copies_in_matrices(table: pd.DataFrame) -> list[MeasuredGraph]:
    """Return the copies in bandwidth matrices: single copies and bidirectional pairs, also of host memory.

    Parameters
    ----------
    table : pandas.DataFrame
        As `fabricast.inputs.bandwidth_matrices.parse_bandwidths` returns it.

    Returns
    -------
    list of MeasuredGraph
        Single copies and bidirectional pairs have the role ``calibration``; empty if no test is by copy engines.
    """
    tests: dict[str, list[tuple[str, str, float]]] = {}
    for row in table.to_dict("records"):
        if row["unit"] == "bytes/s":
            cell = (str(row["row"]), str(row["column"]), float(row["value"]))
            tests.setdefault(str(row["test"]), []).append(cell)
    graphs = [
        MeasuredGraph(f"{name} {first} {second}", flows, rate, "independent", CALIBRATION)
        for name, cells in tests.items()
        for first, second, rate in cells
        if (flows := _cell(name, first, second))
    ]
    for name, is_read in _TOGETHER.items():
        if name in tests:
            ends = tuple((HOST, gpu) if is_read else (gpu, HOST) for _, gpu, _ in tests[name])
            total = sum(rate for *_, rate in tests[name])
            graphs.append(MeasuredGraph(name, ends, total, "independent", CALIBRATION, rates_summed=True))
    return [*graphs, *_both_ways(tests), *_one_and_all(tests)]


def _both_ways(tests: dict[str, list[tuple[str, str, float]]]) -> Iterator[MeasuredGraph]:
    """Return copies from and to host memory at once, from two tests that tell one direction each."""
    for reads, writes, together in _BOTH_WAYS:
        read = {gpu: rate for _, gpu, rate in tests.get(reads, [])}
        written = {gpu: rate for _, gpu, rate in tests.get(writes, [])}
        if not read or read.keys() != written.keys():
            continue
        for gpus in [list(read)] if together else [[gpu] for gpu in read]:
            flows = tuple(flow for gpu in gpus for flow in ((HOST, gpu), (gpu, HOST)))
            total = sum(read[gpu] + written[gpu] for gpu in gpus)
            name = f"{reads} and back" + ("" if together else f" {gpus[0]}")
            yield MeasuredGraph(name, flows, total, "independent", CALIBRATION, rates_summed=True)


def _one_and_all(tests: dict[str, list[tuple[str, str, float]]]) -> Iterator[MeasuredGraph]:
    """Return copies between one GPU and all others, which are judged."""
    for name, cells in tests.items():
        known = _ONE_AND_ALL.fullmatch(name)
        gpus = [gpu for _, gpu, _ in cells]
        if known is None or len(gpus) < 3:
            continue
        program = "unordered_reads" if known[2] == "read" else "unordered_writes"
        for _, one, rate in cells:
            others = [gpu for gpu in gpus if gpu != one]
            flows = tuple((other, one) if known[1] == "all_to_one" else (one, other) for other in others)
            yield MeasuredGraph(f"{name} {one}", flows, rate, program)


def _cell(test: str, row: str, column: str) -> tuple[tuple[str, str], ...]:
    """Return the copies behind a cell of a matrix; none where it is no copy of interest."""
    if test in ("host_to_device_memcpy_ce", "device_to_host_memcpy_ce"):
        return ((HOST, column),) if test.startswith("host") else ((column, HOST),)
    if row == column:
        return ()
    known = _NVBANDWIDTH.fullmatch(test)
    if known is not None:
        if known[1]:
            # The total of both directions is a test of its own; the others print one direction.
            return ((row, column), (column, row)) if known[3] else ()
        return ((row, column),) if known[2] == "write" else ((column, row),)
    if "P2P=Enabled" in test and "Latency" not in test:
        return ((row, column),) if test.startswith("Unidirectional") else ((row, column), (column, row))
    return ()
