"""Packet simulation with deduplication of equivalent graphs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.packets.hardware import PacketHardware
from fabricast.pcie.packets.simulator import (
    BLOCK,
    NO_ORDER,
    kernel_arguments,
    only_merging_links_decide,
    phase_of_each,
    run_packets,
)
from fabricast.pcie.topology.tree import PcieTree
from fabricast.runtime.threads import over_blocks

__all__ = ["Runs", "compare_runs", "share_of_runs", "simulate_ends"]

#: Graphs with more copies are not compared, because two of them are rarely equivalent.
_MOST_COMPARED = 64


def simulate_ends(
    tree: PcieTree,
    graphs: CongestionGraphs,
    hardware: PacketHardware,
    *,
    threads: int = 1,
    phase: int | NDArray[np.int64] = 0,
    progress: Callable[[int], None] | None = None,
) -> NDArray[np.float64]:
    """Return the completion times of copies, simulating equivalent graphs once.

    The results equal those of `fabricast.pcie.packets.simulator.simulate_once`. Links without contention are replaced
    by delays if buffers and links permit it. Graphs with the same canonical description are simulated once.

    Parameters
    ----------
    tree, graphs, hardware, threads, progress
        See `fabricast.pcie.packets.simulator.simulate_once`.
    phase : int or ndarray of int64, shape (graphs,), default 0
        Arbitration phase of all graphs, or of each graph.

    Returns
    -------
    ndarray of float64, shape (copies,)
        Completion times in s, bitwise identical to those of `simulate_once`.

    Raises
    ------
    InputError
        See `simulate_once`.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.packets.simulator import simulate_once
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_pairs([[(0, 1), (0, 4), (2, 5)], [(6, 1), (4, 3), (4, 5)]], size_bytes=2**20)
    >>> whole = simulate_once(storm8, graphs, HARDWARE["split_128_64"]).end_s
    >>> bool((simulate_ends(storm8, graphs, HARDWARE["split_128_64"]) == whole).all())
    True
    """
    phases = phase_of_each(graphs, phase)
    runs = compare_runs(tree, graphs, hardware, threads=threads, phase=phases)
    few = graphs.chosen(runs.first)
    done = 0

    def advance(finished: int) -> None:
        nonlocal done
        before, done = done, done + finished
        if progress is not None:
            progress(done * len(graphs) // len(few) - before * len(graphs) // len(few))

    simulation = run_packets(
        tree,
        few,
        hardware,
        phase=phases[runs.first],
        threads=threads,
        progress=advance,
        ends_only=only_merging_links_decide(tree, hardware),
    ).simulation
    # Copy completion times from each simulated run to its equivalent runs, by position in the description.
    unshifted = np.empty(few.source.size, dtype=np.int64)
    rows = graphs.rows_of(runs.first)
    unshifted[few.offset[few.graph_of_communication] + runs.place[rows]] = simulation.end_tick - runs.shift_ticks[rows]
    same = few.offset[runs.kind[graphs.graph_of_communication]] + runs.place
    end_tick: NDArray[np.int64] = unshifted[same] + runs.shift_ticks
    return np.multiply(end_tick, simulation.tick_s, dtype=np.float64)


@dataclass(frozen=True)
class Runs:
    """Equivalence classes of simulation runs.

    Parameters
    ----------
    kind : ndarray of int64, shape (graphs,)
        Equivalence class of each run, numbered in the order of first appearance.
    first : ndarray of int64, shape (kinds,)
        First graph of each class.
    place : ndarray of int64, shape (copies,)
        Position of each copy in the canonical description. Copies of equivalent runs correspond by position.
    shift_ticks : ndarray of int64, shape (copies,)
        Time offset of each copy in ticks. Completion times minus offsets are equal for corresponding copies.
    """

    kind: NDArray[np.int64]
    first: NDArray[np.int64]
    place: NDArray[np.int64]
    shift_ticks: NDArray[np.int64]


def compare_runs(
    tree: PcieTree,
    graphs: CongestionGraphs,
    hardware: PacketHardware,
    *,
    threads: int = 1,
    phase: int | NDArray[np.int64] = 0,
) -> Runs:
    """Find equivalent simulation runs by their canonical descriptions.

    Parameters
    ----------
    tree, graphs, hardware, threads, phase
        See `simulate_ends`. Each graph with more than 64 copies is a class with a single member.

    Returns
    -------
    Runs
        Equivalence classes.

    Raises
    ------
    InputError
        If a graph is too wide or too long to simulate.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_pairs([[(0, 1), (0, 4)], [(7, 2), (7, 6)], [(0, 1), (4, 1)]], size_bytes=2**20)
    >>> compare_runs(storm8, graphs, HARDWARE["no_split"]).kind
    array([0, 0, 1])
    """
    from fabricast.pcie.packets.kernels.descriptions import describe_runs, words_of_description

    arrays, network, ticks, _ = kernel_arguments(tree, graphs, hardware, NO_ORDER)
    ends_only = only_merging_links_decide(tree, hardware)
    phases = phase_of_each(graphs, phase)
    place, shift_ticks = graphs.number_in_graph, np.zeros(graphs.source.size, dtype=np.int64)
    lengths = np.diff(graphs.offset)
    described: list[bytes | int] = list(range(len(graphs)))

    def describe(first: int, last: int) -> None:
        widest = min(int(lengths[first:last].max()), _MOST_COMPARED)
        words = np.empty((last - first, words_of_description(widest, network.longest_route)), dtype=np.int64)
        used = np.empty(last - first, dtype=np.int64)
        describe_runs(first, last, arrays, network, ticks, ends_only, phases, words, used, place, shift_ticks)
        for graph, row, count in zip(range(first, last), words, used.tolist(), strict=True):
            if count:
                described[graph] = hashlib.blake2b(row[:count].tobytes(), digest_size=16).digest()

    over_blocks(describe, len(graphs), threads=threads, block=BLOCK)
    number_of: dict[bytes | int, int] = {}
    kind = np.array([number_of.setdefault(each, len(number_of)) for each in described], dtype=np.int64)
    return Runs(kind, np.unique(kind, return_index=True)[1], place, shift_ticks)


def share_of_runs(
    tree: PcieTree, graphs: CongestionGraphs, hardware: PacketHardware, *, shard: int, shards: int
) -> NDArray[np.int64]:
    """Return the graphs of one shard, with equivalent graphs in the same shard.

    Parameters
    ----------
    tree, graphs, hardware
        See `simulate_ends`.
    shard, shards : int
        Number of this shard, and number of shards.

    Returns
    -------
    ndarray of int64, shape (share,)
        Numbers of the graphs of this shard.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_pairs([[(0, 1), (0, 4)], [(7, 2), (7, 6)], [(0, 1), (4, 1)]], size_bytes=2**20)
    >>> [share_of_runs(storm8, graphs, HARDWARE["no_split"], shard=shard, shards=2).tolist() for shard in (0, 1)]
    [[0, 1], [2]]
    """
    if shards == 1:
        return np.arange(len(graphs))
    return np.flatnonzero(compare_runs(tree, graphs, hardware).kind % shards == shard)
