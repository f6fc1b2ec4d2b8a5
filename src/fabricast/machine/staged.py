"""Measured copies through host memory: GPUs and pairs that are slower than the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from fabricast.core.warnings import CopyWarning, WarningCode
from fabricast.machine.machine import Machine
from fabricast.machine.staging import StagedRates
from fabricast.pcie.machines.group_rates import IsolatedCopy, slow_links
from fabricast.pcie.topology.memory import socket_of
from fabricast.pcie.topology.paths import narrowest_link

#: Share of the rate of a class of pairs below which a pair is slow, and maximum number of pairs that are listed.
_SLOW_PAIR, _MOST_LISTED = 0.7, 10


def _slow_gpus(machine: Machine) -> dict[str, list[str]]:
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
    """Yield the GPUs whose staged copies are all slower than those of the other GPUs, and slow pairs of other GPUs."""
    tree, usual = machine.tree, max(machine.staged_bytes_per_s.values(), default=0.0)
    slow_gpus = _slow_gpus(machine)
    for gpu, parts in slow_gpus.items():
        label = tree.vertex(gpu).label
        address = f" ({label})" if ":" in label else ""
        text = (
            f"GPU {gpu}{address} {' and '.join(sorted(parts, reverse=True))} in all its copies "
            f"through host memory, other GPUs reach {usual / 1e9:.4g} GB/s: check the width and generation of its link "
            "under load ('lspci -vv', LnkSta)"
        )
        yield CopyWarning.about((gpu,), WarningCode.SLOW_ENDPOINT, text)
    groups = list(_slow_memory(machine, slow_gpus))
    yield from groups or _slow_pairs(machine, slow_gpus)


def _slow_memory(machine: Machine, slow_gpus: Collection[str]) -> Iterator[CopyWarning]:
    """Yield the NUMA nodes all of whose GPUs copy much slower through host memory than those of another one."""
    node_of = {gpu: socket_of(machine.tree, gpu) for gpu in machine.tree.accelerator_names}
    rates = {pair: rate for pair, rate in machine.staged_bytes_per_s.items() if set(pair).isdisjoint(slow_gpus)}
    within: dict[str, list[float]] = {}
    for (one, other), rate in rates.items():
        if node_of[one] == node_of[other]:
            within.setdefault(node_of[one], []).append(rate)
    if len(within) < 2:
        return
    best = max(within, key=lambda node: float(np.median(within[node])))
    usual = min(within[best])
    for node in within:
        touching = {pair: rate for pair, rate in rates.items() if node in (node_of[pair[0]], node_of[pair[1]])}
        if node == best or max(touching.values()) >= _SLOW_PAIR * usual:
            continue
        gpus = " ".join(gpu for gpu in node_of if node_of[gpu] == node)
        text = (
            f"copies through host memory with GPUs {gpus} of one NUMA node reach at most "
            f"{max(touching.values()) / 1e9:.3g} GB/s, copies among the GPUs "
            f"{' '.join(gpu for gpu in node_of if node_of[gpu] == best)} of another at least {usual / 1e9:.3g} GB/s"
        )
        worst = min(touching, key=lambda pair: touching[pair])
        yield CopyWarning.about(worst, WarningCode.SLOW_BETWEEN_SOCKETS, text)


def _slow_pairs(machine: Machine, slow_gpus: Collection[str]) -> Iterator[CopyWarning]:
    """Yield the pairs whose staged copies are much slower than others of their class, if no slow GPU explains it."""
    rates = machine.staged_bytes_per_s
    class_of = {pair: machine.tree.path_class(*pair) for pair in rates}
    usual = {name: max(rate for pair, rate in rates.items() if class_of[pair] == name) for name in class_of.values()}
    slow = {
        pair: rates[pair]
        for pair in StagedRates(machine).slow_pairs
        if pair in rates and set(pair).isdisjoint(slow_gpus) and rates[pair] < _SLOW_PAIR * usual[class_of[pair]]
    }
    if not slow:
        return
    worst = min(slow, key=lambda pair: slow[pair])
    named = ", ".join(f"{one}>{other}" for one, other in list(slow)[:_MOST_LISTED])
    text = (
        f"copies {named} through host memory are slow, {'>'.join(worst)} {slow[worst] / 1e9:.3g} GB/s, others of "
        f"class {class_of[worst]} {usual[class_of[worst]] / 1e9:.3g} GB/s"
    )
    yield CopyWarning.about(worst, WarningCode.SLOW_COPIES, text)
