"""Reader of the bandwidth matrices that nvbandwidth and the CUDA samples print."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from fabricast.core.errors import InputError
from fabricast.inputs.files import parse_json

__all__ = [
    "BANDWIDTH_COLUMNS",
    "is_bandwidth_matrix",
    "matrix_programs",
    "pairs_with_access",
    "pairs_without_access",
    "parse_bandwidths",
]

#: Columns of tables of bandwidths.
BANDWIDTH_COLUMNS = ["program", "test", "row", "column", "value", "unit", "line"]
#: Plausible rates and latencies; values outside indicate damaged output.
_BOUNDS = {"bytes/s": (1e3, 1e15), "s": (1e-12, 1e3)}
#: First words of the lines below a matrix.
_END = re.compile(r"SUM |MIN |MAX |AVG |Running |memcpy |.*Matrix \(|\s*P2P=")
_SUM = re.compile(r"SUM (\S+) ([0-9.]+)\s*$")
_JSON = re.compile(r"^\s*\{", re.MULTILINE)
_Row = tuple[str, str, str, str, float, str, int]


def _number(text: str) -> float:
    """Return the number of a cell; NaN for a pair that was not measured."""
    if text.upper() == "N/A":
        return math.nan
    number = float(text)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(
            f"a cell is '{text[:20]}', expected a rate of at least 0, or N/A for a copy without measurement"
        )
    return number


def _matrix(lines: list[str], start: int) -> tuple[list[str], list[tuple[str, list[float], int]]]:
    """Return column names and rows of a matrix whose header is line `start`, and the line number of each row."""
    columns = [word for word in lines[start].split() if word not in ("D\\D", "GPU", "CPU")]
    for word in columns:
        if not re.fullmatch("[0-9]{1,4}", word):
            raise ValueError(f"the name of a column is '{word}', expected a device number")
    rows: list[tuple[str, list[float], int]] = []
    for number, line in enumerate(lines[start + 1 :], start + 2):
        words = line.split()
        if not words or len(rows) == len(columns) or _END.match(line):
            break
        if not words[0].isdigit():
            # A warning of another program between two rows.
            continue
        if len(words) != len(columns) + 1:
            raise ValueError(f"row {words[0][:20]} has {len(words) - 1} values, expected {len(columns)}")
        if words[0] in (row for row, *_ in rows):
            raise ValueError(f"row {words[0]} is a duplicate")
        values = [_number(word) for word in words[1:]]
        for column, value in zip(columns, values, strict=True):
            if value == 0 and column != words[0]:
                raise ValueError(
                    f"the rate from {words[0]} to {column} is 0: repeat the copy, or write N/A to leave it out"
                )
        rows.append((words[0], values, number))
    return columns, rows


def _check_unit(title: str, known: tuple[str, ...] = ("GB/s", "us", "ns")) -> None:
    """Raise an error if the unit in the title of a matrix is not a known unit."""
    # The unit is the last word in brackets; other words such as (row) precede it.
    unit = (re.findall(r"\(([^()]*)\)", title) or ["no unit"])[-1]
    if unit not in known:
        raise ValueError(f"'{title.strip()[:80]}' has '{unit}', expected {' or '.join(known)}")


def _check_square(name: str, columns: list[str], rows: list[str]) -> None:
    """Raise an error if rows of a device-to-device matrix are missing."""
    if name.startswith("device_to_device") and rows != columns:
        raise ValueError(f"the matrix of '{name}' has {len(rows)} rows, expected {len(columns)}")
    if not rows:
        raise ValueError(f"the matrix of '{name}' has no rows, expected at least one")


def _unit(description: str) -> str:
    return "s" if re.search(r"\((us|ns)\)", description) else "bytes/s"


def _scale(description: str) -> float:
    return 1e-6 if "(us)" in description else 1e-9 if "(ns)" in description else 1e9


def _nvbandwidth_text(lines: list[str]) -> Iterator[_Row]:
    name, sums = "", any(line.startswith("SUM ") for line in lines)
    for number, line in enumerate(lines):
        running = re.match(r"Running (\S+?)\.\s*$", line)
        if running:
            name = running[1]
            if not any(map(str.strip, lines[number + 1 :])):
                raise ValueError(f"the output ends in test '{name}'")
        # Bidirectional tests of newer versions print three matrices: one for each copy and one for their total.
        title = re.match(r"memcpy .*?(?:\b(Read1|Read2|Write1|Write2|Total) )?bandwidth\b", line)
        if title is None:
            continue
        _check_unit(line, ("GB/s",))
        columns, rows = _matrix(lines, number + 1) if number + 1 < len(lines) else ([], [])
        test = _test_name(lines, number, name, title[1])
        _check_square(test, columns, [row for row, *_ in rows])
        values = [value for _, row, _ in rows for value in row]
        _check_sum(test, values, _until_next(lines, number) if sums else None)
        for row, cells, row_line in rows:
            for column, value in zip(columns, cells, strict=True):
                yield "nvbandwidth", test, row, column, value * 1e9, "bytes/s", row_line


def _until_next(lines: list[str], number: int) -> list[str]:
    """Return the lines below the title of a matrix, up to the next test."""
    below = itertools.takewhile(lambda line: not re.match("memcpy |Running ", line), lines[number + 1 :])
    return list(below)


def _test_name(lines: list[str], number: int, running: str, part: str | None) -> str:
    """Return the name of the test of a matrix, from the sum below it or from the line that announces it.

    The sum has the complete name, also if the announcement was cut.
    """
    below = next((match for line in _until_next(lines, number) if (match := _SUM.match(line))), None)
    if below is not None:
        return below[1]
    if not running:
        raise ValueError(f"line {number + 1} has a matrix without a test: 'Running' above and 'SUM' below are missing")
    return f"{running}_{part.lower()}" if part else running


def _check_sum(test: str, values: list[float], below: list[str] | None) -> None:
    """Raise an error if the printed sum of a matrix is wrong or missing.

    `below` contains the lines after the matrix; None if the output has no sums.
    """
    if below is None:
        return
    sums = [match for line in below if (match := _SUM.match(line)) is not None]
    if not sums:
        raise ValueError(f"the line 'SUM {test}' below the matrix of '{test}' is missing: the output is truncated")
    _check_total(test, values, float(sums[0][2]))


def _check_total(test: str, values: list[float], printed: float) -> None:
    total = math.fsum(value for value in values if value == value)
    # Every number is rounded to two decimal places.
    if abs(total - printed) > 0.005 * (len(values) + 1) + 1e-6 * printed:
        raise ValueError(f"the sum of '{test}' is {printed:g}, but its values add up to {total:.2f}")


def _nvbandwidth_json(document: dict[str, Any]) -> Iterator[_Row]:
    body: dict[str, Any] = document.get("nvbandwidth", document)
    for case in body.get("testcases", []):
        description = str(case.get("bandwidth_description", "(GB/s)"))
        matrix = case.get("bandwidth_matrix", [])
        if not matrix:
            continue
        name, status = str(case["name"]), str(case.get("status", "Passed"))
        if status != "Passed":
            raise ValueError(f"test '{name}' has a matrix and the status '{status[:20]}', expected Passed")
        _check_unit(description)
        _check_square(name, [str(column) for column in range(len(matrix[0]))], [str(row) for row in range(len(matrix))])
        printed = case.get("sum")
        if isinstance(printed, int | float) and math.isfinite(printed):
            _check_total(name, [_number(str(cell)) for cells in matrix for cell in cells], float(printed))
        for row, cells in enumerate(matrix):
            if len(cells) != len(matrix[0]):
                raise ValueError(f"row {row} of '{name}' has {len(cells)} values, expected {len(matrix[0])}")
            for column, cell in enumerate(cells):
                value = _number(str(cell)) * _scale(description)
                yield "nvbandwidth", name, str(row), str(column), value, _unit(description), 0


_PEER_ACCESS = re.compile(r"^Device=(\d+) CAN Access Peer Device=(\d+)", re.MULTILINE)
_NO_PEER_ACCESS = re.compile(r"^Device=(\d+) CANNOT Access Peer Device=(\d+)", re.MULTILINE)


def pairs_without_access(text: str) -> list[tuple[str, str]]:
    r"""Return the device numbers of each pair without peer access, as p2pBandwidthLatencyTest prints them.

    >>> pairs_without_access("Device=0 CANNOT Access Peer Device=1\nDevice=1 CAN Access Peer Device=0\n")
    [('0', '1')]
    """
    return list(dict.fromkeys(_NO_PEER_ACCESS.findall(text)))


def pairs_with_access(text: str) -> list[tuple[str, str]]:
    r"""Return the device numbers of each pair with peer access, as p2pBandwidthLatencyTest prints them.

    >>> pairs_with_access("Device=0 CANNOT Access Peer Device=1\nDevice=1 CAN Access Peer Device=0\n")
    [('1', '0')]
    """
    return list(dict.fromkeys(_PEER_ACCESS.findall(text)))


def _peer_test(lines: list[str]) -> Iterator[_Row]:
    title = ""
    # Pairs without peer access are staged through host memory, also in matrices titled P2P=Enabled.
    without_peer_access = set(pairs_without_access("\n".join(lines)))
    for number, line in enumerate(lines):
        if "Connectivity Matrix" in line:
            title = ""
        elif "Matrix (" in line:
            title = line.strip()
            _check_unit(title)
        if re.match(r"\s+(D\\D|GPU)\s+0", line) and title:
            columns, rows = _matrix(lines, number)
            if [row for row, *_ in rows] != columns:
                raise ValueError(f"the matrix of '{title}' has {len(rows)} rows, expected {len(columns)}")
            for row, values, row_line in rows:
                for column, value in zip(columns, values, strict=True):
                    if "P2P=Enabled" in title and (row, column) in without_peer_access:
                        continue
                    scaled = value * _scale(title)
                    yield "p2pBandwidthLatencyTest", title, row, column, scaled, _unit(title), row_line


def matrix_programs(text: str) -> tuple[str, ...]:
    """Return the programs that printed the bandwidth matrices of a text."""
    nvbandwidth = ("nvbandwidth",) if _is_json(text) or _is_nvbandwidth(text) else ()
    return nvbandwidth + (("p2pBandwidthLatencyTest",) if _is_peer_test(text) else ())


def is_bandwidth_matrix(text: str) -> bool:
    """Return whether a text is the output of nvbandwidth or p2pBandwidthLatencyTest."""
    return bool(matrix_programs(text))


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{") or ('"testcases"' in text and _JSON.search(text) is not None)


def _json_part(text: str) -> str:
    """Return the JSON of a text, with as many lines before it as in the text."""
    match = _JSON.search(text)
    begin, end = match.start() if match else 0, text.rfind("\n}") + 2
    return "\n" * text.count("\n", 0, begin) + text[begin : end if end > begin + 1 else None]


def _is_nvbandwidth(text: str) -> bool:
    return "memcpy" in text and ("Running " in text or "SUM " in text)


def _is_peer_test(text: str) -> bool:
    return "P2P" in text and "D\\D" in text


def parse_bandwidths(text: str, path: Path | None = None) -> pd.DataFrame:
    """Parse the bandwidth and latency matrices in the output of a benchmark."""
    try:
        if _is_json(text):
            rows = list(_nvbandwidth_json(parse_json(_json_part(text), path or "JSON")))
        elif _is_nvbandwidth(text) or _is_peer_test(text):
            lines = text.splitlines()
            rows = [*_nvbandwidth_text(lines), *_peer_test(lines)]
        else:
            raise InputError("is not output of nvbandwidth or p2pBandwidthLatencyTest", path=path)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"is not valid output of nvbandwidth or p2pBandwidthLatencyTest: {error}", path=path
        ) from error
    table = pd.DataFrame(rows, columns=BANDWIDTH_COLUMNS)
    duplicates = table[table.duplicated(["test", "row", "column"])]
    if len(duplicates):
        first = duplicates.iloc[0]
        raise InputError(
            f"'{first['test']}' from {first['row']} to {first['column']} is a duplicate, expected each test once",
            path=path,
        )
    # nvbandwidth prints N/A for pairs that were not measured; older versions print 0.
    table = table[table["value"].notna() & (table["value"] != 0)].reset_index(drop=True)
    least, most = (table["unit"].map(_BOUNDS).str[end] for end in (0, 1))
    wrong = table[~table["value"].between(least, most)]
    if len(wrong):
        first = wrong.iloc[0]
        raise InputError(
            f"{first['test']} is {first['value']:g} {first['unit']} from {first['row']} to {first['column']}, expected "
            f"{_BOUNDS[first['unit']][0]:g} to {_BOUNDS[first['unit']][1]:g}",
            path=path,
        )
    if table.empty:
        raise InputError("contains no bandwidth matrix, expected at least one", path=path)
    return table
