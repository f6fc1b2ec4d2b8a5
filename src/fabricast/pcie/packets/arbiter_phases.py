"""Packet-level simulation over several arbitration phases.

The arbitration order and initial arbiter state are unknown, and some graphs are sensitive to them. The results must not
depend on the order of rows or on the names of endpoints. The copies of each graph are therefore sorted into a canonical
order, and each graph runs in several phases: permutations of that order with different initial arbiter states. Copies
that share no links are simulated separately.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_pairs, joined
from fabricast.pcie.graphs.rates import CopyTimes
from fabricast.pcie.packets.equivalent_runs import simulate_ends
from fabricast.pcie.packets.hardware import HARDWARE, PacketHardware
from fabricast.pcie.topology.paths import reverse_links
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.symmetry import shape_arrays
from fabricast.pcie.topology.tree import PcieTree

#: Number of phases for each graph, and for graphs with different completion times in these phases.
_FIRST_PHASES, _ALL_PHASES = 3, 9
#: Relative range of completion times up to which a graph counts as insensitive to the phase.
_AGREED = 1e-3


def simulate(
    tree: PcieTree,
    graphs: CongestionGraphs,
    hardware: PacketHardware,
    *,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> CopyTimes:
    """Simulate each graph packet by packet in several arbitration phases.

    Each graph runs in three phases. If completion times differ by more than 0.1 %, the graph runs in nine phases.
    Completion times of copies that are equivalent by a symmetry of tree and graph are pooled.

    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_pairs([[(0, 1)], [(0, 2), (1, 2), (3, 2)]], size_bytes=300 * 2**20)
    >>> end_s = simulate(storm8, graphs, HARDWARE["no_split"]).end_s
    >>> [round(float(end / end_s[0]), 3) for end in end_s]
    [1.0, 3.0, 3.0, 2.0]
    """
    if not len(graphs):
        return CopyTimes(np.zeros(0), np.zeros(0), np.zeros(0))
    parts, row_of, alike = _in_order_of_form(tree, graphs, _components(tree, graphs, hardware))

    def run(some: CongestionGraphs, phases: range, advance: Callable[[int], None] | None) -> NDArray[np.float64]:
        # All phases go into one call, because runs of a graph in different phases are often equivalent.
        orders = [_shuffled(some, phase) for phase in phases]
        every = joined([_reordered(some, order) for order in orders])
        phase_of_graph = np.repeat(np.array(phases, dtype=np.int64), len(some))
        times_s = simulate_ends(tree, every, hardware, threads=threads, phase=phase_of_graph, progress=advance)
        ends = np.empty((len(phases), some.source.size))
        for row, order, phase_s in zip(ends, orders, np.split(times_s, len(phases)), strict=True):
            row[order] = phase_s
        return ends

    # Progress is reported in graphs: runs of all phases and components are scaled to the number of graphs.
    done = 0

    def advance(finished: int) -> None:
        nonlocal done
        before, done = done, done + finished
        total = _FIRST_PHASES * len(parts)
        if progress is not None:
            progress(done * len(graphs) // total - before * len(graphs) // total)

    ends = run(parts, range(_FIRST_PHASES), advance)
    low, high, middle = _pooled(ends, parts, alike)
    unsure = np.flatnonzero(np.logical_or.reduceat(high > low * (1 + _AGREED), parts.offset[:-1]))
    if unsure.size:
        rows = parts.rows_of(unsure)
        more = run(parts.chosen(unsure), range(_FIRST_PHASES, _ALL_PHASES), None)
        every = np.concatenate([ends[:, rows], more])
        low[rows], high[rows], middle[rows] = _pooled(every, parts.chosen(unsure), alike[rows])
    # Restore the order of rows.
    times_s = np.empty((3, row_of.size))
    times_s[:, row_of] = np.stack([middle, low, high])
    return CopyTimes(*times_s)


def _components(tree: PcieTree, graphs: CongestionGraphs, hardware: PacketHardware) -> NDArray[np.int64]:
    """Return the first copy of the connected component of each copy."""
    from fabricast.pcie.packets.kernels.order import number_components

    routes = tree.routes
    link_itself = np.arange(len(tree.link_names), dtype=np.int64)
    component = np.empty(graphs.source.size, dtype=np.int64)
    number_components(
        graphs.offset,
        graphs.source,
        graphs.target,
        routes.endpoints,
        routes.offset,
        routes.link,
        reverse_links(tree) if hardware.link_layer_packets else link_itself,
        component,
    )
    return component


def _in_order_of_form(
    tree: PcieTree, graphs: CongestionGraphs, component: NDArray[np.int64]
) -> tuple[CongestionGraphs, NDArray[np.int64], NDArray[np.uint64]]:
    """Return components as graphs in canonical order, with rows and equivalence classes."""
    from fabricast.pcie.packets.kernels.order import order_communications

    rows = np.argsort(component, kind="stable")
    begins = np.flatnonzero(np.diff(component[rows], prepend=-1))
    offset = np.concatenate([begins, [rows.size]]).astype(np.int64)
    named = graphs.graph_of_communication[rows[begins]]
    parts = CongestionGraphs(
        names=tuple(graphs.names[number] for number in named),
        families=("user",) * begins.size,
        offset=offset,
        source=graphs.source[rows],
        target=graphs.target[rows],
        size_bytes=graphs.size_bytes[rows],
        start_s=graphs.start_s[rows],
    )
    order = np.empty(rows.size, dtype=np.int64)
    alike = np.empty(rows.size, dtype=np.uint64)
    order_communications(offset, parts.source, parts.target, _keys(parts), *shape_arrays(tree), order, alike)
    return _reordered(parts, order), rows[order], alike[order]


def _keys(graphs: CongestionGraphs) -> NDArray[np.uint64]:
    """Return a hash of size and start time of each copy."""
    return graphs.size_bytes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + graphs.start_s.view(np.uint64)


def _shuffled(graphs: CongestionGraphs, phase: int) -> NDArray[np.int64]:
    """Return a pseudo-random permutation of the copies within each graph."""
    if phase == 0:
        return np.arange(graphs.source.size)
    position = graphs.number_in_graph.astype(np.uint64) + np.uint64(1)
    mixed = position * np.uint64(0x9E3779B97F4A7C15) + np.uint64(phase * 0xBF58476D1CE4E5B9 % 2**64)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(29)
    return np.lexsort((mixed, graphs.graph_of_communication))


def _reordered(graphs: CongestionGraphs, order: NDArray[np.int64]) -> CongestionGraphs:
    """Return the graphs with reordered copies."""
    return CongestionGraphs(
        graphs.names,
        graphs.families,
        graphs.offset,
        graphs.source[order],
        graphs.target[order],
        graphs.size_bytes[order],
        graphs.start_s[order],
    )


def _pooled(
    ends: NDArray[np.float64], graphs: CongestionGraphs, alike: NDArray[np.uint64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return minimum, maximum and median completion times over phases and equivalent copies."""
    phases = ends.shape[0]
    # A group is the set of equivalent copies of one graph.
    graph = graphs.graph_of_communication
    sort = np.lexsort((alike, graph))
    begins = np.diff(graph[sort], prepend=-1).astype(bool) | (np.diff(alike[sort], prepend=alike[sort][:1]) != 0)
    group = np.empty(sort.size, dtype=np.int64)
    group[sort] = np.cumsum(begins) - 1
    counts = np.bincount(group) * phases
    flat = ends.T.ravel()
    values = flat[np.lexsort((flat, np.repeat(group, phases)))]
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    middle = (values[first + (counts - 1) // 2] + values[first + counts // 2]) / 2
    return values[first][group], values[first + counts - 1][group], middle[group]


def warm_up() -> None:
    """Compile the simulator kernels or load them from the cache."""
    simulate(regular_tree("pair", (2,)), from_pairs([[(0, 1)]], size_bytes=1.0), HARDWARE["no_split"])
