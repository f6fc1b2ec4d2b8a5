"""Reader of ``nvidia-smi topo -p2p r``: which pairs of GPUs may copy directly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "nvidia-smi topo -p2p r"
#: Reasons that ``nvidia-smi topo -p2p`` prints.
_REASONS = {
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "NS": "not supported",
    "DR": "disabled by a registry key",
    "U": "unknown",
}
_HEADER = re.compile(r"^\s*GPU0(?:\s+GPU\d+)*\s*$")
# The second alternative is a machine with one GPU.
_FIRST_ROW = re.compile(r"GPU0[ \t]+X(?:[ \t]+(?:OK|U|[A-Z]?NS|DR)\b|[ \t\r]*$)", re.MULTILINE)
#: Row with a reason that no other program prints.
_REFUSED_ROW = re.compile(r"^[ \t]*GPU\d{1,3}(?:[ \t]+(?:X|OK|[CGT]NS)){0,64}[ \t]+[CGT]NS\b", re.MULTILINE)
_ROW = re.compile(rf"^\s*(GPU\d+)((?:\s+(?:X|OK|{'|'.join(_REASONS)}))+)\s*$")
#: Command that printed a matrix, in a line before it or in the name of the file.
_COMMAND = re.compile(r"topo[\s_-]+-{0,2}p2p[\s_-]+([rwnap]+)(?![a-z0-9])", re.IGNORECASE)
_NAMES = {"n": "NVLink", "a": "atomics", "p": "PCIe"}
_Rows = dict[str, tuple[int, list[str]]]


def _matrices(text: Text) -> Iterator[tuple[int, _Rows]]:
    """Yield the line of the header and the rows of each matrix of peer access."""
    if _FIRST_ROW.search(text.raw) is None and _REFUSED_ROW.search(text.raw) is None:
        # Logs of many megabytes are searched for their matrix only if they have its first row.
        return
    header, rows = 0, _Rows()
    for number, line in text.lines():
        row = _ROW.match(line) if header else None
        if _HEADER.match(line):
            if rows:
                yield header, rows
            header, rows = number, {}
        elif row is not None and row[1] not in rows:
            rows[row[1]] = (number, row[2].split())
        elif header and line.strip():
            if rows:
                yield header, rows
            header, rows = 0, {}
    if rows:
        yield header, rows


def lines_of_matrices(text: Text) -> set[int]:
    """Return the numbers of the lines that are part of matrices of peer access."""
    if not _is_matrix(text):
        return set()
    return {line for header, rows in _matrices(text) for line in (header, *(number for number, _ in rows.values()))}


def _is_matrix(text: Text) -> bool:
    if _REFUSED_ROW.search(text.raw) is not None:
        return True
    return any("X" in cells for _, rows in _matrices(text) for _, cells in rows.values())


def _facts(text: Text, header: int, rows: _Rows) -> Iterator[Fact]:
    """Yield the reason of each pair without peer access; the reason is empty for pairs with peer access."""
    count = next(len(line.split()) for number, line in text.lines() if number == header)
    if len(rows) != count:
        raise text.error(f"has {len(rows)} rows of peer access, expected {count}: lines are missing", header)
    for place in range(count):
        line, cells = rows.get(f"GPU{place}", (header, []))
        if len(cells) != count or cells[place] != "X":
            raise text.error(f"row GPU{place} has {len(cells)} cells, expected {count} with X for GPU{place}", line)
        for other, cell in enumerate(cells):
            if other != place:
                pair = (str(place), str(other))
                yield text.fact(Quantity.PEER_ACCESS, _REASONS.get(cell, ""), line, _PROGRAM, subject=pair)


def _capabilities(text: Text) -> dict[int, str]:
    """Return the letters of the commands in a text, by line; line 0 is the name of the file."""
    of_file = _COMMAND.search(Path(text.path).name)
    found = {0: of_file[1].lower()} if of_file is not None else {}
    lines = text.lines(lambda line: "p2p" in line)
    return found | {number: match[1].lower() for number, line in lines if (match := _COMMAND.search(line))}


def _read(text: Text) -> Iterator[Reading]:
    capabilities = _capabilities(text)
    within = lines_of_matrices(text)
    for number, line in text.lines(lambda line: "NS" in line):
        if number not in within and _REFUSED_ROW.match(line):
            raise text.error("is a row of peer access without the header of its matrix: lines are missing", number)
    for header, rows in _matrices(text):
        # The last command before a matrix printed it; without one, it is that of peer access, which most print.
        last = max((line for line in capabilities if line < header), default=None)
        letters = "r" if last is None else capabilities[last]
        if set(letters) & {"r", "w"}:
            yield Reading(
                list(_facts(text, header, rows)), line=header, text="peer access of one GPU, which has no pair"
            )
        else:
            names = " and ".join(_NAMES[letter] for letter in dict.fromkeys(letters))
            yield Reading([], line=header, text=f"capability for {names}, which grants or denies no direct copies")


FORMAT = Format(
    _PROGRAM,
    Content.PEER_ACCESS,
    "nvidia-smi topo -p2p r > access.txt",
    "GPU0 X CNS CNS CNS",
    _is_matrix,
    _read,
    "nvidia_smi_p2p.txt",
    versions="tables of `r` and `w`: pairs without peer access, and why; those of `n`, `a` and `p` say nothing of it",
)
