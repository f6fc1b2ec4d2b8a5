"""Measured copies through host memory: GPUs that are slower than the others."""

from __future__ import annotations

from collections.abc import Iterator

from fabricast.core.warnings import CopyWarning, WarningCode
from fabricast.machine.machine import Machine
from fabricast.pcie.machines.group_rates import IsolatedCopy, slow_links
from fabricast.pcie.topology.paths import narrowest_link

__all__ = ["slow_staged_copies"]


def slow_staged_copies(machine: Machine) -> Iterator[CopyWarning]:
    """Yield the GPUs whose staged copies are all slower than those of the other GPUs."""
    tree, staged = machine.tree, machine.staged_bytes_per_s
    copies = [
        IsolatedCopy(
            narrowest_link(tree, [(tree.endpoint_number[source], tree.endpoint_number[target])]),
            rate,
            "",
            source,
            target,
        )
        for (source, target), rate in staged.items()
    ]
    if not copies:
        return
    usual = max(copy.bytes_per_s for copy in copies)
    gpus: dict[str, list[str]] = {}
    for label, rate in slow_links(tree, {"crossing": copies}).items():
        kind, name, *rest = label.split()
        if kind == "endpoint":
            gpus.setdefault(name, []).append(f"{rest[0]} {rate / 1e9:.4g} GB/s")
    for gpu, parts in gpus.items():
        label = tree.vertex(gpu).label
        address = f" ({label})" if ":" in label else ""
        text = (
            f"GPU {gpu}{address} {' and '.join(sorted(parts, reverse=True))} in all its copies "
            f"through host memory, other GPUs reach {usual / 1e9:.4g} GB/s: check the width and generation of its link "
            "under load ('lspci -vv', LnkSta)"
        )
        yield CopyWarning.about((gpu,), WarningCode.SLOW_ENDPOINT, text)
