"""Output of `fabricast network` and `fabricast map`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError, unknown_name
from fabricast.networks.launcher_files import write_rank_files
from fabricast.percs.cases import WORKLOADS, workload
from fabricast.percs.loads import ROUTINGS, Routing, route
from fabricast.percs.mapped_traffic import mapped_traffic, matrix_pairs
from fabricast.percs.mapping_search import bottleneck_s, search_mapping
from fabricast.percs.mappings import MAPPING_TITLES, MAPPINGS, map_tasks
from fabricast.percs.network import LINK_CLASSES, TwoLevelNetwork
from fabricast.percs.packets import Pairs, router_pairs, simulate_packets, sum_pairs
from fabricast.runtime.jobs import progress_of


def rates_line(network: TwoLevelNetwork) -> str:
    """Return the rates of the link classes and of the nodes in one direction, in one line."""
    links = zip(LINK_CLASSES, network.capacities / 1e9, strict=True)
    named = ", ".join(f"{name} {rate:.4g}" for name, rate in links)
    return f"{named}, injection {network.injection_bytes_per_s / 1e9:.4g} GB/s"


def loads_lines(pattern: str, mapping: str, network: TwoLevelNetwork, seed: int, *, tiles: int = 1) -> Iterator[str]:
    """Yield the link loads of a pattern for both routings, by link class."""
    traffic, _, title = mapped_traffic(pattern, mapping, network, seed, tiles)
    yield f"{title}; {mapping} on {network.groups} groups, {network.routers:,} routers"
    for routing in ROUTINGS:
        if routing == "indirect" and network.groups < 3:
            continue
        loads = route(traffic, network, routing)
        time, worst = loads.bottleneck
        even = loads.floor_s() * 1e3
        yield f"  {routing}: busiest link {time * 1e3:.4g} ms ({worst}); {even:.4g} ms with even loads"
        nodes = loads.node_times_s()
        rate = network.injection_bytes_per_s / 1e9
        yield (
            f"    nodes: injection {nodes['injection'] * 1e3:.4g} ms, ejection {nodes['ejection'] * 1e3:.4g} ms at "
            f"{rate:.4g} GB/s; limit: {loads.limit[1]}, {loads.limit[0] * 1e3:.4g} ms"
        )
        for name, load in loads.by_class.items():
            used = int((load > 0).sum())
            mean = load.mean() if load.size else 0.0
            yield (
                f"    {name:2} {load.size:9,} links, {used:9,} used, mean {mean / 2**20:10.3f} MiB, "
                f"max {loads.busiest_bytes[name] / 2**20:10.3f} MiB"
            )


def simulate_lines(
    pattern: str,
    mapping: str,
    network: TwoLevelNetwork,
    routing: Routing,
    *,
    packet_bytes: float | None,
    window: int,
    seed: int,
    tiles: int = 1,
) -> Iterator[str]:
    """Yield the packet-level time of a pattern and that of its busiest link."""
    if routing not in ROUTINGS:
        raise unknown_name("routing", routing, ROUTINGS)
    traffic, pairs, title = mapped_traffic(pattern, mapping, network, seed, tiles)
    if pairs is None or pairs[0].size == 0:
        raise InputError(f"'{pattern}' has no messages between pairs of routers, expected a pattern with neighbours")
    bound, worst = route(traffic, network, routing).limit
    if packet_bytes is None:
        packet_bytes = _fitting_packet(pairs[2])
    run = simulate_packets(pairs, network, routing, packet_bytes=packet_bytes, window=window, seed=seed)
    yield f"{title}; {mapping}, {routing} routes"
    padding = _padding(pairs[2], packet_bytes)
    if padding > _MOST_PADDING:
        yield f"  whole packets have {padding:.0%} more than the bytes sent: times are too long by up to this share"
    yield f"  {run.packets:,} packets of {packet_bytes:,.0f} bytes, {run.hops:,} hops"
    # Indirect routes are random: a single run can load every link less than expected.
    kind = "busiest resource" if routing == "direct" else "busiest resource of expected loads"
    yield f"  last packet arrives after {run.elapsed_s * 1e3:.5g} ms; {kind} ({worst}) {bound * 1e3:.5g} ms"


#: Maximum packet size in bytes, and maximum padding of whole packets without a warning.
_LARGEST_PACKET, _MOST_PADDING = 524288.0, 0.05
_SMALLEST_PACKET, _MOST_PACKETS = 256.0, 4_000_000


def _padding(size: NDArray[np.float64], packet_bytes: float) -> float:
    """Return the padding of whole packets relative to the bytes of all pairs."""
    return float((np.ceil(size / packet_bytes) * packet_bytes).sum() / size.sum() - 1)


def _fitting_packet(size: NDArray[np.float64]) -> float:
    """Return the largest packet size in bytes with little padding.

    The size is 512 KiB, halved until the padding is small. Halving stops at 256 bytes, or if the number of packets
    would exceed the maximum for a simulation.
    """
    packet = _LARGEST_PACKET
    while (
        _padding(size, packet) > _MOST_PADDING
        and packet > _SMALLEST_PACKET
        and np.ceil(size * 2 / packet).sum() < _MOST_PACKETS
    ):
        packet /= 2
    return packet


def map_lines(
    pattern: str,
    network: TwoLevelNetwork,
    *,
    proposals: int,
    seed: int,
    hosts: list[str] | None,
    output: Path | None,
    tiles: int = 1,
) -> Iterator[str]:
    """Search for a mapping with direct routing, write rank files and yield the result.

    The search starts from the best named mapping that the pattern supports, so the result is never worse than any
    of these mappings. Rank files are only written if `output` is specified.
    """
    divisions = _divisions(pattern, network, seed, tiles)
    times = {
        name: bottleneck_s(division.pairs, position, network)
        for division in divisions
        for name, position in division.positions.items()
    }
    best = min(times, key=lambda name: times[name])
    chosen = next(division for division in divisions if best in division.positions)
    pairs, block = chosen.pairs, chosen.block
    blocks = int(block.max()) + 1
    if blocks > network.routers:
        raise InputError(f"'{pattern}' needs {blocks:,} routers, the network has {network.routers:,}")
    if hosts is not None and len(hosts) != network.routers:
        raise InputError(
            f"{len(hosts):,} hosts are named, expected one for each of the {network.routers:,} routers of the network, "
            "in their order"
        )
    if output is not None and hosts is None:
        raise InputError("--output requires host names; specify --hosts FILE")
    if pairs[0].size == 0:
        raise InputError(
            f"'{pattern}' has no messages between nodes of {network.cores_per_router} ranks: all mappings are equal"
        )
    with progress_of("searching a mapping", proposals) as advance:
        search = search_mapping(
            pairs, chosen.positions[best], network, proposals=proposals, seed=seed, progress=advance
        )
    moved = (search.position[pairs[0]], search.position[pairs[1]], pairs[2])
    order = np.lexsort((moved[1], moved[0]))
    ordered: Pairs = (moved[0][order], moved[1][order], moved[2][order])
    largest = float(pairs[2].max())
    run = simulate_packets(ordered, network, "direct", packet_bytes=max(largest / 16, 1.0))
    yield f"{pattern}: {blocks:,} nodes on {network.routers:,} routers, direct routes, busiest link"
    for name, time_s in times.items():
        yield f"  {name:6} {time_s * 1e3:10.4g} ms  {MAPPING_TITLES[name]}"
    if search.bottleneck_s < times[best] * (1 - _SAME):
        yield f"  search {search.bottleneck_s * 1e3:10.4g} ms, {search.proposals:,} swaps tried from {best}"
    else:
        yield f"  search     no improvement over {best}, {search.proposals:,} swaps tried"
    yield _node_line(pairs, network, min(search.bottleneck_s, times[best]))
    yield f"  packet level: {run.elapsed_s * 1e3:.4g} ms, packets of 1/16 of the largest message"
    if output is not None:
        assert hosts is not None
        for path in write_rank_files(search.position[block], network.cores_per_router, hosts, output):
            yield f"  written: {path}"


def _node_line(pairs: Pairs, network: TwoLevelNetwork, link_s: float) -> str:
    """Return the times of the busiest node, which no mapping of blocks changes."""
    injection_s, ejection_s = (
        float(np.bincount(end, weights=pairs[2]).max()) / network.injection_bytes_per_s for end in pairs[:2]
    )
    limit = "; nodes limit the step, not links" if max(injection_s, ejection_s) > link_s else ""
    times = f"injection {injection_s * 1e3:.4g} ms, ejection {ejection_s * 1e3:.4g} ms"
    return f"  busiest node: {times} with any mapping{limit}"


_SAME = 1e-9


@dataclass(frozen=True)
class _Division:
    """Division of ranks into blocks of one node, with their messages and mappings."""

    pairs: Pairs
    block: NDArray[np.int64]
    positions: dict[str, NDArray[np.int64]]


def _divisions(pattern: str, network: TwoLevelNetwork, seed: int, tiles: int) -> list[_Division]:
    """Return the divisions of a pattern into blocks, with their named mappings."""
    if pattern not in WORKLOADS:
        (source, target, size), ranks = matrix_pairs(Path(pattern), network, tiles)
        block = np.arange(ranks) // network.cores_per_router
        blocks = int(block.max()) + 1
        pairs = sum_pairs(block[source], block[target], size, network)
        shuffled = np.random.default_rng(seed).permutation(network.routers)[:blocks].astype(np.int64)
        return [_Division(pairs, block, {"DEF": np.arange(blocks), "RNM": shuffled})]
    tasks = workload(pattern)
    divisions = []
    # Blocks of consecutive ranks and, if the pattern has a grid, blocks of the grid.
    for plain in ("DEF", "BNM") if len(tasks.grid) > 1 else ("DEF",):
        first = map_tasks(plain, tasks, network, np.random.default_rng(seed)).astype(np.int64)
        block = np.unique(first, return_inverse=True)[1].astype(np.int64)
        positions = {}
        for name in MAPPINGS:
            try:
                router = map_tasks(name, tasks, network, np.random.default_rng(seed)).astype(np.int64)
            except InputError:
                # The mapping needs a grid or full drawers, which this pattern does not have.
                continue
            position = np.full(int(block.max()) + 1, -1, dtype=np.int64)
            position[block] = router
            if (position[block] == router).all():
                positions[name] = position
        divisions.append(
            _Division(_numbered(router_pairs(tasks, first.astype(np.int32), network), first, block), block, positions)
        )
    return divisions


def _numbered(pairs: Pairs, router: NDArray[np.int64], block: NDArray[np.int64]) -> Pairs:
    """Convert pairs of routers to pairs of the blocks mapped to these routers."""
    block_on = np.full(int(router.max()) + 1, -1, dtype=np.int64)
    block_on[router] = block
    return block_on[pairs[0]], block_on[pairs[1]], pairs[2]
