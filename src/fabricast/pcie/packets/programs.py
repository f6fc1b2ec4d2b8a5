"""Packet-level simulation of copy programs with engines and barriers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_pairs
from fabricast.pcie.graphs.programs import PROGRAMS, CopyProgram
from fabricast.pcie.graphs.rates import CopyTimes, Rates, Statistic, TotalRate, check_flows, printed_rates
from fabricast.pcie.packets.arbiter_phases import simulate
from fabricast.pcie.packets.hardware import PacketHardware
from fabricast.pcie.packets.simulator import CopyOrder, run_packets
from fabricast.pcie.topology.paths import narrowest_link
from fabricast.pcie.topology.tree import PcieTree

#: Large compared with the buffers: with four times this size, the rate changes by at most 0.2 %.
_SIZE_BYTES = 2**18
#: Number of arbitration phases for a deterministic program.
_PHASES = 3


def hardware_with_rates(rates: Rates) -> PacketHardware:
    """Return hardware on which isolated copies and bidirectional pairs reach measured rates.

    >>> hardware = hardware_with_rates(Rates(56e9, 50e9))
    >>> round(hardware.raw_bytes_per_s / 1e9, 2), hardware.link_layer_share
    (61.25, 0.12)
    """
    whole = PacketHardware()
    return replace(
        whole,
        link_bytes_per_s=rates.one_way_bytes_per_s * whole.packet_bytes[0] / whole.payload_bytes,
        link_layer_packets=True,
        link_layer_share=round(rates.duplex_cost, 9),
    )


def tree_with_rates(tree: PcieTree, rates: Rates) -> PcieTree:
    """Return the tree with calibrated capacities of its root ports.

    A root port gets at most the rate of an isolated copy across the root complex. Link speeds are removed from the
    topology, because the hardware specifies them.
    """
    share = 1.0
    if rates.crossing_bytes_per_s is not None:
        share = min(1.0, rates.crossing_bytes_per_s / rates.one_way_bytes_per_s)
    roots = {vertex.name for vertex in tree.vertices if vertex.kind == "root_complex"}
    vertices = tuple(
        replace(
            vertex,
            generation=None,
            width=None,
            capacity=min(vertex.capacity, share)
            if vertex.parent in roots and not vertex.host_memory
            else vertex.capacity,
        )
        for vertex in tree.vertices
    )
    return replace(tree, vertices=vertices, link_bytes_per_s=None, bandwidth_bytes_per_s=None)


def simulate_program(
    tree: PcieTree,
    flows: Sequence[tuple[int, int]],
    program: CopyProgram,
    rates: Rates,
    *,
    repeats: int = 8,
    draws: int = 9,
    size_bytes: float = _SIZE_BYTES,
    seed: int = 0,
    statistic: Statistic = "total",
) -> TotalRate:
    """Simulate the aggregate rate of repeated copies in several flows at packet level.

    It is the packet-level counterpart of `fabricast.pcie.engines.forecast.total_rate`.

    One source copies to a near and a far destination, and its single engine alternates.

    >>> from fabricast.pcie.graphs.programs import PROGRAMS
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("flat4x2", (2, 4))
    >>> total = simulate_program(tree, [(0, 1), (0, 4)], PROGRAMS["unordered_writes"], Rates(50e9, 50e9))
    >>> round(total.bytes_per_s / 1e9)
    46
    """
    check_flows(flows)
    hardware, whole = hardware_with_rates(rates), tree_with_rates(tree, rates)
    ends_s = []
    for draw in range(draws if program.is_random else 1):
        generator = np.random.default_rng([seed, draw])
        flow = np.tile(np.arange(len(flows)), repeats)
        if program.random_turns:
            flow = generator.permutation(flow)
        pause_s = _pauses(program, generator, flow.size) * size_bytes / rates.one_way_bytes_per_s
        ends = np.array(flows, dtype=np.int64)[flow]
        turns = 0 if program.random_turns else len(flows)
        order = CopyOrder(
            program.engines(ends),
            program.barriers(ends),
            flow.astype(np.int64),
            pause_s,
            turns,
            _occupancy(whole, flows, program)[flow],
        )
        graphs = from_pairs([list(map(tuple, ends.tolist()))], size_bytes=size_bytes)
        simulation = run_packets(whole, graphs, hardware, order=order).simulation
        last = np.zeros(len(flows))
        np.maximum.at(last, flow, simulation.end_s)
        ends_s.append(last)
    of_flow, runs = repeats * size_bytes, np.stack(ends_s)
    totals = printed_rates(np.array(flows, dtype=np.int64), of_flow, runs, statistic)
    by_flow = np.median(of_flow / runs, axis=0)
    return TotalRate(float(np.median(totals)), float(totals.min()), float(totals.max()), by_flow)


def _pauses(program: CopyProgram, generator: np.random.Generator, copies: int) -> NDArray[np.float64]:
    """Return the pause of an engine before each copy, as a share of an isolated copy."""
    mean = np.full(copies, program.switch_share)
    return mean * generator.exponential(1.0, copies) if program.random_pauses else mean


def _occupancy(tree: PcieTree, flows: Sequence[tuple[int, int]], program: CopyProgram) -> NDArray[np.int64]:
    """Return the share of its engine that each copy occupies, in thousandths."""
    isolated = np.array([narrowest_link(tree, [flow]) for flow in flows])
    return np.rint(1000 * program.occupancy(np.minimum(isolated, 1.0))).astype(np.int64)


def simulate_copies(
    tree: PcieTree, graphs: CongestionGraphs, hardware: PacketHardware, *, draws: int = 31, seed: int = 0
) -> CopyTimes:
    """Simulate graphs with copy programs at packet level. Each copy runs once.

    Two copies from one engine run one after the other.

    >>> from dataclasses import replace
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> graphs = from_pairs([[(0, 1), (0, 4)]], size_bytes=2**24)
    >>> torch = replace(graphs, programs=("ordered_writes",))
    >>> ends = simulate_copies(regular_tree("flat4x2", (2, 4)), torch, PacketHardware())
    >>> round(float(ends.end_s.max() / ends.end_s.min()))
    2
    """
    if not len(graphs):
        return CopyTimes(np.zeros(0), np.zeros(0), np.zeros(0))
    payload_bytes_per_s = hardware.raw_bytes_per_s * hardware.payload_bytes / hardware.packet_bytes[0]
    results = []
    for number, name in enumerate(graphs.programs):
        program = PROGRAMS[name]
        single = graphs.chosen(np.array([number]))
        ends_s = np.empty((draws if program.is_random else _PHASES, single.source.size))
        for draw in range(len(ends_s)):
            generator = np.random.default_rng([seed, number, draw])
            order = np.arange(single.source.size)
            if program.random_turns:
                order = generator.permutation(order)
            issued = replace(
                single,
                source=single.source[order],
                target=single.target[order],
                size_bytes=single.size_bytes[order],
                start_s=single.start_s[order],
            )
            ends = np.stack([issued.source, issued.target], axis=1)
            pause_s = _pauses(program, generator, order.size) * issued.size_bytes
            copies = CopyOrder(
                program.engines(ends),
                program.barriers(ends),
                order.astype(np.int64),
                pause_s / payload_bytes_per_s,
                0 if program.random_turns else order.size,
                _occupancy(tree, list(map(tuple, ends.tolist())), program),
            )
            simulation = run_packets(tree, issued, hardware, phase=draw, order=copies).simulation
            ends_s[draw][order] = simulation.end_s
        low, high = ends_s.min(axis=0), ends_s.max(axis=0)
        # Rounding can move the mean of equal numbers outside their range.
        results.append((np.clip(ends_s.mean(axis=0), low, high), low, high))
    end_s, earliest_s, latest_s = (np.concatenate(parts) for parts in zip(*results, strict=True))
    return CopyTimes(end_s, earliest_s, latest_s)


def simulate_graphs(
    tree: PcieTree,
    graphs: CongestionGraphs,
    hardware: PacketHardware,
    *,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> CopyTimes:
    """Simulate graphs with and without copy programs at packet level.

    >>> from dataclasses import replace
    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> graphs = from_pairs([[(0, 1), (0, 4)], [(0, 1), (0, 4)]], size_bytes=2**24)
    >>> ends = simulate_graphs(
    ...     regular_tree("flat4x2", (2, 4)), replace(graphs, programs=("", "ordered_writes")), PacketHardware()
    ... )
    >>> (ends.end_s / ends.end_s.max()).round(1).tolist()
    [0.9, 0.9, 0.5, 1.0]
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
    for numbers, simulated in parts:
        ends[:, graphs.rows_of(numbers)] = simulated.end_s, simulated.earliest_s, simulated.latest_s
    return CopyTimes(*ends)
