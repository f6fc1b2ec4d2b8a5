"""Packet-level simulation of concurrent PCIe transfers, the independent reference of the models.

A discrete-event simulation of transaction-layer packets: finite buffers with posted
header and data credits, round-robin arbitration, a root complex that may cut packets
into smaller ones. It shares the topology and its routes with the models, nothing else.
Its results are of kind ``simulated``, never measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.errors import InputError
from fabricast.pcie.graphs import CongestionGraphs
from fabricast.pcie.tree import FASTEST_BYTES_PER_S, SLOWEST_BYTES_PER_S, PcieTree
from fabricast.units import PCIE_WIDTHS, pcie_link_bytes_per_s

__all__ = [
    "HARDWARE",
    "PacketHardware",
    "PacketTrace",
    "Simulation",
    "reverse_links",
    "simulate_once",
    "solo_time_s",
    "split_hops",
    "trace_packets",
]

_CREDIT_BYTES = 16
_MOST_COMMUNICATIONS = 4096
#: Finest part of a byte time that is counted, and the longest run that whole ticks can hold.
_FINEST_SCALE, _MOST_TICKS = 100_000, 2**60
#: One 8-byte link-layer packet travels against so many bytes of data, by payload
#: (pcie-bench/pcie-model; Intel and PLX flow-control limits).
_LINK_LAYER_BYTES = 8
_LINK_LAYER_INTERVAL_BYTES = {64: 144, 128: 144, 256: 168, 512: 168}


@dataclass(frozen=True)
class PacketHardware:
    """What the simulator knows of the hardware.

    Parameters
    ----------
    payload_bytes : {128, 256, 512}, default 256
        Largest payload of a packet.
    header_bytes : int, default 24
        Framing, sequence number, header with 64-bit address and checksum of a packet.
    generation : {1, 2, 3, 4, 5, 6}, default 3
        PCIe generation of a link of capacity 1.
    width : int, default 16
        Lanes of a link of capacity 1.
    link_bytes_per_s : float, optional
        Raw rate of a link of capacity 1, in place of generation and width.
    split_bytes : int or None, default None
        Payload of the pieces into which a root complex cuts peer-to-peer writes.
    piece_cost_ns : float, default 0
        Time that the root complex needs for each piece, beyond its bytes.
    buffering : {'fifo', 'virtual_output_queues'}
        Whether a blocked packet blocks those behind it, or only those for the same output.
    switching : {'store_and_forward', 'cut_through'}
        Whether a packet leaves a switch after its tail or after its header arrived.
    hop_latency_ns : float, default 0
        Delay of a packet, and of a returned credit, on each link.
    header_credits : int, default 64
        Posted-header credits of each input buffer (Xeon C5500: 64).
    data_credits : int, default 320
        Posted-data credits of 16 bytes of each input buffer (Xeon C5500: 320).
    link_layer_packets : bool, default False
        Whether acknowledgements and credit updates take a share of links loaded both ways.

    Raises
    ------
    InputError
        If a value is outside what PCIe allows.

    Examples
    --------
    >>> round(PacketHardware().raw_bytes_per_s / 1e9, 3)
    15.754
    >>> PacketHardware(payload_bytes=300)
    Traceback (most recent call last):
    fabricast.errors.InputError: payload_bytes is 300, expected 128, 256 or 512
    """

    payload_bytes: int = 256
    header_bytes: int = 24
    generation: int = 3
    width: int = 16
    split_bytes: int | None = None
    piece_cost_ns: float = 0.0
    buffering: Literal["fifo", "virtual_output_queues"] = "fifo"
    switching: Literal["store_and_forward", "cut_through"] = "store_and_forward"
    hop_latency_ns: float = 0.0
    header_credits: int = 64
    data_credits: int = 320
    link_layer_packets: bool = False
    link_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        def refuse(name: str, expected: str) -> None:
            raise InputError(f"{name} is {getattr(self, name)}, expected {expected}")

        if self.payload_bytes not in (128, 256, 512):
            refuse("payload_bytes", "128, 256 or 512")
        if self.split_bytes is not None and (
            self.split_bytes not in (64, 128, 256) or self.split_bytes >= self.payload_bytes
        ):
            refuse("split_bytes", f"64, 128 or 256, and less than payload_bytes ({self.payload_bytes})")
        if not 1 <= self.generation <= 6:
            refuse("generation", "1 to 6")
        if self.width not in PCIE_WIDTHS:
            refuse("width", f"one of {', '.join(map(str, PCIE_WIDTHS))}")
        if (
            self.link_bytes_per_s is not None
            and not SLOWEST_BYTES_PER_S <= self.link_bytes_per_s <= FASTEST_BYTES_PER_S
        ):
            refuse("link_bytes_per_s", f"{SLOWEST_BYTES_PER_S:g} to {FASTEST_BYTES_PER_S:g}")
        for name in ("header_bytes", "header_credits"):
            if not 1 <= getattr(self, name) <= 4096:
                refuse(name, "1 to 4096")
        if self.data_credits > 1 << 20:
            refuse("data_credits", f"at most {1 << 20:,}")
        if self.data_credits * _CREDIT_BYTES < self.payload_bytes:
            refuse("data_credits", f"at least {self.payload_bytes // _CREDIT_BYTES}, one whole packet")
        for name in ("piece_cost_ns", "hop_latency_ns"):
            if not 0 <= getattr(self, name) < 1e6:
                refuse(name, "a time from 0 to below 1,000,000")
        if self.buffering not in ("fifo", "virtual_output_queues"):
            refuse("buffering", "fifo or virtual_output_queues")
        if self.switching not in ("store_and_forward", "cut_through"):
            refuse("switching", "store_and_forward or cut_through")

    @property
    def raw_bytes_per_s(self) -> float:
        """Bytes that a link of capacity 1 carries per second, headers included."""
        return self.link_bytes_per_s or pcie_link_bytes_per_s(self.generation, self.width)

    def on(self, tree: PcieTree) -> PacketHardware:
        """Return the same hardware with the link rate that a topology records, if it records one."""
        return self if tree.link_bytes_per_s is None else replace(self, link_bytes_per_s=tree.link_bytes_per_s)

    @property
    def packet_bytes(self) -> tuple[int, int]:
        """Bytes on the wire of a whole packet and of a piece behind the root complex."""
        return self.payload_bytes + self.header_bytes, (self.split_bytes or self.payload_bytes) + self.header_bytes

    @property
    def pieces(self) -> int:
        """Pieces that the root complex makes of a packet."""
        return self.payload_bytes // (self.split_bytes or self.payload_bytes)


#: Settings under which the models are validated (the constants are discussed in the report).
HARDWARE = {
    "no_split": PacketHardware(),
    "split_256_128": PacketHardware(split_bytes=128),
    "split_128_64": PacketHardware(payload_bytes=128, split_bytes=64),
    "split_256_64": PacketHardware(split_bytes=64),
}


@dataclass(frozen=True)
class Simulation:
    """What the simulator says of a set of graphs.

    Parameters
    ----------
    end_s : ndarray of float64, shape (communications,)
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

    end_s: NDArray[np.float64]
    link_packets: NDArray[np.int64]
    least_credits: NDArray[np.int64]
    simulated_ticks: NDArray[np.int64]
    skipped_ticks: NDArray[np.int64]
    tick_s: float


@dataclass(frozen=True)
class _Clock:
    """All durations as whole ticks; a tick is the largest time that divides them all."""

    tick_s: float
    wire_ticks: NDArray[np.int64]
    piece_cost: int
    latency: int
    header: int
    link_layer: NDArray[np.int64]


def _clock(tree: PcieTree, hardware: PacketHardware) -> _Clock:
    capacities = [Fraction(float(capacity)).limit_denominator(1000) for capacity in tree.routes.capacity]
    services = [[size / capacity for capacity in capacities] for size in hardware.packet_bytes]
    flat = [service for row in services for service in row]
    # Capacities without a common measure are rounded to a fine part of a byte time.
    scale = min(math.lcm(*(service.denominator for service in flat)), _FINEST_SCALE)
    unit = Fraction(math.gcd(*(round(service * scale) for service in flat)), scale)
    extras = (hardware.hop_latency_ns, hardware.piece_cost_ns, hardware.link_layer_packets)
    if any(extras) or hardware.switching == "cut_through":
        # Times that bytes do not give are rounded to one byte time (63 ps on Gen3 x16).
        unit = Fraction(math.gcd(int(unit * scale), scale), scale)
    byte_s = 1 / hardware.raw_bytes_per_s

    def ticks(duration_bytes: float | Fraction) -> int:
        return round(Fraction(duration_bytes) / unit)

    link_layer = [
        [
            ticks(
                size / capacity * Fraction(_LINK_LAYER_BYTES, _LINK_LAYER_INTERVAL_BYTES[payload])
                if hardware.link_layer_packets
                else 0
            )
            for capacity in capacities
        ]
        for size, payload in zip(
            hardware.packet_bytes,
            (hardware.payload_bytes, hardware.split_bytes or hardware.payload_bytes),
            strict=True,
        )
    ]
    return _Clock(
        tick_s=float(unit) * byte_s,
        wire_ticks=np.array([[ticks(service) for service in row] for row in services], dtype=np.int64),
        piece_cost=ticks(hardware.piece_cost_ns * 1e-9 / byte_s),
        latency=ticks(hardware.hop_latency_ns * 1e-9 / byte_s),
        header=max(1, ticks(hardware.header_bytes)) if hardware.switching == "cut_through" else -1,
        link_layer=np.array(link_layer, dtype=np.int64),
    )


def split_hops(tree: PcieTree, hardware: PacketHardware) -> NDArray[np.int64]:
    """Return from which hop on each route carries pieces: the first that leaves a root complex."""
    names = tree.endpoint_names
    hops = np.full(len(names) ** 2, 2**31, dtype=np.int64)
    if hardware.split_bytes is None:
        return hops
    for pair in range(hops.size):
        source, target = names[pair // len(names)], names[pair % len(names)]
        if source == target:
            continue
        for hop, link in enumerate(tree.route(source, target)):
            if tree.vertex(tree.link_names[link][0]).kind == "root_complex":
                hops[pair] = hop
                break
    return hops


def reverse_links(tree: PcieTree) -> NDArray[np.int64]:
    """Return the number of the opposite of each link."""
    number = {(source, target, port): k for k, (source, target, _, port) in enumerate(tree.link_names)}
    return np.array([number[target, source, port] for source, target, _, port in tree.link_names], dtype=np.int64)


#: Graphs that a thread takes at a time.
_BLOCK = 64


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
    sensitive to the order of turns: `fabricast.pcie.packet_phases.simulate` runs several.

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
    networking", SIGCOMM 2018. Detection of periods: Brent 1980.

    Examples
    --------
    >>> from fabricast.pcie.graphs import from_arcs
    >>> from fabricast.pcie.tree import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_arcs([[(0, 1)], [(0, 2), (1, 2), (3, 2)]], size_bytes=300 * 2**20)
    >>> end_s = simulate_once(storm8, graphs, HARDWARE["no_split"]).end_s
    >>> [round(float(end / end_s[0]), 3) for end in end_s]
    [1.0, 3.0, 3.0, 2.0]
    """
    simulation, _, _ = _simulate(tree, graphs, hardware, threads, fast_forward, progress, 0, phase)
    return simulation


def _simulate(
    tree: PcieTree,
    graphs: CongestionGraphs,
    hardware: PacketHardware,
    threads: int,
    fast_forward: bool,
    progress: Callable[[int], None] | None,
    trace_rows: int,
    phase: int,
) -> tuple[Simulation, NDArray[np.int64], NDArray[np.int64]]:
    from fabricast.pcie.packets_kernels import simulate_graphs

    widest = int(np.diff(graphs.offset).max(initial=0))
    if widest > _MOST_COMMUNICATIONS:
        largest = graphs.names[int(np.argmax(np.diff(graphs.offset)))]
        raise InputError(
            f"graph '{largest}' has {widest:,} communications, expected at most {_MOST_COMMUNICATIONS:,} to simulate"
        )
    clock, routes = _clock(tree, hardware), tree.routes
    links = len(tree.link_names)
    end_tick = np.full(graphs.source.size, -1, dtype=np.int64)
    link_packets = np.zeros((len(graphs), links), dtype=np.int64)
    least_credits = np.zeros((len(graphs), 2), dtype=np.int64)
    simulated_ticks = np.zeros(len(graphs), dtype=np.int64)
    trace = np.full((trace_rows, 5), -1, dtype=np.int64)
    # A source starts, drains and ends once.
    milestones = np.full((3 * widest if trace_rows else 0, 1 + widest), -1, dtype=np.int64)
    packets = np.maximum(1, np.ceil(graphs.size_bytes / hardware.payload_bytes)).astype(np.int64)
    start = np.rint(graphs.start_s / clock.tick_s)
    # Every packet once over every link, one after the other, is longer than any run.
    pieces_ticks = hardware.pieces * float(clock.wire_ticks.max() + clock.piece_cost + clock.link_layer.max())
    hop_ticks = pieces_ticks + 2 * clock.latency
    total = np.bincount(graphs.graph_of_communication, weights=packets.astype(np.float64), minlength=len(graphs))
    longest = total * hop_ticks * links + (np.maximum.reduceat(start, graphs.offset[:-1]) if len(graphs) else 0)
    if longest.size and longest.max() > _MOST_TICKS:
        raise InputError(
            f"graph '{graphs.names[int(np.argmax(longest))]}' is too long to count packet by packet, expected smaller "
            "sizes or earlier starts"
        )
    start_tick = start.astype(np.int64)
    credit_units = np.array(
        [
            -(-payload // _CREDIT_BYTES)
            for payload in (hardware.payload_bytes, hardware.split_bytes or hardware.payload_bytes)
        ],
        dtype=np.int64,
    )
    cut_hops, reverse = split_hops(tree, hardware), reverse_links(tree)

    def run(first: int, last: int) -> int:
        simulate_graphs(
            first,
            last,
            graphs.offset,
            graphs.source,
            graphs.target,
            packets,
            start_tick,
            routes.endpoints,
            routes.offset,
            routes.link,
            int(np.diff(routes.offset).max()),
            cut_hops,
            clock.wire_ticks,
            clock.piece_cost,
            clock.latency,
            clock.header,
            hardware.pieces,
            hardware.buffering == "virtual_output_queues",
            hardware.header_credits,
            hardware.data_credits,
            credit_units,
            reverse,
            clock.link_layer,
            fast_forward,
            phase,
            end_tick,
            link_packets,
            least_credits,
            simulated_ticks,
            trace,
            milestones,
        )
        return last - first

    bounds = [(first, min(first + _BLOCK, len(graphs))) for first in range(0, len(graphs), _BLOCK)]
    with ThreadPoolExecutor(threads) as pool:
        for done in pool.map(lambda bound: run(*bound), bounds):
            if progress is not None:
                progress(done)
    stuck = np.flatnonzero(end_tick < 0)
    if stuck.size:
        graph = int(np.searchsorted(graphs.offset, stuck[0], side="right")) - 1
        raise InputError(f"graph '{graphs.names[graph]}' deadlocks: no packet can move")
    last_tick = np.maximum.reduceat(end_tick, graphs.offset[:-1]) if len(graphs) else end_tick
    return (
        Simulation(
            np.multiply(end_tick, clock.tick_s, dtype=np.float64),
            link_packets,
            least_credits,
            simulated_ticks,
            last_tick - simulated_ticks,
            clock.tick_s,
        ),
        trace,
        milestones,
    )


def solo_time_s(tree: PcieTree, source: str, target: str, size_bytes: float, hardware: PacketHardware) -> float:
    """Return the time of one communication alone in closed form.

    The slowest link works without a pause; the other links each add one packet.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    source, target : str
        Names of the endpoints.
    size_bytes : float
        Message size.
    hardware : PacketHardware
        Hardware with store-and-forward switching and buffers larger than what is in flight.

    Returns
    -------
    float
        Seconds.

    Examples
    --------
    >>> from fabricast.pcie.tree import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> round(solo_time_s(storm8, "0", "1", 300 * 2**20, HARDWARE["no_split"]) * 1e3, 3)
    21.84
    """
    packets = math.ceil(size_bytes / hardware.payload_bytes)
    whole, piece = hardware.packet_bytes
    split = hardware.split_bytes is not None
    byte_s = 1 / hardware.raw_bytes_per_s
    first_packet, slowest, cut = 0.0, 0.0, False
    for link in tree.route(source, target):
        leaves_root_complex = tree.vertex(tree.link_names[link][0]).kind == "root_complex"
        entered = leaves_root_complex and split and not cut
        cut = cut or entered
        capacity = float(tree.routes.capacity[link])
        unit = (piece if cut else whole) / capacity * byte_s + (hardware.piece_cost_ns * 1e-9 if entered else 0.0)
        first_packet += unit + hardware.hop_latency_ns * 1e-9
        units = packets * (hardware.pieces if cut else 1)
        slowest = max(slowest, unit * (units - 1))
    return first_packet + slowest


@dataclass(frozen=True)
class PacketTrace:
    """What happens on the links while one graph runs, arbiters taking turns in the order of rows.

    Parameters
    ----------
    transmissions : pandas.DataFrame
        First transmissions: communication, link, number (on that link), start_s, end_s.
    rates : pandas.DataFrame
        Mean payload rates between starts and ends of communications: communication, start_s,
        end_s, bytes_per_s.
    end_s : ndarray of float64, shape (communications,)
        When each communication ends.
    """

    transmissions: pd.DataFrame
    rates: pd.DataFrame
    end_s: NDArray[np.float64]


def trace_packets(
    tree: PcieTree, graphs: CongestionGraphs, graph: int, hardware: PacketHardware, *, transmissions: int
) -> PacketTrace:
    """Trace one graph: its first transmissions, and the rates of the whole run.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        The graphs.
    graph : int
        Number of the graph to trace.
    hardware : PacketHardware
        Packets, links, buffers and root complex.
    transmissions : int
        How many transmissions at most.

    Returns
    -------
    PacketTrace
        Transmissions in order of time, and rates.

    Examples
    --------
    >>> from fabricast.pcie.graphs import from_arcs
    >>> from fabricast.pcie.tree import regular_tree
    >>> pair = regular_tree("pair", (2,))
    >>> graphs = from_arcs([[(0, 1)]], size_bytes=1024)
    >>> trace = trace_packets(pair, graphs, 0, HARDWARE["no_split"], transmissions=99)
    >>> trace.transmissions["link"].value_counts().to_dict()
    {'0>RC': 4, 'RC>1': 4}
    """
    single = graphs.chosen(np.array([graph]))
    simulation, trace, milestones = _simulate(tree, single, hardware, 1, True, None, transmissions, 0)
    rows = trace[trace[:, 0] >= 0]
    names = np.array([f"{source}>{target}" for source, target, _, _ in tree.link_names], dtype=object)
    shown = pd.DataFrame(
        {
            "communication": rows[:, 0],
            "link": names[rows[:, 1]],
            "number": rows[:, 2],
            "start_s": rows[:, 3] * simulation.tick_s,
            "end_s": rows[:, 4] * simulation.tick_s,
        }
    )
    return PacketTrace(shown, _rates(single, milestones, simulation), simulation.end_s)


def _rates(graphs: CongestionGraphs, milestones: NDArray[np.int64], simulation: Simulation) -> pd.DataFrame:
    known = milestones[milestones[:, 0] >= 0]
    time_s = known[:, 0] * simulation.tick_s
    left = known[:, 1 : 1 + graphs.source.size].astype(np.float64)
    parts = []
    for c in range(graphs.source.size):
        # At its last milestone a communication has nothing left; before its first it has all.
        bytes_of_a_packet = graphs.size_bytes[c] / max(left[0, c], 1.0)
        for k in range(len(known) - 1):
            moved, duration = left[k, c] - left[k + 1, c], time_s[k + 1] - time_s[k]
            if duration > 0 and moved > 0:
                parts.append((c, time_s[k], time_s[k + 1], moved * bytes_of_a_packet / duration))
    return pd.DataFrame(parts, columns=["communication", "start_s", "end_s", "bytes_per_s"])
