"""Reader of ``nvidia-smi topo -m``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Quantity
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.topology.path_classes import ClassMatrix
from fabricast.pcie.topology.tree import PATH_CLASSES
from fabricast.sources.nvidia_smi_p2p import lines_of_matrices
from fabricast.sources.text import Format, Reading, Text

#: Command on the line of the header.
_COMMAND = re.compile(r"^\W*nvidia-smi topo -\w+\s+(?=GPU0)")
_FIRST_ROW = re.compile(r"^GPU0\s+X\b")
_HEADER = re.compile(r"^\s*GPU0\b")
_GPU, _CARD = re.compile(r"GPU(\d{1,15})"), re.compile(r"NIC\d+|mlx\w+|bnxt\w+|hfi\w+|irdma\w+|i40iw\w+|rdmap\w+")
#: Names of network cards by their drivers.
_CARDS = ("NIC", "mlx", "bnxt", "hfi", "irdma", "i40iw", "rdmap")
_LINKS = re.compile(r"NV(\d{1,15})")
_NODE_NUMBER = re.compile(r"[0-9]{1,4}")
_OLD_CLASSES = {"SOC": "SYS"}
_CARD_NAME = re.compile(r"^\s*(NIC\d+):\s*(\S+)")
_MOST_GPUS = 256
#: The last line of the legend of -mp, which explains no NVLink, and the line that follows it in that of -m.
_LEGEND, _LEGEND_OF_LINKS = (re.compile(r"^\s*PIX\s+= ", re.MULTILINE), re.compile(r"^\s*NV#\s+= ", re.MULTILINE))
_WITHOUT_LINKS = CodedWarning(
    WarningCode.PEER_LINKS_UNKNOWN,
    "the legend explains no NVLink, as that of 'nvidia-smi topo -mp', which omits NVLink: use 'nvidia-smi topo -m'",
)


def _lines(text: Text) -> Iterator[tuple[int, str]]:
    """Yield the lines that may be of the matrix; those of the matrix of peer access are not."""
    if "GPU0" not in text.raw:
        return
    access = lines_of_matrices(text)
    has_cards = any(name in text.raw for name in _CARDS)
    for number, line in text.lines(lambda line: has_cards or "GPU" in line):
        if number not in access:
            # Pages print tables with vertical lines between the columns.
            yield number, _COMMAND.sub("", line.replace("|", "\t"))


def _is_matrix(text: Text) -> bool:
    return any((_HEADER.match(line) and "Affinity" in line) or _FIRST_ROW.match(line) for _, line in _lines(text))


def _matrix(text: Text) -> tuple[ClassMatrix, int]:
    """Return the matrix and the line of its header."""
    rows: dict[str, tuple[int, list[str]]] = {}
    columns: list[str] = []
    card_names: dict[str, str] = {}
    header = 0
    for number, line in _lines(text):
        words = line.split()
        if not words:
            continue
        if _HEADER.match(line) and not columns:
            columns = [word for word in words if _GPU.fullmatch(word) or _CARD.fullmatch(word)]
            header = number
        elif columns and words[0] in columns:
            _add_row(rows, words, len(columns), text, number)
        elif (match := _CARD_NAME.match(line)) is not None:
            card_names[match[1]] = match[2]
    if not columns:
        raise text.error("contains no header line with GPU0, expected output of 'nvidia-smi topo -m'")
    missing = [name for name in columns if name not in rows and _GPU.fullmatch(name)]
    filled = []
    if len(missing) == 1 and len(rows) > 1:
        # The matrix is symmetric.
        (name,) = missing
        rows[name] = (header, _column(name, columns, rows, text))
        note = f"the row of {name} is missing: its column has the same values, as the matrix is symmetric"
        filled, missing = [CodedWarning(WarningCode.TOPOLOGY_NOTE, note)], []
    if missing:
        raise text.error(f"has no row of {missing[0]}, expected one row for each column", header)
    gpus = [name for name in columns if _GPU.fullmatch(name)]
    if len(gpus) > _MOST_GPUS:
        raise text.error(f"has {len(gpus)} GPUs, expected at most {_MOST_GPUS}")
    names = [*gpus, *(name for name in columns if name not in gpus and name in rows)]
    place = {name: number for number, name in enumerate(names)}
    matrix = ClassMatrix([card_names.get(name, name) for name in names], len(gpus), {})
    for name in names:
        row_line, cells = rows[name]
        _read_row(matrix, name, cells, columns, place, text, row_line)
        if name in gpus:
            matrix.numa_nodes.append(_numa_node(cells[len(columns) :]))
    _check_symmetric(matrix, text)
    matrix.warnings += filled or _incomplete_rows(matrix, columns, rows)
    has_links = any(_LINKS.fullmatch(cell) for _, cells in rows.values() for cell in cells)
    is_older = re.search(r"^\s*SOC\s+= ", text.raw, re.MULTILINE) is not None
    if not has_links and not is_older and _LEGEND.search(text.raw) and not _LEGEND_OF_LINKS.search(text.raw):
        matrix.program = "nvidia-smi topo -mp"
        matrix.warnings.append(_WITHOUT_LINKS)
    return matrix, header


def _column(name: str, columns: list[str], rows: dict[str, tuple[int, list[str]]], text: Text) -> list[str]:
    """Return the cells of a column as those of the row of its GPU; cells of cards without a row are refused."""
    place = columns.index(name)
    cells = []
    for other in columns:
        line, of_row = rows.get(other, (0, []))
        if other != name and len(of_row) <= place:
            raise text.error(f"has no row of {name}, expected one row for each column", line)
        cells.append("X" if other == name else of_row[place])
    return cells


def _incomplete_rows(
    matrix: ClassMatrix, columns: list[str], rows: dict[str, tuple[int, list[str]]]
) -> Iterator[CodedWarning]:
    """Yield a warning about network cards without a row, and about GPUs without the NUMA node that others have."""
    cards = [name for name in columns if name not in rows]
    if cards:
        text = f"the matrix has no row of {', '.join(cards[:4])}, which its header names: lines are missing"
        yield CodedWarning(WarningCode.TOPOLOGY_NOTE, text)
    unknown = [name for name, node in zip(matrix.names, matrix.numa_nodes, strict=False) if node is None]
    lengths = {len(rows[name][1]) for name in columns if _GPU.fullmatch(name)}
    if unknown and len(lengths) > 1:
        text = f"the row of {unknown[0]} is shorter than that of other GPUs and has no NUMA node: it may be cut"
        yield CodedWarning(WarningCode.TOPOLOGY_NOTE, text)


def _add_row(rows: dict[str, tuple[int, list[str]]], words: list[str], columns: int, text: Text, number: int) -> None:
    """Add a row of the matrix; a file with the matrices of two machines is refused."""
    name, cells = words[0], words[1:]
    first, known = rows.setdefault(name, (number, cells))
    printed = list(itertools.takewhile(_is_cell, cells))
    if number != first and len(printed) > 1 and printed[:columns] != known[:columns]:
        raise text.error(f"row {name} differs from that of line {first}, expected the matrix of one machine", number)


def _is_cell(cell: str) -> bool:
    return cell == "X" or _OLD_CLASSES.get(cell, cell) in PATH_CLASSES or _LINKS.fullmatch(cell) is not None


def _read_row(
    matrix: ClassMatrix, name: str, cells: list[str], columns: list[str], place: dict[str, int], text: Text, line: int
) -> None:
    if len(cells) < len(columns):
        raise text.error(f"row {name} has {len(cells)} cells, expected {len(columns)}", line)
    for column, cell in zip(columns, cells, strict=False):
        if column not in place:
            continue
        pair = place[name], place[column]
        kind = _OLD_CLASSES.get(cell, cell)
        links = _LINKS.fullmatch(cell)
        if name == column:
            if cell != "X":
                raise text.error(f"cell {name} {column} is '{cell}', expected X", line)
        elif links is not None:
            matrix.links[pair] = int(links[1])
        elif kind in PATH_CLASSES:
            matrix.classes[pair] = kind
        else:
            expected = f"{', '.join(PATH_CLASSES)} or NV with a number"
            raise text.error(f"cell {name} {column} is '{cell}', expected {expected}", line)


def _numa_node(words: list[str]) -> int | None:
    """Return the NUMA node after the CPU affinity; None if it is not printed."""
    # The CPU affinity has commas or ranges; the NUMA affinity is one number.
    rest = words[1:] if words else []
    return int(rest[0]) if rest and _NODE_NUMBER.fullmatch(rest[0]) else None


def _check_symmetric(matrix: ClassMatrix, text: Text) -> None:
    for known in (matrix.classes, matrix.links):
        for (one, other), value in known.items():
            if known.get((other, one)) != value:
                first, second = matrix.names[one], matrix.names[other]
                raise text.error(
                    f"{first} to {second} is {value}, expected {second} to {first} to be the same: the matrix is not "
                    "symmetric"
                )


def _read(text: Text) -> Iterator[Reading]:
    matrix, header = _matrix(text)
    yield Reading([text.fact(Quantity.TOPOLOGY, matrix, header, matrix.program)])


FORMAT = Format(
    "nvidia-smi topo -m",
    Content.TOPOLOGY,
    "nvidia-smi topo -m > topo.txt",
    "GPU0 GPU1 GPU2 GPU3 CPU Affinity NUMA Affinity",
    _is_matrix,
    _read,
    "nvidia_smi_topo.txt",
    versions="with and without network cards, affinities and `SOC` (old word for `SYS`)",
    is_per_host=True,
)
