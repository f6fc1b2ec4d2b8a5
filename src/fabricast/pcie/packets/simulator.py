"""Packet-level simulation of concurrent PCIe copies: a reference for the models.

A discrete-event simulation of transaction-layer packets: finite buffers with posted header and data credits,
round-robin arbitration, and a root complex that may split packets into smaller ones. The simulator shares only the
topology and its routes with the models. Its results are labelled ``simulated``, never ``measured``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.packets.hardware import CREDIT_BYTES, Clock, PacketHardware, split_hops, tick_clock
from fabricast.pcie.topology.paths import reverse_links
from fabricast.pcie.topology.tree import PcieTree
from fabricast.runtime.threads import over_blocks

if TYPE_CHECKING:
    from fabricast.pcie.packets.kernels.state import Graphs, Hardware, Network

__all__ = [
    "BLOCK",
    "NO_ORDER",
    "CopyOrder",
    "Simulation",
    "kernel_arguments",
    "only_merging_links_decide",
    "phase_of_each",
    "run_packets",
    "simulate_once",
]

_MOST_COMMUNICATIONS = 4096
#: Longest simulated time in ticks, to avoid integer overflow.
_MOST_TICKS = 2**60


@dataclass(frozen=True)
class Simulation:
    """Result of a packet-level simulation of a set of graphs.

    Parameters
    ----------
    end_tick : ndarray of int64, shape (copies,)
        Tick at which the last packet of each copy has arrived.
    link_packets : ndarray of int64, shape (graphs, links)
        Number of packets that each link has transmitted, whole or split.
    least_credits : ndarray of int64, shape (graphs, 2)
        Minimum of available header credits and data credits over all buffers and times.
    simulated_ticks, skipped_ticks : ndarray of int64, shape (graphs,)
        Ticks that were simulated packet by packet, and ticks that were skipped as exact repetitions.
    tick_s : float
        Duration of a tick in s.
    """

    end_tick: NDArray[np.int64]
    link_packets: NDArray[np.int64]
    least_credits: NDArray[np.int64]
    simulated_ticks: NDArray[np.int64]
    skipped_ticks: NDArray[np.int64]
    tick_s: float

    @property
    def end_s(self) -> NDArray[np.float64]:
        """Completion time of each copy in s."""
        return np.multiply(self.end_tick, self.tick_s, dtype=np.float64)


@dataclass(frozen=True)
class CopyOrder:
    """Engines, barriers and order of the copies of a program.

    A copy starts when its start time is reached, its engine has a free slot, and all earlier copies of its barriers are
    done.

    Parameters
    ----------
    engine : ndarray of int64, shape (copies,)
        Endpoint whose engine executes each copy; -1 for none.
    barrier : ndarray of int64, shape (copies, 2)
        Barriers of each copy: it waits until all copies in earlier rows with the same value are done; -1 for none.
    flow : ndarray of int64, shape (copies,)
        Number of the flow of each copy.
    pause_s : ndarray of float64, shape (copies,)
        Pause of an engine before each copy in s, if its previous copy belongs to another flow.
    turns : int, default 0
        Number of flows that engines serve in round-robin order; 0 to serve copies in the order of rows.
    occupancy : ndarray of int64, shape (copies,), optional
        Share of its engine that each copy occupies, in thousandths; by default all of it.
    """

    engine: NDArray[np.int64]
    barrier: NDArray[np.int64]
    flow: NDArray[np.int64]
    pause_s: NDArray[np.float64]
    turns: int = 0
    occupancy: NDArray[np.int64] | None = None


_NONE = np.zeros(0, dtype=np.int64)
#: Order of copies without engines and barriers.
NO_ORDER = CopyOrder(_NONE, _NONE.reshape(0, 2), _NONE, np.zeros(0))

#: Number of graphs in each block of work of a thread.
BLOCK = 64


def simulate_once(
    tree: PcieTree,
    graphs: CongestionGraphs,
    hardware: PacketHardware,
    *,
    threads: int = 1,
    fast_forward: bool = True,
    phase: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Simulate each graph packet by packet in one arbitration order.

    Arbiters serve copies round-robin in the order of rows. Whole periods of an exactly repeating state are skipped
    without any effect on the results, because time is an integer number of ticks and the compared state is complete.
    Some graphs are sensitive to the arbitration order; `fabricast.pcie.packets.arbiter_phases.simulate` runs several
    orders.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        Graphs to simulate. Sizes are rounded up to whole packets.
    hardware : PacketHardware
        Packets, links, buffers and root complex.
    threads : int, default 1
        Number of threads.
    fast_forward : bool, default True
        Whether to skip repetitions. Without it, the run time grows with the copy size.
    phase : int, default 0
        Seed of the initial positions of the arbiters; in phase 0 each starts with its first input.
    progress : callable, optional
        Called with the number of graphs finished since its last call.

    Returns
    -------
    Simulation
        Completion times and counters, independent of the number of threads.

    Raises
    ------
    InputError
        If a graph is too wide or too long to simulate, or deadlocks (which cannot occur on a tree).

    References
    ----------
    Link model: Neugebauer et al., "Understanding PCIe performance for end host
    networking", SIGCOMM 2018. Detection of periods: Sedgewick,
    Szymanski and Yao, "The complexity of finding cycles in periodic functions", SIAM J. Computing 1982.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_pairs([[(0, 1)], [(0, 2), (1, 2), (3, 2)]], size_bytes=300 * 2**20)
    >>> end_s = simulate_once(storm8, graphs, HARDWARE["no_split"]).end_s
    >>> [round(float(end / end_s[0]), 3) for end in end_s]
    [1.0, 3.0, 3.0, 2.0]
    """
    run = run_packets(
        tree, graphs, hardware, phase=phase, threads=threads, fast_forward=fast_forward, progress=progress
    )
    return run.simulation


def phase_of_each(graphs: CongestionGraphs, phase: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the phase of each graph, broadcasting a single phase."""
    return np.broadcast_to(np.asarray(phase, dtype=np.int64), len(graphs)).copy()


def only_merging_links_decide(tree: PcieTree, hardware: PacketHardware) -> bool:
    """Return whether links without merging traffic can be replaced by a fixed delay.

    This requires links without latency, store-and-forward switching, no link-layer packets, and buffers for all packets
    that can be between two links.
    """
    clock = tick_clock(tree, hardware)
    if clock.latency or clock.header >= 0 or hardware.link_layer_packets:
        return False
    # Upper limit on packets between two links: one leaves, one arrives, and others queue behind a slow packet.
    packets = 3 + int((clock.wire_ticks.max() + clock.piece_cost) // clock.wire_ticks.min())
    whole = -(-hardware.payload_bytes // CREDIT_BYTES)
    return hardware.header_credits >= packets and hardware.data_credits >= packets * whole


def _checked_starts(
    graphs: CongestionGraphs, packets: NDArray[np.int64], hardware: PacketHardware, clock: Clock
) -> NDArray[np.int64]:
    """Return the start of each copy in ticks.

    Raises `InputError` for graphs that are too wide or too long to simulate.
    """
    widest = int(np.diff(graphs.offset).max(initial=0))
    if widest > _MOST_COMMUNICATIONS:
        largest = graphs.names[int(np.argmax(np.diff(graphs.offset)))]
        raise InputError(
            f"graph '{largest}' has {widest:,} copies, expected at most {_MOST_COMMUNICATIONS:,} to simulate"
        )
    start = np.rint(graphs.start_s / clock.tick_s)
    # Upper limit on the simulated time: all packets cross all links one after another.
    pieces_ticks = hardware.pieces * float(clock.wire_ticks.max() + clock.piece_cost + clock.link_layer.max())
    hop_ticks = pieces_ticks + 2 * clock.latency
    total = np.bincount(graphs.graph_of_communication, weights=packets.astype(np.float64), minlength=len(graphs))
    longest = total * hop_ticks * clock.wire_ticks.shape[1]
    longest += np.maximum.reduceat(start, graphs.offset[:-1]) if len(graphs) else 0
    if longest.size and longest.max() > _MOST_TICKS:
        raise InputError(
            f"graph '{graphs.names[int(np.argmax(longest))]}' is too long to simulate packet by packet; use smaller "
            "sizes or earlier starts"
        )
    return start.astype(np.int64)


def kernel_arguments(
    tree: PcieTree, graphs: CongestionGraphs, hardware: PacketHardware, order: CopyOrder
) -> tuple[Graphs, Network, Hardware, Clock]:
    """Return graphs, routes and hardware as kernel arguments, and the clock of their ticks."""
    from fabricast.pcie.packets.kernels.state import Graphs, Hardware, Network

    clock, routes = tick_clock(tree, hardware), tree.routes
    packets = np.maximum(1, np.ceil(graphs.size_bytes / hardware.payload_bytes)).astype(np.int64)
    credit_units = np.array(
        [
            -(-payload // CREDIT_BYTES)
            for payload in (hardware.payload_bytes, hardware.split_bytes or hardware.payload_bytes)
        ],
        dtype=np.int64,
    )
    arrays = Graphs(
        offset=graphs.offset,
        source=graphs.source,
        target=graphs.target,
        packets=packets,
        start_tick=_checked_starts(graphs, packets, hardware, clock),
        engine=order.engine,
        barrier=order.barrier,
        flow=order.flow,
        occupancy=np.full(order.engine.size, 1000) if order.occupancy is None else order.occupancy,
        pause_ticks=np.rint(order.pause_s / clock.tick_s).astype(np.int64),
        turns=order.turns,
    )
    network = Network(
        endpoints=routes.endpoints,
        route_offset=routes.offset,
        route_link=routes.link,
        longest_route=int(np.diff(routes.offset).max()),
        split_hop=split_hops(tree, hardware),
        reverse_link=reverse_links(tree),
    )
    ticks = Hardware(
        wire_ticks=clock.wire_ticks,
        piece_cost_ticks=clock.piece_cost,
        latency_ticks=clock.latency,
        header_ticks=clock.header,
        pieces=hardware.pieces,
        virtual_output_queues=hardware.buffering == "virtual_output_queues",
        header_credits=hardware.header_credits,
        data_credits=hardware.data_credits,
        credit_units=credit_units,
        link_layer_ticks=clock.link_layer,
    )
    return arrays, network, ticks, clock


@dataclass(frozen=True)
class PacketRun:
    """Results of one call of the simulator kernel.

    Parameters
    ----------
    simulation : Simulation
        Completion times and link statistics.
    trace : ndarray of int64, shape (transmissions, 5)
        Transmissions of a single graph; empty without a trace.
    milestones : ndarray of int64
        Payload at the start, at the last packet and at the end of each copy; empty without a trace.
    """

    simulation: Simulation
    trace: NDArray[np.int64]
    milestones: NDArray[np.int64]


def run_packets(
    tree: PcieTree,
    graphs: CongestionGraphs,
    hardware: PacketHardware,
    *,
    phase: int | NDArray[np.int64] = 0,
    order: CopyOrder = NO_ORDER,
    threads: int = 1,
    fast_forward: bool = True,
    ends_only: bool = False,
    trace_rows: int = 0,
    progress: Callable[[int], None] | None = None,
) -> PacketRun:
    """Simulate graphs with the packet-level kernel.

    Parameters
    ----------
    tree, graphs, hardware, threads, fast_forward, progress
        See `simulate_once`.
    phase : int or ndarray of int64, default 0
        Arbitration phase of all graphs, or of each graph.
    order : CopyOrder, optional
        Engines, barriers and order of copies; by default all copies start independently.
    ends_only : bool, default False
        Whether to shorten routes: only completion times are then valid.
    trace_rows : int, default 0
        Number of transmissions to record, for a single graph.

    Returns
    -------
    PacketRun
        Completion times, trace and milestones.

    Raises
    ------
    InputError
        If a graph is too wide or too long to simulate, or deadlocks.
    """
    from fabricast.pcie.packets.kernels.simulator import simulate_graphs
    from fabricast.pcie.packets.kernels.state import Results

    arrays, network, ticks, clock = kernel_arguments(tree, graphs, hardware, order)
    phases = phase_of_each(graphs, phase)
    widest = int(np.diff(graphs.offset).max(initial=0))
    results = Results(
        end_tick=np.full(graphs.source.size, -1, dtype=np.int64),
        link_packets=np.zeros((len(graphs), len(tree.link_names)), dtype=np.int64),
        least_credits=np.zeros((len(graphs), 2), dtype=np.int64),
        simulated_ticks=np.zeros(len(graphs), dtype=np.int64),
        trace=np.full((trace_rows, 5), -1, dtype=np.int64),
        # Each copy has three milestones: start, last packet sent, end.
        milestones=np.full((3 * widest if trace_rows else 0, 1 + widest), -1, dtype=np.int64),
    )
    over_blocks(
        lambda first, last: simulate_graphs(
            first, last, arrays, network, ticks, fast_forward, ends_only, phases, results
        ),
        len(graphs),
        threads=threads,
        block=BLOCK,
        progress=progress,
    )
    stuck = np.flatnonzero(results.end_tick < 0)
    if stuck.size:
        graph = int(np.searchsorted(graphs.offset, stuck[0], side="right")) - 1
        raise InputError(f"graph '{graphs.names[graph]}' deadlocks: no packet can move")
    last_tick = np.maximum.reduceat(results.end_tick, graphs.offset[:-1]) if len(graphs) else results.end_tick
    simulation = Simulation(
        results.end_tick,
        results.link_packets,
        results.least_credits,
        results.simulated_ticks,
        last_tick - results.simulated_ticks,
        clock.tick_s,
    )
    return PacketRun(simulation, results.trace, results.milestones)
