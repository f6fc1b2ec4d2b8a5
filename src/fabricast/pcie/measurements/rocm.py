"""Reader for the output of rocm_bandwidth_test."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.memory import HOST

__all__ = ["is_rocm_output", "read_rocm_output"]

_BANDWIDTH_TEST = "RocmBandwidthTest"
_DEVICE = re.compile(r"\s*Device:\s+(\d+),\s*(.*?)\s*$")
_BUS = re.compile(r",\s*[0-9a-fA-F]{1,4}:[0-9a-fA-F.:]+$")
#: Largest relative difference of the two cells of a bidirectional pair, which report one measurement.
_MIRROR = 0.01
_CLASSES = {"U": "unidirectional", "B": "bidirectional"}
_MATRIX = re.compile(r"\s*(Unidirectional|Bi?directional) copy peak bandwidth GB/s")


def is_rocm_output(text: str) -> bool:
    """Return whether a text is the output of rocm_bandwidth_test."""
    return _BANDWIDTH_TEST in text


def read_rocm_output(text: str) -> list[MeasuredGraph]:
    """Read the copies between GPUs and with host memory from output of rocm_bandwidth_test.

    Copies within one device are skipped. If the program lists one processor, its memory is `HOST`, the memory next to
    the GPU of the copy; otherwise it is named after its NUMA node (``NUMA0``).

    Format as printed in the documentation and issues of ROCm/rocm_bandwidth_test.

    >>> text = '''RocmBandwidthTest Version: 2.6.0
    ... Device: 0,  AMD EPYC 9554
    ... Device: 1,  AMD Instinct MI210,  05:0.0
    ... Unidirectional copy peak bandwidth GB/s
    ... D/D  0     1
    ... 0    N/A   25.0
    ... 1    27.0  540.8
    ... '''
    >>> [(one.flows, one.total_bytes_per_s / 1e9) for one in read_rocm_output(text)]
    [((('H', '0'),), 25.0), ((('0', 'H'),), 27.0)]
    """
    return list(_bandwidth_test(text.splitlines()))


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


def _cells(words: list[str], expected: int, row: str) -> list[float]:
    if len(words) != expected:
        raise ValueError(f"row {row} has {len(words)} values, expected {expected}")
    return [math.nan if word == "N/A" else float(word) for word in words]


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
