"""Peer access of pairs of GPUs in the output of p2pBandwidthLatencyTest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.warnings import Warning, WarningCode
from fabricast.inputs.bandwidth_matrices import (
    is_bandwidth_matrix,
    pairs_with_access,
    pairs_without_access,
    parse_bandwidths,
)
from fabricast.inputs.files import is_table, read_text
from fabricast.inputs.log_lines import clean_text
from fabricast.pcie.measurements.addresses import endpoints_of_numbers, printed_addresses
from fabricast.pcie.measurements.nvbandwidth import copies_in_matrices
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["has_direct_copies", "printed_staged_rates", "staged_rates", "with_granted_access", "with_measured_access"]

#: Title of the matrix of copies through host memory.
_STAGED, _STAGED_BOTH_WAYS = "Unidirectional P2P=Disabled", "Bidirectional P2P=Disabled"


def with_measured_access(tree: PcieTree, path: Path | str) -> PcieTree:
    """Return a topology with the peer access that a file states: pairs without it are staged through host memory."""
    if is_table(path):
        return tree
    text = clean_text(read_text(path))
    tree = with_granted_access(tree, text, path)
    pairs = [pair for pair in _pairs(tree, text, pairs_without_access(text)) if tree.transport(*pair) == "p2p"]
    if not pairs:
        return tree
    warning = Warning(
        WarningCode.NO_PEER_ACCESS,
        f"{len(pairs)} pairs have no peer access ({path}: CANNOT Access Peer), for example {'>'.join(pairs[0])}: their "
        "copies pass through host memory",
    )
    return replace(tree, staged_pairs=(*tree.staged_pairs, *pairs), warnings=(*tree.warnings, warning))


def with_granted_access(tree: PcieTree, text: str, path: Path | str) -> PcieTree:
    """Return a topology in which pairs with peer access, according to a text, are not staged."""
    granted = {pair for pair in _pairs(tree, text, pairs_with_access(text)) if tree.transport(*pair) == "staged"}
    if not granted:
        return tree
    refused = next((one.text for one in tree.warnings if one.code is WarningCode.NO_PEER_ACCESS), None)
    if refused is not None:
        raise InputError(
            f"states that GPU {'>'.join(min(granted))} has peer access, but {refused}: the files contradict each other",
            path=Path(path),
        )
    note = (
        f"{len(granted)} pairs have peer access ({path}: CAN Access Peer), unlike the unmodified driver of their model"
    )
    kept = [warning for warning in tree.warnings if warning.code is not WarningCode.PEER_ACCESS_ASSUMED]
    return replace(
        tree,
        staged_pairs=tuple(pair for pair in tree.staged_pairs if pair not in granted),
        warnings=(*kept, Warning(WarningCode.TOPOLOGY_NOTE, note)),
    )


def _pairs(tree: PcieTree, text: str, numbers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the endpoints of pairs of device numbers, without those that the topology lacks."""
    names = endpoints_of_numbers(tree, printed_addresses(text)) if numbers else {}
    ends = [(names.get(source, source), names.get(target, target)) for source, target in numbers]
    known = set(tree.accelerator_names)
    return [pair for pair in ends if set(pair) <= known]


def has_direct_copies(path: Path | str) -> bool:
    """Return whether a file has copies that calibrate links: matrices of staged copies only have none."""
    if is_table(path):
        return True
    text = clean_text(read_text(path))
    return not is_bandwidth_matrix(text) or bool(copies_in_matrices(parse_bandwidths(text, Path(path))))


def staged_rates(tree: PcieTree, path: Path | str, *, both_ways: bool = False) -> dict[tuple[str, str], float]:
    """Return the measured rates of single copies, or of pairs of copies, through host memory."""
    if is_table(path):
        return {}
    return printed_staged_rates(tree, clean_text(read_text(path)), Path(path), both_ways=both_ways)


def printed_staged_rates(
    tree: PcieTree, text: str, path: Path, *, both_ways: bool = False
) -> dict[tuple[str, str], float]:
    """Return the rates of `staged_rates` from the content of the file, without the decoration of its lines."""
    if not is_bandwidth_matrix(text):
        return {}
    names = endpoints_of_numbers(tree, printed_addresses(text))
    table = parse_bandwidths(text, path)
    title = _STAGED_BOTH_WAYS if both_ways else _STAGED
    is_rate = table["test"].str.startswith(title) & (table["unit"] == "bytes/s")
    rows = table[is_rate & (table["row"] != table["column"])]
    return {
        (names.get(row["row"], row["row"]), names.get(row["column"], row["column"])): float(row["value"])
        for row in rows.to_dict("records")
    }
