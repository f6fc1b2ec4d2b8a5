"""Reader of rocm_bandwidth_test."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.memory import HOST
from fabricast.sources.copies import check_end, rate_facts
from fabricast.sources.text import Format, Reading, Text

_BANDWIDTH_TEST = "RocmBandwidthTest"
_DEVICE = re.compile(r"\s*Device:\s+(\d+),\s*(.*?)\s*$")
_BUS = re.compile(r",\s*([0-9a-fA-F]{1,4}:[0-9a-fA-F.:]+)$")
_VERSION = re.compile(r"RocmBandwidthTest Version: ?([\d.]{1,20})")
#: Largest relative difference of the two cells of a bidirectional pair, which report one measurement.
_MIRROR = 0.01
#: "Inter-Device Access"; in version 2.0.1 "Device Access".
_TITLE_OF_ACCESS = "Device Access"
_CLASSES = {"U": "unidirectional", "B": "bidirectional"}
#: Names of GPUs, for lists without addresses.
_GPU_NAME = re.compile(
    r"^(?!.*(?:Ryzen|EPYC|Threadripper|with Radeon)).*(?:\bRadeon\b|\bInstinct\b|\bgfx\d|\bNavi\b|\bVega\b)"
)
_MATRIX = re.compile(r"\s*(Unidirectional|Bi?directional) copy peak bandwidth GB/s")


def _read(text: Text) -> Iterator[Reading]:
    check_end(text)
    version = _VERSION.search(text.clean)
    program = "rocm_bandwidth_test" if version is None else f"rocm_bandwidth_test {version[1]}"
    rates = list(rate_facts(text, program, _graphs(text.clean_lines)))
    wrong = list(_wrong_data(text, program))
    if not (rates or wrong):
        raise text.error("contains no copies of rocm_bandwidth_test between GPUs or of pinned host memory")
    yield Reading([*_devices(text, program), *_access(text, program), *rates, *wrong], program=program)


def _wrong_data(text: Text, program: str) -> Iterator[Fact]:
    """Yield that copies of a validation (-v) arrive with wrong data."""
    ends = _ends(text.clean_lines)
    columns: list[str] = []
    for number, line in enumerate(text.clean_lines, start=1):
        words = line.split()
        if words[:1] == ["D/D"]:
            columns = words[1:]
        elif len(words) > 1 and words[0] in ends and "FAIL" in words[1:]:
            column = columns[words.index("FAIL") - 1] if len(columns) == len(words) - 1 else ""
            pair = f"{ends[words[0]]}>{ends[column]}" if column in ends else f"of device {words[0]}"
            text_of = f"copies {pair} of {program} arrive with wrong data (validation FAIL)"
            yield text.fact(Quantity.WRONG_RESULTS, text_of, number, program)
            return


def _access(text: Text, program: str) -> Iterator[Fact]:
    """Yield whether pairs of GPUs have access to each other."""
    gpus = _ends(text.clean_lines)
    columns: list[str] = []
    is_access = False
    for number, line in enumerate(text.clean_lines, start=1):
        words = line.split()
        if _TITLE_OF_ACCESS in line:
            is_access, columns = True, []
        elif is_access and words[:1] == ["D/D"]:
            columns = words[1:]
        elif is_access and columns and words and gpus.get(words[0], "").isdigit():
            for column, cell in zip(columns, words[1:], strict=False):
                pair = (gpus[words[0]], gpus.get(column, ""))
                if pair[1].isdigit() and pair[0] != pair[1]:
                    reason = "" if cell == "1" else "no inter-device access"
                    yield text.fact(Quantity.PEER_ACCESS, reason, number, program, subject=pair)
        elif is_access and columns and words and words[0] not in gpus:
            return


def _devices(text: Text, program: str) -> Iterator[Fact]:
    """Yield models and addresses of the GPUs, which are numbered in the order of their lines."""
    gpus, seen = 0, set[str]()
    is_gpu = _gpu_pattern(text.clean_lines)
    for number, line in enumerate(text.clean_lines, start=1):
        device = _DEVICE.fullmatch(line)
        bus = None if device is None else _BUS.search(device[2])
        # Several runs in one file repeat the list.
        if device is not None and device[1] not in seen and is_gpu.search(device[2]) is not None:
            seen.add(device[1])
            subject = (str(gpus),)
            gpus += 1
            if bus is not None:
                yield text.fact(Quantity.GPU_ADDRESS, bus[1], number, program, subject=subject)
            model = device[2].split(",")[0].strip()
            yield text.fact(Quantity.GPU_MODEL, model, number, program, subject=subject)


def _gpu_pattern(lines: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of GPUs: their addresses, or in lists without addresses their names."""
    devices = (device[2] for line in lines if (device := _DEVICE.fullmatch(line)) is not None)
    return _BUS if any(_BUS.search(one) for one in devices) else _GPU_NAME


def _ends(lines: Sequence[str]) -> dict[str, str]:
    """Return the name of each device: the number of a GPU, or the NUMA node of a processor."""
    ends: dict[str, str] = {}
    is_gpu = _gpu_pattern(lines)
    for line in lines:
        device = _DEVICE.fullmatch(line)
        if device and device[1] not in ends:
            gpus = sum(end.isdigit() for end in ends.values())
            ends[device[1]] = str(gpus) if is_gpu.search(device[2]) else f"NUMA{len(ends) - gpus}"
    return ends


def _graphs(lines: Sequence[str]) -> Iterator[MeasuredGraph]:
    """Yield the copies between GPUs and with host memory; copies within one device are skipped.

    Devices without a PCI address are processors. The memory of the only one is `HOST`, the memory next to the GPU of
    the copy; otherwise it is named after its NUMA node (``NUMA0``).
    """
    ends = _ends(lines)
    processors = sum(not end.isdigit() for end in ends.values())
    ends = {name: HOST if processors == 1 and not end.isdigit() else end for name, end in ends.items()}
    if processors == len(ends):
        raise ValueError("no device has a PCI address or a known name, so GPUs and processors cannot be distinguished")
    direction, columns, seen = "", list[str](), dict[tuple[str, str, str], float]()
    expected: set[tuple[str, str]] = set()
    for number, line in enumerate(lines, start=1):
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
            yield from _matrix_row(direction, words, columns, ends, number)
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


def _matrix_row(
    direction: str, words: list[str], columns: list[str], ends: dict[str, str], line: int
) -> Iterator[MeasuredGraph]:
    for column, rate in zip(columns, _cells(words[1:], len(columns), words[0]), strict=True):
        source, target = ends[words[0]], ends[column]
        if source == target or not (source.isdigit() or target.isdigit()) or rate != rate:
            continue
        # A bidirectional cell is the sum of both directions, and the mirrored cell repeats it.
        if direction == "B" and int(words[0]) > int(column):
            continue
        flows = ((source, target),) if direction == "U" else ((source, target), (target, source))
        yield MeasuredGraph(f"{_CLASSES[direction]} {words[0]} {column}", flows, rate * 1e9, "independent", line=line)


FORMAT = Format(
    "rocm_bandwidth_test",
    Content.COPIES,
    "rocm-bandwidth-test > rocm.txt",
    "Unidirectional copy peak bandwidth GB/s",
    lambda text: _BANDWIDTH_TEST in text.raw,
    _read,
    "rocm_bandwidth_test.txt",
    versions="2.0 to 2.6",
)
