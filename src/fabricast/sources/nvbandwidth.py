"""Reader of nvbandwidth: matrices in text and JSON."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Fact, Kind, Quantity
from fabricast.inputs.files import parse_json
from fabricast.pcie.measurements.measured_graph import CALIBRATION, MeasuredGraph
from fabricast.pcie.topology.memory import HOST
from fabricast.sources.bandwidth_matrices import (
    Cell,
    check_complete,
    check_unit,
    checked_cells,
    number_of,
    read_matrix,
    table_of,
)
from fabricast.sources.copies import check_end, rate_facts
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "nvbandwidth"
_VERSION = re.compile(r"(?:nvbandwidth Version:|\"git_version\" ?:) ?\"?v?([\d.]{1,20})")
_DEVICE = re.compile(r"^Device (\d{1,3}): ([^(\n]{1,80}?)(?: \(([0-9a-fA-F:.]+)\))?\s*$")
#: GPU of a process of several hosts, which has the number of its process.
_OF_PROCESS = re.compile(
    r"^Process (\d{1,5}) \([\w.-]{1,100}\): device \d{1,3}: ([^(\n]{1,80}?)(?: \([0-9a-fA-F:.]+\))?\s*$"
)
_RUNNING = re.compile(r"Running (\S+?)\.\s*$")
#: Bidirectional tests of newer versions print three matrices: one for each copy and one for their total.
_TITLE = re.compile(r"memcpy .*?(?:\b(Read1|Read2|Write1|Write2|Total) )?bandwidth\b")
_WAIVED = re.compile(r"^Waiving (\w{1,80})\.")
_WRONG_DATA = "Invalid value when checking the pattern"
_SUM = re.compile(r"SUM (\S+) ([0-9.]+)\s*$")
_OBJECT = re.compile(r"\s*\{\s*[\"}]")
_JSON = re.compile(r"^\s*\{", re.MULTILINE)
#: Copy-engine tests in which each cell is a single copy or a bidirectional pair.
_PAIRS = re.compile(r"device_to_device_(bidirectional_)?memcpy_(read|write)_ce(_total)?")
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
_Tests = dict[str, list[Cell]]
#: Call of CUDA that fails.
_CUDA_ERROR = re.compile(r"\[(CUDA_ERROR_\w{1,40})\].{0,60} in expression (\w{1,60})")


def _is_json(text: Text) -> bool:
    # A Python dictionary, as training programs print it, has other quotation marks.
    return _OBJECT.match(text.raw) is not None or ('"testcases"' in text.raw and _JSON.search(text.raw) is not None)


def _is_output(text: Text) -> bool:
    if _is_json(text) or ("memcpy" in text.raw and ("Running " in text.raw or "SUM " in text.raw)):
        return True
    return "nvbandwidth Version:" in text.raw


def _read(text: Text) -> Iterator[Reading]:
    check_end(text)
    version = _VERSION.search(text.clean)
    program = _PROGRAM if version is None else f"{_PROGRAM} {version[1]}"
    reading = Reading(program=program)
    tests: _Tests = {}
    for read in _of_json(text) if _is_json(text) else _of_text(text.clean_lines):
        if isinstance(read, InputError):
            reading.problems.append(text.error(f"is not valid output of {_PROGRAM}: {read.reason}", read.line))
        elif read[0].test in tests:
            first = read[0]
            message = f"'{first.test}' from {first.row} to {first.column} is a duplicate, expected each test once"
            reading.problems.append(text.error(message, first.line))
        else:
            tests[read[0].test] = read
    reading.facts += [*_statements(text), *_errors_of_cuda(text)]
    if not tests and reading.facts:
        reading.facts += _devices(text)
        yield reading
        return
    if not tests:
        raise (
            reading.problems[0]
            if reading.problems
            else text.error("contains no bandwidth matrix, expected at least one")
        )
    reading.facts += [*_devices(text), *rate_facts(text, program, _graphs(tests))]
    cells = [cell for of_test in tests.values() for cell in of_test]
    reading.facts.append(text.fact(Quantity.TABLE, table_of(cells), cells[0].line, program, kind=Kind.MEASURED))
    yield reading


def _errors_of_cuda(text: Text) -> Iterator[Fact]:
    """Yield the call of CUDA with which the program ends."""
    for number, line in text.lines(lambda line: "[CUDA_ERROR_" in line):
        if (match := _CUDA_ERROR.search(line)) is not None:
            words = f"nvbandwidth ends with {match[1]} in {match[2]}"
            subject = ("shared_memory_of_hosts",) if match[2].startswith("cuMem") else ("cuda_error",)
            yield text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=subject)
            return


def _devices(text: Text) -> Iterator[Fact]:
    """Yield models and PCI addresses of the GPUs."""
    for line_number, line in enumerate(text.clean_lines, start=1):
        if (match := _DEVICE.match(line)) is not None:
            yield text.fact(Quantity.GPU_MODEL, match[2].strip(), line_number, _PROGRAM, subject=(match[1],))
            if match[3] is not None:
                yield text.fact(Quantity.GPU_ADDRESS, match[3], line_number, _PROGRAM, subject=(match[1],))
        elif (match := _OF_PROCESS.match(line)) is not None:
            yield text.fact(Quantity.GPU_MODEL, match[2].strip(), line_number, _PROGRAM, subject=(match[1],))


def _of_text(lines: Sequence[str]) -> Iterator[list[Cell] | InputError]:
    """Yield the cells of each matrix, or the reason why it cannot be read."""
    name, sums = "", any(line.startswith("SUM ") for line in lines)
    for number, line in enumerate(lines):
        running = _RUNNING.match(line)
        if running:
            name = running[1]
            if not any(map(str.strip, lines[number + 1 :])):
                yield InputError(f"the output ends in test '{name}'", line=number + 1)
        title = _TITLE.match(line)
        if title is None:
            continue
        try:
            if cells := _cells_below(lines, number, name, title[1], sums=sums):
                yield cells
        except InputError as error:
            yield InputError(error.reason, line=error.line or number + 1)


def _cells_below(lines: Sequence[str], number: int, running: str, part: str | None, *, sums: bool) -> list[Cell]:
    """Return the measured cells of the matrix below a title."""
    check_unit(lines[number], ("GB/s",))
    columns, rows = read_matrix(lines, number + 1) if number + 1 < len(lines) else ([], [])
    test = _test_name(lines, number, running, part)
    check_complete(test, columns, [row for row, *_ in rows], is_square=test.startswith("device_to_device"))
    if sums:
        _check_sum(test, [value for _, row, _ in rows for value in row], _until_next(lines, number))
    cells = [
        Cell(_PROGRAM, test, row, column, value * 1e9, "bytes/s", line)
        for row, values, line in rows
        for column, value in zip(columns, values, strict=True)
    ]
    return list(checked_cells(cells))


def _until_next(lines: Sequence[str], number: int) -> list[str]:
    """Return the lines below the title of a matrix, up to the next test."""
    below = itertools.takewhile(lambda line: not re.match("memcpy |Running ", line), lines[number + 1 :])
    return list(below)


def _test_name(lines: Sequence[str], number: int, running: str, part: str | None) -> str:
    """Return the name of the test of a matrix, from the sum below it or from the line that announces it.

    The sum has the complete name, also if the announcement was cut.
    """
    below = next((match for line in _until_next(lines, number) if (match := _SUM.match(line))), None)
    if below is not None:
        return below[1]
    if not running:
        raise InputError("a matrix has no test: 'Running' above and 'SUM' below are missing")
    return f"{running}_{part.lower()}" if part else running


def _check_sum(test: str, values: list[float], below: Sequence[str]) -> None:
    """Raise an error if the printed sum of a matrix is wrong or missing."""
    sums = [match for line in below if (match := _SUM.match(line)) is not None]
    if not sums:
        raise InputError(f"the line 'SUM {test}' below the matrix of '{test}' is missing: the output is truncated")
    _check_total(test, values, float(sums[0][2]))


def _check_total(test: str, values: list[float], printed: float) -> None:
    total = math.fsum(value for value in values if value == value)
    # Every number is rounded to two decimal places.
    if abs(total - printed) > 0.005 * (len(values) + 1) + 1e-6 * printed:
        raise InputError(f"the sum of '{test}' is {printed:g}, but its values add up to {total:.2f}")


def _of_json(text: Text) -> Iterator[list[Cell] | InputError]:
    """Yield the cells of each test of a JSON document, or the reason why it cannot be read."""
    document = parse_json(_json_part(text.clean), text.path)
    try:
        cases = list(document.get("nvbandwidth", document).get("testcases", []))
    except (AttributeError, TypeError) as error:
        raise text.error(f"is not valid output of {_PROGRAM}: {error}") from error
    for case in cases:
        try:
            if cells := _cells_of_case(case):
                yield cells
        except InputError as error:
            yield error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            yield InputError(str(error))


def _json_part(text: str) -> str:
    """Return the JSON of a text, with as many lines before it as in the text."""
    match = _JSON.search(text)
    begin, end = match.start() if match else 0, text.rfind("\n}") + 2
    return "\n" * text.count("\n", 0, begin) + text[begin : end if end > begin + 1 else None]


def _cells_of_case(case: dict[str, Any]) -> list[Cell]:
    """Return the measured cells of a test; none if it has no matrix."""
    description = str(case.get("bandwidth_description", "(GB/s)"))
    matrix = case.get("bandwidth_matrix", [])
    if not matrix:
        return []
    name, status = str(case["name"]), str(case.get("status", "Passed"))
    if status != "Passed":
        raise InputError(f"test '{name}' has a matrix and the status '{status[:20]}', expected Passed")
    check_unit(description)
    columns, rows = ([str(number) for number in range(count)] for count in (len(matrix[0]), len(matrix)))
    check_complete(name, columns, rows, is_square=name.startswith("device_to_device"))
    values = [[number_of(str(cell)) for cell in cells] for cells in matrix]
    printed = case.get("sum")
    if isinstance(printed, int | float) and math.isfinite(printed):
        _check_total(name, [value for of_row in values for value in of_row], float(printed))
    wrong = next((row for row, of_row in enumerate(values) if len(of_row) != len(columns)), None)
    if wrong is not None:
        raise InputError(f"row {wrong} of '{name}' has {len(values[wrong])} values, expected {len(columns)}")
    unit, scale = (
        ("s", 1e-6 if "(us)" in description else 1e-9)
        if "(us)" in description or "(ns)" in description
        else ("bytes/s", 1e9)
    )
    return list(
        checked_cells(
            [
                Cell(_PROGRAM, name, str(row), column, value * scale, unit, 0)
                for row, of_row in enumerate(values)
                for column, value in zip(columns, of_row, strict=True)
            ]
        )
    )


def _graphs(tests: _Tests) -> Iterator[MeasuredGraph]:
    """Yield the copies by copy engines between GPUs and of host memory."""
    rates = {name: cells for name, cells in tests.items() if cells[0].unit == "bytes/s"}
    for name, cells in rates.items():
        for cell in cells:
            if flows := _copies(name, cell.row, cell.column):
                yield _graph(f"{name} {cell.row} {cell.column}", flows, cell.value, cell.line)
    for name, is_read in _TOGETHER.items():
        if cells := rates.get(name, []):
            ends = tuple((HOST, cell.column) if is_read else (cell.column, HOST) for cell in cells)
            total = sum(cell.value for cell in cells)
            yield MeasuredGraph(
                name, ends, total, "independent", CALIBRATION, line=cells[0].line, statistic="sum_of_copies"
            )
    yield from _both_ways(rates)
    yield from _one_and_all(rates)


def _statements(text: Text) -> Iterator[Fact]:
    """Yield tests that the program left out, and copies with wrong data."""
    waived = [(number, match[1]) for number, line in text.lines() if (match := _WAIVED.search(line)) is not None]
    if waived:
        names = ", ".join(dict.fromkeys(name for _, name in waived[:3]))
        words = f"nvbandwidth left out {names}: no pair of GPUs has peer access, or the machine has too few GPUs"
        yield text.fact(Quantity.NOTE, words, waived[0][0], _PROGRAM)
    for number, line in text.lines():
        if _WRONG_DATA in line:
            words = "copies of nvbandwidth arrive with wrong data"
            yield text.fact(Quantity.WRONG_RESULTS, words, number, _PROGRAM)
            return


def _graph(name: str, flows: tuple[tuple[str, str], ...], rate: float, line: int) -> MeasuredGraph:
    return MeasuredGraph(name, flows, rate, "independent", CALIBRATION, line=line)


def _copies(test: str, row: str, column: str) -> tuple[tuple[str, str], ...]:
    """Return the copies of a matrix cell; empty if the cell is not used."""
    if test in ("host_to_device_memcpy_ce", "device_to_host_memcpy_ce"):
        return ((HOST, column),) if test.startswith("host") else ((column, HOST),)
    match = _PAIRS.fullmatch(test)
    if match is None or row == column:
        return ()
    if match[1]:
        # A separate test prints the total of both directions; the other tests print one direction.
        return ((row, column), (column, row)) if match[3] else ()
    return ((row, column),) if match[2] == "write" else ((column, row),)


def _both_ways(tests: _Tests) -> Iterator[MeasuredGraph]:
    """Yield bidirectional copies of host memory from pairs of tests, one per direction."""
    for reads, writes, together in _BOTH_WAYS:
        read = {cell.column: cell.value for cell in tests.get(reads, [])}
        written = {cell.column: cell.value for cell in tests.get(writes, [])}
        if not read or read.keys() != written.keys():
            continue
        line = tests[reads][0].line
        for gpus in [list(read)] if together else [[gpu] for gpu in read]:
            flows = tuple(flow for gpu in gpus for flow in ((HOST, gpu), (gpu, HOST)))
            total = sum(read[gpu] + written[gpu] for gpu in gpus)
            name = f"{reads} and back" + ("" if together else f" {gpus[0]}")
            yield MeasuredGraph(name, flows, total, "independent", CALIBRATION, line=line, statistic="sum_of_copies")


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
            yield MeasuredGraph(f"{name} {hub}", flows, cell.value, program, line=cell.line)


FORMAT = Format(
    _PROGRAM,
    Content.COPIES,
    "nvbandwidth > nvbandwidth.txt",
    "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
    _is_output,
    _read,
    "nvbandwidth.txt",
    versions="0.2 to 0.10, text and JSON, with and without the lines `Running ...`",
)
