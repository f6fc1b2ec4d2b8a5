"""Ends of packet simulations, of which those that proceed alike are run once."""

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

#: Graphs of more communications are not compared: hardly two of them proceed alike.
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
    """Return when communications end as `fabricast.pcie.packets.simulator.simulate_once` does, in less of its time.

    Links at which nothing is decided are left out, where buffers take a few packets and links add no delay. Runs that
    proceed alike, because what decides them is the same, are simulated once.

    Parameters
    ----------
    tree, graphs, hardware, threads, progress
        As for `fabricast.pcie.packets.simulator.simulate_once`.
    phase : int or ndarray of int64, shape (graphs,), default 0
        Where the arbiters stand at the start, of all graphs or of each.

    Returns
    -------
    ndarray of float64, shape (communications,)
        The same numbers, to the last bit.

    Raises
    ------
    InputError
        As `simulate_once`.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_arcs
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.packets.simulator import simulate_once
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_arcs([[(0, 1), (0, 4), (2, 5)], [(6, 1), (4, 3), (4, 5)]], size_bytes=2**20)
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

    simulation, _, _ = run_packets(
        tree, few, hardware, threads, True, advance, 0, phases[runs.first],
        ends_only=only_merging_links_decide(tree, hardware),
    )  # fmt: skip
    # From the run that was simulated, by place, to those that proceed alike.
    unshifted = np.empty(few.source.size, dtype=np.int64)
    rows = graphs.rows_of(runs.first)
    unshifted[few.offset[few.graph_of_communication] + runs.place[rows]] = simulation.end_tick - runs.shift_ticks[rows]
    same = few.offset[runs.kind[graphs.graph_of_communication]] + runs.place
    end_tick: NDArray[np.int64] = unshifted[same] + runs.shift_ticks
    return np.multiply(end_tick, simulation.tick_s, dtype=np.float64)


@dataclass(frozen=True)
class Runs:
    """Which runs proceed alike.

    Parameters
    ----------
    kind : ndarray of int64, shape (graphs,)
        Number of the kind of each run, in the order in which kinds appear.
    first : ndarray of int64, shape (kinds,)
        The first graph of each kind.
    place : ndarray of int64, shape (communications,)
        Communications of two runs of a kind that stand at the same place proceed alike.
    shift_ticks : ndarray of int64, shape (communications,)
        By how much each of them ends later than what is alike.
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
    """Find the runs that proceed alike, because what decides them is the same.

    Parameters
    ----------
    tree, graphs, hardware, threads, phase
        As for `simulate_ends`. A graph of more than 64 communications is taken to be alike to none.

    Returns
    -------
    Runs
        Kinds of runs.

    Raises
    ------
    InputError
        If a graph is too wide or too long to simulate.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_arcs
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_arcs([[(0, 1), (0, 4)], [(7, 2), (7, 6)], [(0, 1), (4, 1)]], size_bytes=2**20)
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
        for graph, own, count in zip(range(first, last), words, used.tolist(), strict=True):
            if count:
                described[graph] = hashlib.blake2b(own[:count].tobytes(), digest_size=16).digest()

    over_blocks(describe, len(graphs), threads=threads, block=BLOCK)
    number_of: dict[bytes | int, int] = {}
    kind = np.array([number_of.setdefault(each, len(number_of)) for each in described], dtype=np.int64)
    return Runs(kind, np.unique(kind, return_index=True)[1], place, shift_ticks)


def share_of_runs(
    tree: PcieTree, graphs: CongestionGraphs, hardware: PacketHardware, *, shard: int, shards: int
) -> NDArray[np.int64]:
    """Share graphs out among jobs, those that proceed alike to one of them.

    Parameters
    ----------
    tree, graphs, hardware
        As for `simulate_ends`.
    shard, shards : int
        Number of the job and of all jobs.

    Returns
    -------
    ndarray of int64, shape (share,)
        Numbers of the graphs of this job.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_arcs
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_arcs([[(0, 1), (0, 4)], [(7, 2), (7, 6)], [(0, 1), (4, 1)]], size_bytes=2**20)
    >>> [share_of_runs(storm8, graphs, HARDWARE["no_split"], shard=shard, shards=2).tolist() for shard in (0, 1)]
    [[0, 1], [2]]
    """
    if shards == 1:
        return np.arange(len(graphs))
    return np.flatnonzero(compare_runs(tree, graphs, hardware).kind % shards == shard)
