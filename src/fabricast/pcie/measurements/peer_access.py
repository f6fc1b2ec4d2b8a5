"""Pairs of GPUs without peer access in the output of p2pBandwidthLatencyTest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fabricast.core.warnings import Warning, WarningCode
from fabricast.inputs.bandwidth_matrices import pairs_without_access
from fabricast.inputs.files import is_table, read_text
from fabricast.inputs.log_lines import clean_text
from fabricast.pcie.measurements.addresses import endpoints_of_numbers, printed_addresses
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["with_measured_access"]


def with_measured_access(tree: PcieTree, path: Path | str) -> PcieTree:
    """Return a topology whose pairs without peer access, according to a file, are staged through host memory.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    path : Path or str
        Measured copies; only p2pBandwidthLatencyTest prints peer access.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    if is_table(path):
        return tree
    text = clean_text(read_text(path))
    refused = pairs_without_access(text)
    if not refused:
        return tree
    names = endpoints_of_numbers(tree, printed_addresses(text))
    ends = [(names.get(source, source), names.get(target, target)) for source, target in refused]
    known = set(tree.accelerator_names)
    pairs = [pair for pair in ends if set(pair) <= known and tree.transport(*pair) == "p2p"]
    if not pairs:
        return tree
    warning = Warning(
        WarningCode.NO_PEER_ACCESS,
        f"{len(pairs)} pairs have no peer access ({path}: CANNOT Access Peer), for example {'>'.join(pairs[0])}: their "
        "copies are forecast through host memory",
    )
    return replace(
        tree, staged_pairs=(*tree.staged_pairs, *pairs), warnings=(*tree.warnings, warning)
    )  # fmt: skip
