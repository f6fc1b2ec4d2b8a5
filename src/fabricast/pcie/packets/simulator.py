"""Packet-level simulation of concurrent PCIe transfers, the independent reference of the models.

A discrete-event simulation of transaction-layer packets: finite buffers with posted
header and data credits, round-robin arbitration, a root complex that may cut packets
into smaller ones. It shares the topology and its routes with the models, nothing else.
Its results are of kind ``simulated``, never measured.
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
#: The longest run that whole ticks can hold.
_MOST_TICKS = 2**60


@dataclass(frozen=True)
class Simulation:
    """What the simulator says of a set of graphs.

    Parameters
    ----------
    end_tick : ndarray of int64, shape (communications,)
        When the last packet of each communication has arrived, from time 0.
    link_packets : ndarray of int64, shape (graphs, links)
        Packets and pieces that each link carried.
    least_credits : ndarray of int64, shape (graphs, 2)
        Fewest header and data credits that any buffer ever had left.
    simulated_ticks, skipped_ticks : ndarray of int64, shape (graphs,)
        Time that was simulated packet by packet, and skipped as exact repetition.
    tick_s : float
        Duration of a tick.
    """

    end_tick: NDArray[np.int64]
    link_packets: NDArray[np.int64]
    least_credits: NDArray[np.int64]
    simulated_ticks: NDArray[np.int64]
    skipped_ticks: NDArray[np.int64]
    tick_s: float

    @property
    def end_s(self) -> NDArray[np.float64]:
        """`end_tick` in seconds, float64."""
        return np.multiply(self.end_tick, self.tick_s, dtype=np.float64)


@dataclass(frozen=True)
class CopyOrder:
    """What communications wait for, beside their time: an engine of an endpoint, and those before them.

    Parameters
    ----------
    engine : ndarray of int64, shape (communications,)
        Endpoint whose engine executes each, one at a time; -1 for none.
    barrier : ndarray of int64, shape (communications,)
        Destination into which each waits until those in earlier rows are done; -1 for none.
    flow : ndarray of int64, shape (communications,)
        Number of the flow that each belongs to.
    pause_s : ndarray of float64, shape (communications,)
        Pause of an engine that changes to it from another flow.
    turns : int, default 0
        Number of flows among which engines take turns; 0 if they keep the order of rows.
    """

    engine: NDArray[np.int64]
    barrier: NDArray[np.int64]
    flow: NDArray[np.int64]
    pause_s: NDArray[np.float64]
    turns: int = 0


_NONE = np.zeros(0, dtype=np.int64)
#: Communications that wait for nothing.
NO_ORDER = CopyOrder(_NONE, _NONE, _NONE, np.zeros(0))

#: Graphs that a thread takes at a time.
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
    """Simulate every graph packet by packet, arbiters taking turns in the order of rows.

    Whole periods of an exactly repeating state are skipped, which changes no result:
    time is counted in whole ticks and the compared state is complete. Some graphs are
    sensitive to the order of turns: `fabricast.pcie.packets.arbiter_phases.simulate` runs several.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        The graphs; sizes are rounded up to whole packets.
    hardware : PacketHardware
        Packets, links, buffers and root complex.
    threads : int, default 1
        Threads to use.
    fast_forward : bool, default True
        Whether to skip repetitions; without, time grows with the message size.
    phase : int, default 0
        Where the arbiters stand at the start.
    progress : callable, optional
        Called with the number of graphs that were finished since the last call.

    Returns
    -------
    Simulation
        End times and counters; identical for any number of threads.

    Raises
    ------
    InputError
        If a graph deadlocks, which a tree does not, or is too long to count in ticks.

    References
    ----------
    Link model: Neugebauer et al., "Understanding PCIe performance for end host
    networking", SIGCOMM 2018. Detection of periods: Sedgewick,
    Szymanski and Yao, "The complexity of finding cycles in periodic functions", SIAM J. Computing 1982.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_arcs
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_arcs([[(0, 1)], [(0, 2), (1, 2), (3, 2)]], size_bytes=300 * 2**20)
    >>> end_s = simulate_once(storm8, graphs, HARDWARE["no_split"]).end_s
    >>> [round(float(end / end_s[0]), 3) for end in end_s]
    [1.0, 3.0, 3.0, 2.0]
    """
    simulation, _, _ = run_packets(tree, graphs, hardware, threads, fast_forward, progress, 0, phase)
    return simulation


def phase_of_each(graphs: CongestionGraphs, phase: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a phase for each graph: the same, or its own."""
    return np.broadcast_to(np.asarray(phase, dtype=np.int64), len(graphs)).copy()


def only_merging_links_decide(tree: PcieTree, hardware: PacketHardware) -> bool:
    """Tell whether a link that others do not merge into only adds its time to every packet."""
    clock = tick_clock(tree, hardware)
    if clock.latency or clock.header >= 0 or hardware.link_layer_packets:
        return False
    # So many packets are between two links at most: one leaves, one arrives, others catch up behind a slow one.
    packets = 3 + int((clock.wire_ticks.max() + clock.piece_cost) // clock.wire_ticks.min())
    whole = -(-hardware.payload_bytes // CREDIT_BYTES)
    return hardware.header_credits >= packets and hardware.data_credits >= packets * whole


def _checked_starts(
    graphs: CongestionGraphs, packets: NDArray[np.int64], hardware: PacketHardware, clock: Clock
) -> NDArray[np.int64]:
    """Return when each communication starts, in ticks; refuse graphs too wide or too long to simulate."""
    widest = int(np.diff(graphs.offset).max(initial=0))
    if widest > _MOST_COMMUNICATIONS:
        largest = graphs.names[int(np.argmax(np.diff(graphs.offset)))]
        raise InputError(
            f"graph '{largest}' has {widest:,} communications, expected at most {_MOST_COMMUNICATIONS:,} to simulate"
        )
    start = np.rint(graphs.start_s / clock.tick_s)
    # Every packet once over every link, one after the other, is longer than any run.
    pieces_ticks = hardware.pieces * float(clock.wire_ticks.max() + clock.piece_cost + clock.link_layer.max())
    hop_ticks = pieces_ticks + 2 * clock.latency
    total = np.bincount(graphs.graph_of_communication, weights=packets.astype(np.float64), minlength=len(graphs))
    longest = total * hop_ticks * clock.wire_ticks.shape[1]
    longest += np.maximum.reduceat(start, graphs.offset[:-1]) if len(graphs) else 0
    if longest.size and longest.max() > _MOST_TICKS:
        raise InputError(
            f"graph '{graphs.names[int(np.argmax(longest))]}' is too long to count packet by packet, expected smaller "
            "sizes or earlier starts"
        )
    return start.astype(np.int64)


def kernel_arguments(
    tree: PcieTree, graphs: CongestionGraphs, hardware: PacketHardware, order: CopyOrder
) -> tuple[Graphs, Network, Hardware, Clock]:
    """Return graphs, routes and hardware as the kernels take them, in whole ticks."""
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
        offset=graphs.offset, source=graphs.source, target=graphs.target, packets=packets,
        start_tick=_checked_starts(graphs, packets, hardware, clock),
        engine=order.engine, barrier=order.barrier, flow=order.flow,
        pause_ticks=np.rint(order.pause_s / clock.tick_s).astype(np.int64), turns=order.turns,
    )  # fmt: skip
    network = Network(
        endpoints=routes.endpoints, route_offset=routes.offset, route_link=routes.link,
        longest_route=int(np.diff(routes.offset).max()), split_hop=split_hops(tree, hardware),
        reverse_link=reverse_links(tree),
    )  # fmt: skip
    ticks = Hardware(
        wire_ticks=clock.wire_ticks, piece_cost_ticks=clock.piece_cost, latency_ticks=clock.latency,
        header_ticks=clock.header, pieces=hardware.pieces,
        virtual_output_queues=hardware.buffering == "virtual_output_queues",
        header_credits=hardware.header_credits, data_credits=hardware.data_credits, credit_units=credit_units,
        link_layer_ticks=clock.link_layer,
    )  # fmt: skip
    return arrays, network, ticks, clock


def run_packets(
    tree: PcieTree,
    graphs: CongestionGraphs,
    hardware: PacketHardware,
    threads: int,
    fast_forward: bool,
    progress: Callable[[int], None] | None,
    trace_rows: int,
    phase: int | NDArray[np.int64],
    order: CopyOrder = NO_ORDER,
    ends_only: bool = False,
) -> tuple[Simulation, NDArray[np.int64], NDArray[np.int64]]:
    """Simulate graphs, with the trace and the milestones of the first of them if rows are given for a trace."""
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
        # A source starts, drains and ends once.
        milestones=np.full((3 * widest if trace_rows else 0, 1 + widest), -1, dtype=np.int64),
    )
    over_blocks(
        lambda first, last: simulate_graphs(
            first, last, arrays, network, ticks, fast_forward, ends_only, phases, results
        ),
        len(graphs), threads=threads, block=BLOCK, progress=progress,
    )  # fmt: skip
    stuck = np.flatnonzero(results.end_tick < 0)
    if stuck.size:
        graph = int(np.searchsorted(graphs.offset, stuck[0], side="right")) - 1
        raise InputError(f"graph '{graphs.names[graph]}' deadlocks: no packet can move")
    last_tick = np.maximum.reduceat(results.end_tick, graphs.offset[:-1]) if len(graphs) else results.end_tick
    simulation = Simulation(
        results.end_tick, results.link_packets, results.least_credits, results.simulated_ticks,
        last_tick - results.simulated_ticks, clock.tick_s,
    )  # fmt: skip
    return simulation, results.trace, results.milestones
