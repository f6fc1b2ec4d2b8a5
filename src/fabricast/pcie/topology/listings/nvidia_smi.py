"""Reader of ``nvidia-smi topo -m`` and ``rocm-smi --showtopo``."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.warnings import Warning, WarningCode
from fabricast.inputs.log_lines import clean_lines
from fabricast.pcie.topology.listings.path_classes import ClassMatrix
from fabricast.pcie.topology.tree import PATH_CLASSES

__all__ = ["is_rocm_matrix", "is_topology_matrix", "read_rocm_matrix", "read_topology_matrix"]

_HEADER = re.compile(r"^\s*GPU0\b")
_GPU, _CARD = re.compile(r"GPU(\d{1,15})"), re.compile(r"NIC\d+|mlx\w+|bnxt\w+|hfi\w+|irdma\w+|i40iw\w+|rdmap\w+")
#: Names of network cards by their drivers.
_CARDS = ("NIC", "mlx", "bnxt", "hfi", "irdma", "i40iw", "rdmap")
_LINKS = re.compile(r"NV(\d{1,15})")
_NODE_NUMBER = re.compile(r"[0-9]{1,4}")
_OLD_CLASSES = {"SOC": "SYS"}
_CARD_NAME = re.compile(r"^\s*(NIC\d+):\s*(\S+)")
_MOST_GPUS = 256


def is_topology_matrix(text: str) -> bool:
    """Return whether a text contains the matrix of ``nvidia-smi topo -m``."""
    if "GPU0" not in text:
        return False
    lines = [line for _, line in clean_lines(text, lambda line: "GPU0" in line)]
    return any(_HEADER.match(line) and "Affinity" in line for line in lines) or any(
        re.match(r"^GPU0\s+X\b", line) for line in lines
    )


def read_topology_matrix(text: str, path: Path) -> ClassMatrix:
    """Read the matrix of ``nvidia-smi topo -m``."""
    rows: dict[str, tuple[int, list[str]]] = {}
    columns: list[str] = []
    card_names: dict[str, str] = {}
    header = 0
    has_cards = any(name in text for name in _CARDS)
    for number, line in clean_lines(text, lambda line: has_cards or "GPU" in line):
        words = line.split()
        if not words:
            continue
        if _HEADER.match(line) and not columns:
            columns = [word for word in words if _GPU.fullmatch(word) or _CARD.fullmatch(word)]
            header = number
        elif columns and words[0] in columns:
            _add_row(rows, words, len(columns), path, number)
        elif (match := _CARD_NAME.match(line)) is not None:
            card_names[match[1]] = match[2]
    if not columns:
        raise InputError("contains no header line with GPU0, expected output of 'nvidia-smi topo -m'", path=path)
    missing = [name for name in columns if name not in rows and _GPU.fullmatch(name)]
    if missing:
        raise InputError(f"has no row of {missing[0]}, expected one row for each column", path=path, line=header)
    columns = [name for name in columns if name in rows]
    gpus = [name for name in columns if _GPU.fullmatch(name)]
    if len(gpus) > _MOST_GPUS:
        raise InputError(f"has {len(gpus)} GPUs, expected at most {_MOST_GPUS}", path=path)
    names = [*gpus, *(name for name in columns if name not in gpus)]
    place = {name: number for number, name in enumerate(names)}
    matrix = ClassMatrix([card_names.get(name, name) for name in names], len(gpus), {})
    for name in names:
        row_line, cells = rows[name]
        _read_row(matrix, name, cells, columns, place, path, row_line)
        if name in gpus:
            matrix.numa_nodes.append(_numa_node(cells[len(columns) :]))
    _check_symmetric(matrix, path)
    return matrix


def _add_row(rows: dict[str, tuple[int, list[str]]], words: list[str], columns: int, path: Path, number: int) -> None:
    """Add a row of the matrix; a file with the matrices of two machines is refused."""
    name, cells = words[0], words[1:]
    first, known = rows.setdefault(name, (number, cells))
    printed = list(itertools.takewhile(_is_cell, cells))
    if len(printed) > 1 and printed[:columns] != known[:columns]:
        raise InputError(
            f"row {name} differs from that of line {first}, expected the matrix of one machine", path=path, line=number
        )


def _is_cell(cell: str) -> bool:
    return cell == "X" or _OLD_CLASSES.get(cell, cell) in PATH_CLASSES or _LINKS.fullmatch(cell) is not None


def _read_row(
    matrix: ClassMatrix, name: str, cells: list[str], columns: list[str], place: dict[str, int], path: Path, line: int
) -> None:
    if len(cells) < len(columns):
        raise InputError(f"row {name} has {len(cells)} cells, expected {len(columns)}", path=path, line=line)
    for column, cell in zip(columns, cells, strict=False):
        pair = place[name], place[column]
        kind = _OLD_CLASSES.get(cell, cell)
        links = _LINKS.fullmatch(cell)
        if name == column:
            if cell != "X":
                raise InputError(f"cell {name} {column} is '{cell}', expected X", path=path, line=line)
        elif links is not None:
            matrix.links[pair] = int(links[1])
        elif kind in PATH_CLASSES:
            matrix.classes[pair] = kind
        else:
            expected = f"{', '.join(PATH_CLASSES)} or NV with a number"
            raise InputError(f"cell {name} {column} is '{cell}', expected {expected}", path=path, line=line)


def _numa_node(words: list[str]) -> int | None:
    """Return the NUMA node after the CPU affinity; None if it is not printed."""
    # The CPU affinity has commas or ranges; the NUMA affinity is one number.
    rest = words[1:] if words else []
    return int(rest[0]) if rest and _NODE_NUMBER.fullmatch(rest[0]) else None


def _check_symmetric(matrix: ClassMatrix, path: Path) -> None:
    for known in (matrix.classes, matrix.links):
        for (one, other), value in known.items():
            if known.get((other, one)) != value:
                first, second = matrix.names[one], matrix.names[other]
                raise InputError(
                    f"{first} to {second} is {value}, expected {second} to {first} to be the same: the matrix is not "
                    "symmetric",
                    path=path,
                )


_ROCM_TITLE = re.compile(r"Link Type between two GPUs")
_ROCM_NODE = re.compile(r"GPU\[(\d{1,15})\]\s*:\s*\(Topology\) Numa (?:Node|Affinity):\s*(-?\d{1,15})")


def is_rocm_matrix(text: str) -> bool:
    """Return whether a text is output of ``rocm-smi --showtopo``."""
    return _ROCM_TITLE.search(text) is not None


def read_rocm_matrix(text: str, path: Path) -> ClassMatrix:
    """Read the link types and NUMA nodes of ``rocm-smi --showtopo``."""
    in_types, columns = False, 0
    rows: dict[int, tuple[int, list[str]]] = {}
    nodes: dict[int, int] = {}
    for number, line in clean_lines(text):
        if _ROCM_TITLE.search(line):
            in_types = True
        elif "====" in line and columns and rows:
            in_types = False
        elif (match := _ROCM_NODE.search(line)) is not None:
            nodes[int(match[1])] = int(match[2])
        elif in_types and (words := line.split()):
            if all(_GPU.fullmatch(word) for word in words):
                columns = len(words)
            elif (gpu := _GPU.fullmatch(words[0])) is not None:
                rows[int(gpu[1])] = (number, words[1:])
    if not columns or sorted(rows) != list(range(columns)):
        raise InputError(f"has {len(rows)} rows of link types, expected {columns or 'at least one'}", path=path)
    matrix = ClassMatrix([f"GPU{number}" for number in range(columns)], columns, {}, kind="xGMI")
    matrix.numa_nodes = [nodes.get(number) for number in range(columns)]
    for one, (line_number, cells) in rows.items():
        if len(cells) != columns:
            raise InputError(f"row GPU{one} has {len(cells)} cells, expected {columns}", path=path, line=line_number)
        for other, cell in enumerate(cells):
            if one == other:
                continue
            if cell.upper() == "XGMI":
                matrix.links[one, other] = 1
            elif cell.upper() != "PCIE":
                raise InputError(
                    f"cell GPU{one} GPU{other} is '{cell}', expected PCIE or XGMI", path=path, line=line_number
                )
            same = matrix.numa_nodes[one] is not None and matrix.numa_nodes[one] == matrix.numa_nodes[other]
            matrix.classes[one, other] = "PHB" if same else "SYS"
    matrix.warnings.append(
        Warning(
            WarningCode.TOPOLOGY_NOTE,
            "rocm-smi prints no switches: GPUs of one NUMA node are assumed to be on ports of one root complex; "
            "'lspci -tv' prints switches",
        )
    )
    return matrix
