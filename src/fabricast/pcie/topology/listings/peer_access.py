"""Pairs of GPUs without peer access, from ``nvidia-smi topo -p2p`` or the GPU model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.warnings import Warning, WarningCode
from fabricast.inputs.gpus import gpu_model
from fabricast.inputs.log_lines import clean_lines
from fabricast.pcie.topology.parts import pairs_without_link
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["has_access_matrix", "read_access_matrix", "with_peer_access", "without_access_matrix"]

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
_ROW = re.compile(rf"^\s*(GPU\d+)((?:\s+(?:X|OK|{'|'.join(_REASONS)}))+)\s*$")


def _blocks(text: str) -> Iterator[tuple[int, dict[str, tuple[int, list[str]]]]]:
    """Yield the line of the header and the rows of each matrix of peer access."""
    if _FIRST_ROW.search(text) is None:
        # Logs of many megabytes are searched for their matrix only if they have its first row.
        return
    header, rows = 0, dict[str, tuple[int, list[str]]]()
    for number, line in clean_lines(text):
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


def has_access_matrix(text: str) -> bool:
    r"""Return whether a text contains the matrix of ``nvidia-smi topo -p2p r``.

    >>> has_access_matrix("\tGPU0\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX\n")
    True
    """
    return any("X" in cells for _, rows in _blocks(text) for _, cells in rows.values())


def without_access_matrix(text: str) -> str:
    """Return a text with empty lines instead of the matrices of ``nvidia-smi topo -p2p``."""
    if not has_access_matrix(text):
        return text
    lines = text.split("\n")
    for header, rows in _blocks(text):
        for number in (header, *(number for number, _ in rows.values())):
            lines[number - 1] = ""
    return "\n".join(lines)


def read_access_matrix(text: str, path: Path) -> dict[tuple[int, int], str]:
    r"""Read the reason of each pair without peer access.

    >>> read_access_matrix("  GPU0 GPU1\n GPU0 X CNS\n GPU1 OK X\n", Path("p2p.txt"))
    {(0, 1): 'chipset not supported'}
    """
    header, rows = next(_blocks(text))
    count = len(rows)
    missing: dict[tuple[int, int], str] = {}
    for place in range(count):
        line, cells = rows.get(f"GPU{place}", (header, []))
        if len(cells) != count or cells[place] != "X":
            raise InputError(
                f"row GPU{place} has {len(cells)} cells, expected {count} with X for GPU{place}", path=path, line=line
            )
        missing |= {
            (place, other): _REASONS[cell] for other, cell in enumerate(cells) if cell in _REASONS and other != place
        }
    return missing


def with_peer_access(
    tree: PcieTree, access: dict[tuple[int, int], str] | None, gpu: str | None, path: Path | str = ""
) -> PcieTree:
    """Return a tree with the pairs whose copies pass through host memory.

    Pairs with direct links need no peer access over PCIe.
    """
    names = tree.accelerator_names
    possible = pairs_without_link(names, tree.peer_links)
    if access is None:
        if gpu is None or gpu_model(gpu).has_stock_peer_access or not possible:
            return tree
        text = (
            f"the unmodified driver of {gpu} permits no direct copies: copies between GPUs pass through host memory; "
            "'nvidia-smi topo -p2p r' states whether it does (transport p2p forecasts direct copies)"
        )
        return replace(
            tree, staged_pairs=possible, warnings=(*tree.warnings, Warning(WarningCode.PEER_ACCESS_ASSUMED, text))
        )
    unknown = next((max(pair) for pair in access if max(pair) >= len(names)), None)
    if unknown is not None:
        raise InputError(f"has GPU{unknown}, expected {len(names)} GPUs as in the topology", path=path)
    staged = {(names[source], names[target]): reason for (source, target), reason in access.items()}
    pairs = tuple(pair for pair in possible if pair in staged)
    if not pairs:
        return tree
    reasons = ", ".join(dict.fromkeys(staged[pair] for pair in pairs))
    text = (
        f"{len(pairs)} of {len(possible)} pairs have no peer access ({reasons}; {path}), for example "
        f"{'>'.join(pairs[0])}: their copies pass through host memory"
    )
    return replace(tree, staged_pairs=pairs, warnings=(*tree.warnings, Warning(WarningCode.NO_PEER_ACCESS, text)))
