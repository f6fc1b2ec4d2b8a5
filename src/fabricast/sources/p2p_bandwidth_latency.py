"""Reader of p2pBandwidthLatencyTest of the CUDA samples: peer access, rates and latencies of all pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Fact, Kind, Quantity
from fabricast.inputs.gpus import is_known_gpu
from fabricast.pcie.measurements.measured_graph import CALIBRATION, MeasuredGraph
from fabricast.sources.bandwidth_matrices import Cell, check_complete, check_unit, checked_cells, read_matrix, table_of
from fabricast.sources.copies import check_end, rate_facts
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "p2pBandwidthLatencyTest"
#: Bus, device and domain in hexadecimal digits.
_DEVICE = re.compile(
    r"^Device: (\d+), ([^,]{1,80}), pciBusID: ([0-9a-f]+), pciDeviceID: ([0-9a-f]+), pciDomainID: ?([0-9a-f]+)"
)
#: Line of a report, such as "3x RTX 4090", where the lines of the program about its devices are left out.
_STATED_MODEL = re.compile(r"^\W{0,6}(?:(?:GPUs?|Hardware)\W{1,6})?(\d{1,2}) ?[x\u00d7] ?([A-Z][\w -]{2,60}?)\W{0,3}$")
_ACCESS = re.compile(r"^Device=(\d+) (CAN|CANNOT) Access Peer Device=(\d+)")
_HEADER = re.compile(r"(?:\s*D\\D|\s+GPU)\s+0\b")
_ENDS_IN_MATRIX = re.compile(r"\d{1,4}\s+[\d.]{1,12}")
_REASON = "CANNOT Access Peer"
#: Titles of the matrices of copies through host memory, of one way and of both ways.
_STAGED = {
    "Unidirectional P2P=Disabled": Quantity.STAGED_RATE,
    "Bidirectional P2P=Disabled": Quantity.STAGED_RATE_BOTH_WAYS,
}


_PEER = "Access Peer Device="
_LATENCIES = re.compile(r"^\s{0,8}P2P=Enabled Latency", re.MULTILINE)


def _is_output(text: Text) -> bool:
    if "D\\D" in text.raw and ("P2P" in text.raw or _PEER in text.raw):
        return True
    # Only the matrices of latencies, or only the lines before the tables.
    return _LATENCIES.search(text.raw) is not None or text.raw.count(_PEER) > 1


def _read(text: Text) -> Iterator[Reading]:
    check_end(text)
    reading = Reading(program=_PROGRAM)
    matrices: dict[str, list[Cell]] = {}
    facts = list(_stated(text))
    refused = {fact.subject for fact in facts if fact.quantity is Quantity.PEER_ACCESS and fact.value}
    for read in _matrices(text.clean_lines, refused):
        if isinstance(read, InputError):
            reading.problems.append(text.error(f"is not valid output of {_PROGRAM}: {read.reason}", read.line))
        elif read and read[0].test in matrices:
            first = read[0]
            message = f"'{first.test}' from {first.row} to {first.column} is a duplicate, expected each test once"
            reading.problems.append(text.error(message, first.line))
        elif read:
            matrices[read[0].test] = read
    cells = [cell for of_matrix in matrices.values() for cell in of_matrix]
    if (stopped := _stopped(text, reading.problems)) is not None:
        facts.append(stopped)
    if not cells and stopped is not None:
        yield Reading(facts, program=_PROGRAM)
        return
    if not cells and facts:
        reading.facts += facts
        yield reading
        return
    if not cells:
        raise (
            reading.problems[0]
            if reading.problems
            else text.error("contains no bandwidth matrix, expected at least one")
        )
    facts += [*rate_facts(text, _PROGRAM, _graphs(cells)), *_pairs(text, cells)]
    if not any(fact.quantity is Quantity.GPU_MODEL for fact in facts):
        facts += _models_of_report(text, list(dict.fromkeys(cell.row for cell in cells)))
    facts.append(text.fact(Quantity.TABLE, table_of(cells), cells[0].line, _PROGRAM, kind=Kind.MEASURED))
    reading.facts += facts
    yield reading


def _stopped(text: Text, problems: Sequence[InputError]) -> Fact | None:
    """Return the cause that the program ends in its first matrix or before a later one; None if the text goes on.

    It prints a matrix when all of its copies are measured, first those through host memory.
    """
    written = [(number, line.strip()) for number, line in enumerate(text.clean_lines, start=1) if line.strip()]
    number, last = written[-1]
    titles = [line for _, line in written if "Matrix (" in line]
    has_access = any(match[2] == "CAN" for _, line in written if (match := _ACCESS.match(line)) is not None)
    if not titles and any("Connectivity Matrix" in line for _, line in written):
        place = "before the first row of its matrices"
    elif titles and (last.startswith("D\\D") or last == titles[-1]):
        place = f"before the first row of '{titles[-1]}'"
    elif len(titles) == 1 and "P2P=Disabled" in titles[0] and has_access and _ENDS_IN_MATRIX.match(last):
        place = f"{'in' if problems else 'after'} '{titles[0]}'{'' if problems else ', where direct copies follow'}"
    else:
        return None
    words = f"the output ends {place}: the program hangs or was stopped, or the file is cut"
    return text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=("stopped",))


def _stated(text: Text) -> Iterator[Fact]:
    """Yield models and addresses of the GPUs, and peer access of pairs, which the program tried."""
    pairs: set[tuple[str, str]] = set()
    for number, line in enumerate(text.clean_lines, start=1):
        if (device := _DEVICE.match(line)) is not None:
            domain, bus, slot = (int(device[group], 16) for group in (5, 3, 4))
            address = f"{domain:04x}:{bus:02x}:{slot:02x}.0"
            yield text.fact(Quantity.GPU_ADDRESS, address, number, _PROGRAM, subject=(device[1],))
            yield text.fact(Quantity.GPU_MODEL, device[2].strip(), number, _PROGRAM, subject=(device[1],))
        elif (access := _ACCESS.match(line)) is not None and (access[1], access[3]) not in pairs:
            pair = (access[1], access[3])
            pairs.add(pair)
            reason = "" if access[2] == "CAN" else _REASON
            yield text.fact(Quantity.PEER_ACCESS, reason, number, _PROGRAM, subject=pair, kind=Kind.MEASURED)


def _models_of_report(text: Text, gpus: Sequence[str]) -> Iterator[Fact]:
    """Yield the model that a line of its author states for as many GPUs as the matrices have."""
    for number, line in enumerate(text.clean_lines, start=1):
        match = _STATED_MODEL.match(line)
        if match is not None and int(match[1]) == len(gpus) and is_known_gpu(match[2]):
            for gpu in gpus:
                yield text.fact(Quantity.GPU_MODEL, match[2], number, _PROGRAM, subject=(gpu,))
            return


def _matrices(lines: Sequence[str], refused: set[tuple[str, ...]]) -> Iterator[list[Cell] | InputError]:
    """Yield the measured cells of each matrix, or the reason why it cannot be read.

    Pairs without peer access are staged through host memory, also in matrices titled P2P=Enabled.
    """
    title = ""
    for number, line in enumerate(lines):
        if "Connectivity Matrix" in line:
            title = ""
        elif "Matrix (" in line:
            title = line.strip()
        try:
            if "Matrix (" in line and title:
                check_unit(title)
            if title and _HEADER.match(line):
                yield _cells(lines, number, title, refused if "P2P=Enabled" in title else set())
        except InputError as error:
            yield InputError(error.reason, line=error.line or number + 1)
            title = ""


def _cells(lines: Sequence[str], number: int, title: str, refused: set[tuple[str, ...]]) -> list[Cell]:
    columns, rows = read_matrix(lines, number)
    check_complete(title, columns, [row for row, *_ in rows], is_square=True)
    unit = "s" if "(us)" in title or "(ns)" in title else "bytes/s"
    scale = 1e-6 if "(us)" in title else 1e-9 if "(ns)" in title else 1e9
    return list(
        checked_cells(
            [
                Cell(_PROGRAM, title, row, column, value * scale, unit, line)
                for row, values, line in rows
                for column, value in zip(columns, values, strict=True)
                if (row, column) not in refused
            ]
        )
    )


def _graphs(cells: Sequence[Cell]) -> Iterator[MeasuredGraph]:
    """Yield the direct copies: single ones, and both directions of a pair."""
    for cell in cells:
        if cell.row != cell.column and "P2P=Enabled" in cell.test and cell.unit == "bytes/s":
            pair = (cell.row, cell.column)
            flows = (pair,) if cell.test.startswith("Unidirectional") else (pair, pair[::-1])
            name = f"{cell.test} {cell.row} {cell.column}"
            yield MeasuredGraph(name, flows, cell.value, "independent", CALIBRATION, line=cell.line)


def _pairs(text: Text, cells: Sequence[Cell]) -> Iterator[Fact]:
    """Yield rates of copies through host memory, and latencies of direct copies."""
    for cell in cells:
        if cell.row == cell.column:
            continue
        quantity = next((one for words, one in _STAGED.items() if cell.test.startswith(words)), None)
        if cell.unit == "s":
            quantity = Quantity.LATENCY if "P2P=Enabled Latency" in cell.test else None
        if quantity is not None:
            yield text.fact(
                quantity,
                cell.value,
                cell.line,
                _PROGRAM,
                subject=(cell.row, cell.column),
                unit=cell.unit,
                kind=Kind.MEASURED,
            )


FORMAT = Format(
    _PROGRAM,
    Content.COPIES,
    "p2pBandwidthLatencyTest > p2p.txt",
    "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)",
    _is_output,
    _read,
    "p2p.txt",
    versions="CUDA samples: matrices of bandwidth and latency, and lines about peer access",
)
