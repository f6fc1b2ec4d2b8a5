"""Measured copies through host memory: GPUs that are slower than the others."""

from __future__ import annotations

from collections.abc import Iterator

from fabricast.core.warnings import CopyWarning, WarningCode
from fabricast.machine.machine import Machine
from fabricast.pcie.machines.group_rates import IsolatedCopy, slow_links
from fabricast.pcie.topology.paths import narrowest_link

__all__ = ["slow_staged_copies", "slow_staged_gpus"]


def slow_staged_gpus(machine: Machine) -> dict[str, list[str]]:
    """Return the GPUs whose staged copies are all slower than those of the other GPUs, with their rates in words."""
    tree = machine.tree
    copies = [
        IsolatedCopy(
            narrowest_link(tree, [(tree.endpoint_number[source], tree.endpoint_number[target])]),
            rate,
            "",
            source,
            target,
        )
        for (source, target), rate in machine.staged_bytes_per_s.items()
    ]
    gpus: dict[str, list[str]] = {}
    for label, rate in slow_links(tree, {"crossing": copies}).items():
        kind, name, *rest = label.split()
        if kind == "endpoint":
            gpus.setdefault(name, []).append(f"{rest[0]} {rate / 1e9:.4g} GB/s")
    return gpus


def slow_staged_copies(machine: Machine) -> Iterator[CopyWarning]:
    """Yield the GPUs whose staged copies are all slower than those of the other GPUs."""
    tree, usual = machine.tree, max(machine.staged_bytes_per_s.values(), default=0.0)
    for gpu, parts in slow_staged_gpus(machine).items():
        label = tree.vertex(gpu).label
        address = f" ({label})" if ":" in label else ""
        text = (
            f"GPU {gpu}{address} {' and '.join(sorted(parts, reverse=True))} in all its copies "
            f"through host memory, other GPUs reach {usual / 1e9:.4g} GB/s: check the width and generation of its link "
            "under load ('lspci -vv', LnkSta)"
        )
        yield CopyWarning.about((gpu,), WarningCode.SLOW_ENDPOINT, text)
