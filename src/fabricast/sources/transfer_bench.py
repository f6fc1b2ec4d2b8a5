"""Reader of TransferBench: tests, the preset ``p2p`` and the preset ``a2a``, 1.00 (07ac2dc) to 1.6x."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fabricast.core.facts import Content
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.sources.copies import check_end, rate_facts
from fabricast.sources.text import Format, Reading, Text

#: Prefix of host-memory endpoints; TransferBench always prints the number of the NUMA node.
_NODE = "NUMA"
_TRANSFER = re.compile(
    r"\s*Transfer\s+\d+\s+(?P<rate>[\d.]+) GB/s\s+(?P<ms>[\d.]+) ms\s+(?P<bytes>\d+) bytes\s+"
    r"(?P<source>\S+) -> (?P<executor>\S+) -> (?P<target>\S+)\s*$"
)
_EXECUTOR = re.compile(r"\s*Executor:.*?(\d+) bytes")
#: Coarse- or fine-grained device memory and pinned host memory. Other letters differ between versions of TransferBench
#: or denote no memory.
_MEMORY = re.compile(r"(?:(?P<gpu>[GF])|(?P<host>[CB]))0*(?P<number>\d+)")
_DIRECTION = re.compile(r"\s*(Uni|Bi)directional copy peak bandwidth GB/s")
#: First cell of a matrix: D/D until 1.05, SRC\DST until 1.13, and one that names the executor since then.
_CORNER = re.compile(r"\s*(?:D/D|SRC(?:\+EXE)?\\(?:EXE\+)?DST)(?=\s+(?:CPU|GPU)\s+\d)")
_ROW = re.compile(r"\s*((?:CPU|GPU)\s+\d+)\s+(->|<->|<-|min\b|max\b|sd\b)?(.*)$")
_DEVICE = re.compile(r"(CPU|GPU)\s+(\d+)")
#: First columns of the preset p2p with OUTPUT_TO_CSV=1 until 1.25.
_LIST = "SRC,DST,Direction,"
_VERSION = re.compile(r"TransferBench v([\d.]{1,20})")
#: Rounding error of printed rates in GB/s, which have two or three decimals.
_ROUNDING = 0.005


@dataclass
class _Matrix:
    """Matrix of rates between devices."""

    #: ``Uni`` for one copy and ``Bi`` for the copies of both directions per cell, ``All`` if all cells are concurrent.
    kind: str
    columns: list[str]  # Devices, such as ``GPU 00``
    more: int = 0  # Number of further columns: totals of the rows
    #: Rates in GB/s of each row; NaN for pairs without a copy.
    rows: dict[str, list[float]] = field(default_factory=dict)

    def add(self, device: str, words: list[str]) -> None:
        """Add a row of printed numbers."""
        expected = len(self.columns) + self.more
        if len(words) != expected:
            raise ValueError(f"row {device} has {len(words)} values, expected {expected}")
        if device in self.rows:
            raise ValueError(f"row {device} is a duplicate")
        rates = [math.nan if word == "N/A" else _number(word) for word in words]
        if self.more and abs(_sum(rates[: len(self.columns)]) - rates[len(self.columns)]) > _ROUNDING * expected:
            raise ValueError(f"the total of row {device} is {rates[len(self.columns)]:g}, but its values differ")
        self.rows[device] = rates[: len(self.columns)]

    def cells(self) -> Iterator[tuple[str, str, float]]:
        """Yield source, target and rate of each copy between different devices."""
        if list(self.rows) != self.columns:
            name = {"Uni": "the unidirectional matrix", "Bi": "the bidirectional matrix"}.get(self.kind, "the summary")
            raise ValueError(f"{name} has {len(self.rows)} of {len(self.columns)} rows: the output is cut short")
        for source, rates in self.rows.items():
            for target, rate in zip(self.columns, rates, strict=True):
                if source != target and not math.isnan(rate):
                    yield source, target, rate


def _is_output(text: Text) -> bool:
    raw = text.raw
    if _VERSION.search(raw) is not None or "Executor:" in raw or _LIST in raw:
        return True
    if " GB/s" in raw and any(_TRANSFER.match(_without_borders(line)) for line in text.clean_lines if "->" in line):
        return True
    may_have = "D/D" in raw or "DST" in raw
    return may_have and any(
        _CORNER.search(_without_borders(line)) for line in text.clean_lines if "D/D" in line or "DST" in line
    )


def _read(text: Text) -> Iterator[Reading]:
    check_end(text)
    version = _VERSION.search(text.clean)
    program = "TransferBench" if version is None else f"TransferBench {version[1]}"
    graphs = _graphs(text.clean_lines)
    if not graphs:
        raise text.error("contains no copies of TransferBench between GPUs or of pinned host memory")
    yield Reading(list(rate_facts(text, program, graphs)), program=program)


def _graphs(lines: Sequence[str]) -> list[MeasuredGraph]:
    """Return the copies between GPUs and with host memory.

    Copies within one device are skipped, and so are tests with memory other than GPU memory (G, F) or pinned host
    memory (C, B). Host memory is named after its NUMA node (``NUMA0``). The topology must define this node unless it
    has only one memory.
    """
    graphs = [*_tests(lines), *_listed(lines)]
    for matrix in _matrices(lines):
        if matrix.kind == "All":
            graphs += _together(matrix, {frozenset(graph.flows) for graph in graphs})
        else:
            graphs += _one_by_one(matrix)
    return graphs


def _number(word: str) -> float:
    rate = float(word)
    if not math.isfinite(rate):
        raise ValueError(f"a rate is {word}, expected a number or N/A")
    return rate


def _sum(rates: list[float]) -> float:
    return math.fsum(rate for rate in rates if not math.isnan(rate))


def _without_borders(line: str) -> str:
    """Return a line of a table without borders and commas."""
    return re.sub(r"[│|,]", " ", line)


def _end(memory: str) -> str | None:
    """Return the endpoint of a memory such as G0; None for unsupported memory."""
    match = _MEMORY.fullmatch(memory)
    if match is None:
        return None
    return f"{'' if match['gpu'] else _NODE}{int(match['number'])}"


def _device_end(device: str) -> str:
    """Return the endpoint of a device such as ``GPU 00``."""
    kind, number = device.split()
    return f"{_NODE if kind == 'CPU' else ''}{int(number)}"


def _tests(lines: Sequence[str]) -> Iterator[MeasuredGraph]:
    """Yield the tests that only copy between GPUs and host memory."""
    name, rows, moved = "Test", list[re.Match[str]](), 0
    numbers: set[str] = set()
    for line in [*(line.replace("│", "|") for line in lines), "Test end:"]:
        title = re.match(r"\s*(Test \S+?):\s*$", line)
        executor = _EXECUTOR.match(line)
        if title:
            if sum(int(row["bytes"]) for row in rows) < moved:
                raise ValueError(f"'{name}' lacks transfers of its executors: the output is cut short")
            yield from _one_test(name, rows)
            name, rows, numbers, moved = title[1], [], set(), 0
        elif executor:
            moved += int(executor[1])
        elif re.match(r"\s*Transfer\s+\d+\s*\|", line):
            transfer = _TRANSFER.fullmatch(line.replace("|", " "))
            if transfer is None:
                raise ValueError(f"'{line.strip()[:60]}' is not a complete row of a transfer")
            _check_rate(transfer)
            number = line.split("|")[0].split()[1]
            if number in numbers:
                raise ValueError(f"transfer {number} of '{name}' is a duplicate")
            numbers.add(number)
            rows.append(transfer)


def _check_rate(row: re.Match[str]) -> None:
    """Check that a rate is positive and agrees with the printed bytes and time.

    The tolerance covers the rounding of the printed time.
    """
    time_ms, rate = float(row["ms"]), float(row["rate"])
    if rate == 0:
        raise ValueError(f"'{' '.join(row[0].split())[:60]}' has a rate of 0 GB/s, expected a positive rate")
    if time_ms >= 0.1 and abs(int(row["bytes"]) / time_ms * 1e-6 / rate - 1) > 0.02 + 0.0005 / time_ms:
        follows = int(row["bytes"]) / time_ms * 1e-6
        raise ValueError(f"rate of a transfer is {rate:g} GB/s, expected {follows:.4g} GB/s from its bytes and time")


def _one_test(name: str, rows: list[re.Match[str]]) -> Iterator[MeasuredGraph]:
    ends = [(_end(row["source"]), _end(row["target"])) for row in rows]
    flows = tuple((source, target) for source, target in ends if source and target and source != target)
    if not rows or len(flows) < len(ends):
        return
    slowest_s = max(float(row["ms"]) for row in rows) * 1e-3
    # Times are printed with three decimals, so the printed rate of short transfers is more precise.
    if slowest_s < 1e-4:
        total = sum(float(row["rate"]) for row in rows) * 1e9
    else:
        total = sum(int(row["bytes"]) for row in rows) / slowest_s
    yield MeasuredGraph(name, flows, total, "independent")


def _matrices(lines: Sequence[str]) -> list[_Matrix]:
    """Return the matrices of a text, in their order."""
    matrices: list[_Matrix] = []
    kind = "Uni"
    for number, bordered in enumerate(lines, start=1):
        line = _without_borders(bordered)
        if (direction := _DIRECTION.match(line)) is not None:
            kind = direction[1]
        elif _CORNER.match(line):
            matrices.append(_header(line, kind, number))
        elif matrices and (row := _ROW.match(line)) is not None:
            matrix = matrices[-1]
            # The opposite copy, the total of both and the spread follow in rows of their own.
            has_total = matrix.kind == "Bi" and row[2] is not None
            if row[2] == "<->" or (not has_total and row[2] in (None, "->")):
                matrix.add(" ".join(row[1].split()), row[3].split())
    return matrices


def _header(line: str, kind: str, number: int) -> _Matrix:
    """Return the empty matrix of a header line."""
    columns = [f"{device} {index}" for device, index in _DEVICE.findall(line)]
    if "STotal" not in line:
        return _Matrix(kind, columns)
    if "(Rnk)" in line:
        raise ValueError(f"line {number} is of several ranks, expected the GPUs of one host")
    if "NIC" in line:
        raise ValueError(f"line {number} has copies by network cards (NUM_QUEUE_PAIRS), expected copies of GPUs only")
    return _Matrix("All", columns, more=2)


def _one_by_one(matrix: _Matrix) -> Iterator[MeasuredGraph]:
    """Yield the copies of the preset p2p, which run one by one."""
    for source, target, rate in matrix.cells():
        yield from _pair(source, target, rate, both_ways=matrix.kind == "Bi")


def _pair(source: str, target: str, rate: float, *, both_ways: bool) -> Iterator[MeasuredGraph]:
    pair = (_device_end(source), _device_end(target))
    processors = [device for device in (source, target) if device.startswith("CPU")]
    if both_ways and not processors:
        yield MeasuredGraph(
            f"p2p {source} and {target}", (pair, pair[::-1]), rate * 1e9, "independent", statistic="sum_of_copies"
        )
    elif not both_ways and len(processors) < 2:
        yield MeasuredGraph(f"p2p {source} to {target}", (pair,), rate * 1e9, "independent")


def _together(matrix: _Matrix, known: set[frozenset[tuple[str, str]]]) -> Iterator[MeasuredGraph]:
    """Yield the concurrent copies of the preset a2a."""
    cells = list(matrix.cells())
    flows = tuple((_device_end(source), _device_end(target)) for source, target, _ in cells)
    if flows and frozenset(flows) not in known:
        total = math.fsum(rate for *_, rate in cells)
        yield MeasuredGraph("all to all", flows, total * 1e9, "independent", statistic="sum_of_copies")


def _listed(lines: Sequence[str]) -> Iterator[MeasuredGraph]:
    """Yield the copies of the preset p2p in the old CSV form: one row per pair."""
    columns: list[str] = []
    for line in lines:
        words = [word.strip() for word in line.split(",")]
        if line.startswith(_LIST):
            columns = words
        elif columns and len(words) == len(columns) and _DEVICE.fullmatch(words[0]):
            rate = _number(words[columns.index("BW(GB/s)")])
            # Pairs that were not measured have a rate of 0.
            if words[0] != words[1] and rate:
                yield from _pair(words[0], words[1], rate, both_ways=words[2] == "bidirectional")


FORMAT = Format(
    "TransferBench",
    Content.COPIES,
    "TransferBench p2p > transferbench.txt",
    "Aggregate bandwidth (GPU Timed): 2003.440 GB/s",
    _is_output,
    _read,
    "transferbench.txt",
    versions="1.00 to 1.6x: tests, `p2p` (matrices and lists, text and CSV), summary of `a2a`",
)
