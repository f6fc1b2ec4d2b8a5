"""Rates of single copies of host memory that differ between GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fabricast.pcie.topology.memory import root_complex_of
from fabricast.pcie.topology.paths import PathClass
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["HOST_CLASSES", "IsolatedCopy", "gpu_rate_sources", "gpu_rate_values", "slow_gpus", "with_neighbours"]

#: Path classes of copies from and to host memory.
HOST_CLASSES: tuple[PathClass, ...] = ("host_in", "host_out", "remote_in", "remote_out")
#: GPUs whose copies are slower by more than this share than those of the fastest GPU have a rate of their own.
_SLOWER = 0.1


class IsolatedCopy(NamedTuple):
    """Rate per copy, width of the narrowest link relative to a link of capacity 1, and the GPU of host copies."""

    width: float
    bytes_per_s: float
    gpu: str = ""


def slow_gpus(measured: Sequence[IsolatedCopy]) -> dict[str, float]:
    """Return the rates of the GPUs whose isolated copies of one path class are slower than those of the fastest GPU.

    Only GPUs with the widest links count, because narrow links limit the others.

    Parameters
    ----------
    measured : sequence of IsolatedCopy
        Isolated copies of one path class.

    Returns
    -------
    dict of str to float
        Median rate in bytes/s of each GPU that is more than 10 % slower than the fastest.

    Examples
    --------
    >>> slow_gpus([IsolatedCopy(1.0, 44.2e9, "0"), IsolatedCopy(1.0, 25.4e9, "4"), IsolatedCopy(1.0, 43.9e9, "1")])
    {'4': 25400000000.0}
    """
    widest = max((copy.width for copy in measured), default=1.0)
    rates: dict[str, list[float]] = {}
    for copy in measured:
        if copy.width == widest and copy.gpu:
            rates.setdefault(copy.gpu, []).append(copy.bytes_per_s)
    medians = {gpu: float(np.median(of_gpu)) for gpu, of_gpu in rates.items()}
    fastest = max(medians.values(), default=0.0)
    return {gpu: rate for gpu, rate in medians.items() if rate < fastest * (1 - _SLOWER)}


def with_neighbours(tree: PcieTree, slow: Mapping[str, float], measured: Sequence[IsolatedCopy]) -> dict[str, float]:
    """Add the GPUs without a measurement whose root complex has only slow GPUs, with the median rate of these.

    Parameters
    ----------
    tree : PcieTree
        Topology with host memory.
    slow : mapping of str to float
        Result of `slow_gpus`.
    measured : sequence of IsolatedCopy
        Isolated copies of the same path class.

    Returns
    -------
    dict of str to float
        Rate in bytes/s of each slow GPU.
    """
    known: dict[str, set[str]] = {}
    for copy in measured:
        if copy.gpu:
            known.setdefault(root_complex_of(tree, copy.gpu), set()).add(copy.gpu)
    rates = dict(slow)
    for name in tree.endpoint_names:
        neighbours = known.get(root_complex_of(tree, name), set())
        if not tree.vertex(name).host_memory and neighbours and name not in neighbours and neighbours <= set(slow):
            rates[name] = float(np.median([slow[gpu] for gpu in sorted(neighbours)]))
    return rates


def gpu_rate_values(rates: Mapping[tuple[str, PathClass], float]) -> dict[str, float]:
    """Return the median rate in bytes/s of the slow GPUs of each path class, by the name of the parameter."""
    of_class: dict[str, list[float]] = {}
    for (_, way), rate in rates.items():
        of_class.setdefault(f"{way}_of_slow_gpus", []).append(rate)
    return {name: float(np.median(of_way)) for name, of_way in of_class.items()}


def gpu_rate_sources(rates: Mapping[tuple[str, PathClass], float]) -> dict[str, str]:
    """Return the rate of each slow GPU in GB/s as text, by the name of the parameter in `gpu_rate_values`.

    Examples
    --------
    >>> gpu_rate_sources({("4", "host_in"): 25.4e9, ("5", "host_in"): 25.5e9})
    {'host_in_of_slow_gpus': 'single copies are slower at these GPUs: 4 (25.4 GB/s), 5 (25.5 GB/s)'}
    """
    texts: dict[str, list[str]] = {}
    for (gpu, way), rate in rates.items():
        texts.setdefault(f"{way}_of_slow_gpus", []).append(f"{gpu} ({rate / 1e9:.4g} GB/s)")
    return {name: f"single copies are slower at these GPUs: {', '.join(each)}" for name, each in texts.items()}
