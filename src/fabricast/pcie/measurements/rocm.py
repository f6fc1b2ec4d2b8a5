"""Readers for the output of rocm_bandwidth_test and TransferBench."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.memory import HOST

__all__ = ["is_rocm_output", "read_rocm_output"]

_BANDWIDTH_TEST = "RocmBandwidthTest"
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
_DEVICE = re.compile(r"\s*Device:\s+(\d+),\s*(.*?)\s*$")
_BUS = re.compile(r",\s*[0-9a-fA-F]{1,4}:[0-9a-fA-F.:]+$")
#: Largest relative difference of the two cells of a bidirectional pair, which report one measurement.
_MIRROR = 0.01
_CLASSES = {"U": "unidirectional", "B": "bidirectional"}
_MATRIX = re.compile(r"\s*(Unidirectional|Bi?directional) copy peak bandwidth GB/s")


def is_rocm_output(text: str) -> bool:
    """Return whether a text is the output of rocm_bandwidth_test or TransferBench."""
    return _BANDWIDTH_TEST in text or "TransferBench" in text or "Executor:" in text or "SRC+EXE\\DST" in text


def read_rocm_output(text: str) -> list[MeasuredGraph]:
    """Read the copies between GPUs and with host memory from benchmark output.

    Only the unidirectional matrix of the TransferBench preset ``p2p`` is read. Copies within one device are skipped.
    TransferBench tests with memory other than GPU memory (G, F) or pinned host memory (C, B) are skipped as well.

    Host memory is named after its NUMA node (``NUMA0``). The topology must define this node unless it has only one
    memory. If rocm_bandwidth_test lists one processor, its memory is `HOST`, the memory next to the GPU of the copy.

    Parameters
    ----------
    text : str
        Output of rocm_bandwidth_test (2.0 to 2.6) or TransferBench (config file, ``a2a``, ``p2p``).

    Returns
    -------
    list of MeasuredGraph
        Graphs in the order of the text. All transfers of a TransferBench test run concurrently. Their total rate is all
        bytes divided by the last completion time.

    Raises
    ------
    ValueError
        If the output is damaged or incomplete.

    References
    ----------
    Formats as printed in the documentation and issues of ROCm/rocm_bandwidth_test and ROCm/TransferBench.

    Examples
    --------
    >>> text = '''TransferBench v1.62.00
    ... Test 1:
    ...  Executor: DMA 00 |   59.334 GB/s |    4.524 ms |    268435456 bytes | 60.973  GB/s (sum)
    ...      Transfer 00  |   60.973 GB/s |    4.403 ms |    268435456 bytes | G0 -> D000:001 -> G1
    ... '''
    >>> [(one.flows, round(one.total_bytes_per_s / 1e9, 2)) for one in read_rocm_output(text)]
    [((('0', '1'),), 60.97)]
    """
    lines = text.replace("│", "|").splitlines()
    if _BANDWIDTH_TEST in text:
        return list(_bandwidth_test(lines))
    return [*_tests(lines), *_peer_matrix(lines)]


def _end(memory: str) -> str | None:
    """Return the endpoint of a memory such as G0; None for unsupported memory."""
    match = _MEMORY.fullmatch(memory)
    if match is None:
        return None
    return f"{'' if match['gpu'] else _NODE}{int(match['number'])}"


def _tests(lines: list[str]) -> Iterator[MeasuredGraph]:
    """Yield the TransferBench tests that only copy between GPUs and host memory."""
    name, rows, moved = "Test", list[re.Match[str]](), 0
    numbers: set[str] = set()
    for line in [*lines, "Test end:"]:
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


def _cells(words: list[str], expected: int, row: str) -> list[float]:
    if len(words) != expected:
        raise ValueError(f"row {row} has {len(words)} values, expected {expected}")
    return [math.nan if word == "N/A" else float(word) for word in words]


def _peer_matrix(lines: list[str]) -> Iterator[MeasuredGraph]:
    """Yield the unidirectional copies of the TransferBench preset p2p."""
    columns: list[tuple[str, str]] = []
    rows_read = 0
    for line in lines:
        if line.lstrip().startswith("Bidirectional copy"):
            break
        if "SRC+EXE\\DST" in line:
            columns = _devices(line)
        row = re.match(r"\s*(CPU|GPU)\s+(\d+)\s+->\s+(.*)$", line)
        if not columns or row is None:
            continue
        rows_read += 1
        title, source = f"{row[1]} {row[2]}", _device_end(row[1], row[2])
        for column, rate in zip(columns, _cells(row[3].split(), len(columns), title), strict=True):
            target = _device_end(*column)
            if source != target and {row[1], column[0]} != {"CPU"} and rate == rate:
                yield MeasuredGraph(
                    f"p2p {title} to {' '.join(column)}", ((source, target),), rate * 1e9, "independent"
                )
    if rows_read != len(columns):
        raise ValueError(f"the unidirectional matrix has {rows_read} of {len(columns)} rows: the output is cut short")


def _device_end(kind: str, number: str) -> str:
    return f"{_NODE if kind == 'CPU' else ''}{int(number)}"


def _devices(line: str) -> list[tuple[str, str]]:
    return re.findall(r"(CPU|GPU)\s+(\d+)", line)


def _bandwidth_test(lines: list[str]) -> Iterator[MeasuredGraph]:
    """Yield the copies of rocm_bandwidth_test.

    Devices without a PCI address are processors.
    """
    ends: dict[str, str] = {}
    for line in lines:
        device = _DEVICE.fullmatch(line)
        if device:
            gpus = sum(end.isdigit() for end in ends.values())
            ends[device[1]] = str(gpus) if _BUS.search(device[2]) else f"NUMA{len(ends) - gpus}"
    processors = sum(not end.isdigit() for end in ends.values())
    ends = {name: HOST if processors == 1 and not end.isdigit() else end for name, end in ends.items()}
    if processors == len(ends):
        raise ValueError("no device has a PCI address, so GPUs and processors cannot be distinguished")
    direction, columns, seen = "", list[str](), dict[tuple[str, str, str], float]()
    expected: set[tuple[str, str]] = set()
    for line in lines:
        title = _MATRIX.match(line)
        words = line.split()
        if title:
            direction, columns = title[1][0], []
        elif direction and words[:1] == ["D/D"]:
            columns = words[1:]
            unknown = [word for word in columns if word not in ends]
            if unknown:
                raise ValueError(f"column is {unknown[0]}, expected a device of the list")
            expected |= {(direction, column) for column in columns}
        elif direction and columns and words and words[0] in ends:
            _check_cells(direction, words, columns, seen)
            yield from _matrix_row(direction, words, columns, ends)
        elif words and words[0] not in ends:
            direction = ""
    missing = expected - {(direction, row) for direction, row, _ in seen}
    if missing:
        direction, row = min(missing)
        raise ValueError(f"the matrix of {_CLASSES[direction]} copies has no row {row}: the output is cut short")


def _check_cells(direction: str, words: list[str], columns: list[str], seen: dict[tuple[str, str, str], float]) -> None:
    """Check that a row is new and agrees with mirrored bidirectional cells."""
    for column, rate in zip(columns, _cells(words[1:], len(columns), words[0]), strict=True):
        if (direction, words[0], column) in seen:
            raise ValueError(f"row {words[0]} is a duplicate")
        seen[direction, words[0], column] = rate
        mirrored = seen.get((direction, column, words[0]), rate)
        if direction == "B" and abs(mirrored - rate) > _MIRROR * rate:
            raise ValueError(
                f"bidirectional copies of {words[0]} and {column} are {mirrored:g} and {rate:g} GB/s, expected one rate"
            )


def _matrix_row(direction: str, words: list[str], columns: list[str], ends: dict[str, str]) -> Iterator[MeasuredGraph]:
    for column, rate in zip(columns, _cells(words[1:], len(columns), words[0]), strict=True):
        source, target = ends[words[0]], ends[column]
        if source == target or not (source.isdigit() or target.isdigit()) or rate != rate:
            continue
        # A bidirectional cell is the sum of both directions, and the mirrored cell repeats it.
        if direction == "B" and int(words[0]) > int(column):
            continue
        flows = ((source, target),) if direction == "U" else ((source, target), (target, source))
        yield MeasuredGraph(f"{_CLASSES[direction]} {words[0]} {column}", flows, rate * 1e9, "independent")
