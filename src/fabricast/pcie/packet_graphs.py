"""Graphs simulated packet by packet, with the program of each where one is told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fabricast.pcie.graphs import CongestionGraphs
from fabricast.pcie.packet_hardware import PacketHardware
from fabricast.pcie.packet_phases import SimulatedEnds, simulate
from fabricast.pcie.packet_programs import simulate_copies
from fabricast.pcie.tree import PcieTree

__all__ = ["simulate_graphs"]


def simulate_graphs(
    tree: PcieTree,
    graphs: CongestionGraphs,
    hardware: PacketHardware,
    *,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> SimulatedEnds:
    """Simulate graphs, those with a program by its engines and order.

    Parameters
    ----------
    tree, graphs, hardware, threads, progress
        As for `fabricast.pcie.packet_phases.simulate`.

    Returns
    -------
    SimulatedEnds
        As of `fabricast.pcie.packet_phases.simulate`, and of graphs with a program as of
        `fabricast.pcie.packet_programs.simulate_copies`.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from fabricast.pcie.graphs import from_arcs
    >>> from fabricast.pcie.regular_tree import regular_tree
    >>> graphs = from_arcs([[(0, 1), (0, 4)], [(0, 1), (0, 4)]], size_bytes=2**24)
    >>> ends = simulate_graphs(
    ...     regular_tree("flat4x2", (2, 4)), replace(graphs, programs=("", "ordered_writes")), PacketHardware()
    ... )
    >>> (ends.end_s / ends.end_s.max()).round(1).tolist()
    [1.0, 1.0, 0.5, 1.0]
    """
    has_program = np.array([bool(name) for name in graphs.programs] or [False] * len(graphs))
    parts = []
    for numbers in (np.flatnonzero(~has_program), np.flatnonzero(has_program)):
        some = graphs.chosen(numbers)
        if has_program[numbers].any():
            parts.append((numbers, simulate_copies(tree, some, hardware)))
            if progress is not None:
                progress(len(some))
        elif numbers.size:
            parts.append((numbers, simulate(tree, some, hardware, threads=threads, progress=progress)))
    ends = np.empty((3, graphs.source.size))
    for numbers, found in parts:
        ends[:, graphs.rows_of(numbers)] = found.end_s, found.earliest_s, found.latest_s
    return SimulatedEnds(*ends)
