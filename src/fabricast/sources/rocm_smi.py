"""Reader of ``rocm-smi --showtopo``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from fabricast.core.facts import Content, Quantity
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.topology.path_classes import ClassMatrix
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "rocm-smi --showtopo"
_GPU = re.compile(r"GPU(\d{1,15})")
_ROCM_TITLE = re.compile(r"Link Type between two GPUs")
_ROCM_NODE = re.compile(r"GPU\[(\d{1,15})\]\s*:\s*\(Topology\) Numa (?:Node|Affinity):\s*(-?\d{1,15})")
#: Cells of a GPU with itself, of rocm-smi and amd-smi.
_ITSELF = ("0", "SELF")


def _matrix(text: Text) -> tuple[ClassMatrix, int]:
    """Return the link types and NUMA nodes, and the line of their title."""
    title, in_types, columns = 0, False, 0
    rows: dict[int, tuple[int, list[str]]] = {}
    nodes: dict[int, int] = {}
    for number, line in text.lines():
        if _ROCM_TITLE.search(line):
            title, in_types = title or number, True
        elif "====" in line and columns and rows:
            in_types = False
        elif (match := _ROCM_NODE.search(line)) is not None:
            nodes[int(match[1])] = int(match[2])
        elif in_types and (words := line.split()):
            if all(_GPU.fullmatch(word) for word in words):
                columns = len(words)
            elif (gpu := _GPU.fullmatch(words[0])) is not None:
                rows[int(gpu[1])] = (number, words[1:])
    # A node of -1 is unknown.
    nodes = {gpu: node for gpu, node in nodes.items() if node >= 0}
    return matrix_of_link_types(text, rows, columns, nodes, _PROGRAM), title


def matrix_of_link_types(
    text: Text, rows: Mapping[int, tuple[int, Sequence[str]]], columns: int, nodes: Mapping[int, int], program: str
) -> ClassMatrix:
    """Return the path classes of a table of link types: line and cells by GPU, and NUMA nodes as far as known."""
    if not columns or sorted(rows) != list(range(columns)):
        raise text.error(f"has {len(rows)} rows of link types, expected {columns or 'at least one'}")
    matrix = ClassMatrix([f"GPU{number}" for number in range(columns)], columns, {}, kind="xGMI", program=program)
    matrix.has_switches = False
    matrix.has_sockets = len(nodes) == columns
    matrix.numa_nodes = [nodes.get(number) for number in range(columns)]
    for one, (line_number, cells) in rows.items():
        if len(cells) != columns:
            raise text.error(f"row GPU{one} has {len(cells)} cells, expected {columns}", line_number)
        for other, cell in enumerate(cells):
            if one == other:
                if cell not in _ITSELF:
                    raise text.error(f"cell GPU{one} GPU{one} is '{cell}', expected 0 or SELF", line_number)
                continue
            if rows[other][1][one : one + 1] not in ([cell], []):
                raise text.error(
                    f"cell GPU{one} GPU{other} is '{cell}', expected '{rows[other][1][one]}' as in row GPU{other}",
                    line_number,
                )
            if cell.upper() == "XGMI":
                matrix.links[one, other] = 1
            elif cell.upper() != "PCIE":
                raise text.error(f"cell GPU{one} GPU{other} is '{cell}', expected PCIE or XGMI", line_number)
            same = matrix.numa_nodes[one] is not None and matrix.numa_nodes[one] == matrix.numa_nodes[other]
            matrix.classes[one, other] = "PHB" if same else "SYS"
    if not nodes and program != _PROGRAM:
        text_of_nodes = f"{program} prints no NUMA nodes, so that sockets are unknown; '{_PROGRAM}' prints them"
        matrix.warnings.append(CodedWarning(WarningCode.TOPOLOGY_NOTE, text_of_nodes))
    elif len(nodes) < columns:
        text_of_nodes = (
            f"the output has the NUMA nodes of {len(nodes)} of {columns} GPUs: which others share a socket is unknown"
        )
        matrix.warnings.append(CodedWarning(WarningCode.TOPOLOGY_NOTE, text_of_nodes))
    matrix.warnings.append(
        CodedWarning(
            WarningCode.TOPOLOGY_NOTE,
            f"{program.partition(' ')[0]} prints no switches: GPUs of one NUMA node are assumed to be on ports of one "
            "root complex; 'lspci -tv' prints switches",
        )
    )
    return matrix


def _read(text: Text) -> Iterator[Reading]:
    matrix, title = _matrix(text)
    yield Reading([text.fact(Quantity.TOPOLOGY, matrix, title, matrix.program)])


FORMAT = Format(
    _PROGRAM,
    Content.TOPOLOGY,
    "rocm-smi --showtopo > topo.txt",
    "Link Type between two GPUs",
    lambda text: _ROCM_TITLE.search(text.raw) is not None,
    _read,
    "rocm_smi.txt",
    versions="link types and NUMA nodes",
    is_per_host=True,
)
