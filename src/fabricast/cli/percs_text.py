"""What `fabricast network` and `fabricast map` print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError, unknown_name
from fabricast.inputs.files import read_text
from fabricast.percs.cases import WORKLOADS, workload
from fabricast.percs.loads import ROUTINGS, Routing, route
from fabricast.percs.mapped_traffic import mapped_traffic, matrix_pairs
from fabricast.percs.mapping_search import bottleneck_s, search_mapping, write_rank_files
from fabricast.percs.mappings import MAPPINGS, map_tasks
from fabricast.percs.network import TwoLevelNetwork
from fabricast.percs.packets import Pairs, router_pairs, simulate_packets, sum_pairs
from fabricast.runtime.jobs import progress_of

__all__ = ["loads_lines", "map_lines", "read_hosts", "simulate_lines"]


def loads_lines(pattern: str, mapping: str, network: TwoLevelNetwork, seed: int, *, tiles: int = 1) -> Iterator[str]:
    """Yield link loads of a pattern under both routings, class by class."""
    traffic, _, title = mapped_traffic(pattern, mapping, network, seed, tiles)
    yield f"{title}; {mapping} on {network.groups} groups, {network.routers:,} routers"
    for routing in ROUTINGS:
        if routing == "indirect" and network.groups < 3:
            continue
        loads = route(traffic, network, routing)
        time, worst = loads.bottleneck
        even = loads.floor_s() * 1e3
        yield f"  {routing}: busiest link {time * 1e3:.4g} ms ({worst}); even loads would give {even:.4g} ms"
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
    """Yield the packet-level time of a pattern beside that of its busiest link."""
    if routing not in ROUTINGS:
        raise unknown_name("routing", routing, ROUTINGS)
    traffic, pairs, title = mapped_traffic(pattern, mapping, network, seed, tiles)
    if pairs is None or pairs[0].size == 0:
        raise InputError(f"'{pattern}' has no pairs of routers to simulate, expected a pattern with neighbours")
    bound, worst = route(traffic, network, routing).bottleneck
    if packet_bytes is None:
        packet_bytes = _fitting_packet(pairs[2])
    run = simulate_packets(pairs, network, routing, packet_bytes=packet_bytes, window=window, seed=seed)
    yield f"{title}; {mapping}, {routing} routes"
    padding = _padding(pairs[2], packet_bytes)
    if padding > _MOST_PADDING:
        yield f"  whole packets are {padding:.0%} more than the bytes sent: times are too long by up to that"
    yield f"  {run.packets:,} packets of {packet_bytes:,.0f} bytes, {run.hops:,} hops"
    # Random routes: a single run may load every link less than expected.
    kind = "busiest link" if routing == "direct" else "busiest link of expected loads"
    yield f"  last packet arrives after {run.elapsed_s * 1e3:.5g} ms; {kind} ({worst}) {bound * 1e3:.5g} ms"


#: Largest packet, and how much more than the bytes themselves whole packets may be untold.
_LARGEST_PACKET, _MOST_PADDING = 524288.0, 0.05
_SMALLEST_PACKET, _MOST_PACKETS = 256.0, 4_000_000


def _padding(size: NDArray[np.float64], packet_bytes: float) -> float:
    """Share by which whole packets exceed the bytes of all pairs."""
    return float((np.ceil(size / packet_bytes) * packet_bytes).sum() / size.sum() - 1)


def _fitting_packet(size: NDArray[np.float64]) -> float:
    """Return the largest packet, of halves of 512 KiB, that pads little and is not too small to be simulated."""
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
    """Search a mapping for direct routing and yield what it brings; rank files are written if wanted.

    The search starts from the best of the named mappings that the pattern allows, so what it
    finds, and what is written, is never worse than any of them.
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
        raise InputError("writing rank files needs the names of hosts, expected --hosts FILE")
    if pairs[0].size == 0:
        raise InputError(
            f"'{pattern}' has no communication between nodes of {network.cores_per_router} ranks: any mapping will do"
        )
    with progress_of("searching a mapping", proposals) as advance:
        found = search_mapping(
            pairs, chosen.positions[best], network, proposals=proposals, seed=seed, progress=advance
        )  # fmt: skip
    moved = (found.position[pairs[0]], found.position[pairs[1]], pairs[2])
    order = np.lexsort((moved[1], moved[0]))
    ordered: Pairs = (moved[0][order], moved[1][order], moved[2][order])
    largest = float(pairs[2].max())
    run = simulate_packets(ordered, network, "direct", packet_bytes=max(largest / 16, 1.0))
    yield f"{pattern}: {blocks:,} nodes on {network.routers:,} routers, direct routes, busiest link"
    for name, time_s in times.items():
        yield f"  {name:6} {time_s * 1e3:10.4g} ms"
    if found.bottleneck_s < times[best] * (1 - _SAME):
        yield f"  found  {found.bottleneck_s * 1e3:10.4g} ms, {found.proposals:,} swaps tried from {best}"
    else:
        yield f"  found      nothing better than {best}, {found.proposals:,} swaps tried"
    yield f"  packet level: {run.elapsed_s * 1e3:.4g} ms, packets of a 16th of the largest exchange"
    if output is not None:
        assert hosts is not None
        for path in write_rank_files(found.position[block], network, hosts, output):
            yield f"  written: {path}"


_SAME = 1e-9


@dataclass(frozen=True)
class _Division:
    """Ranks divided into blocks that fill a node: what blocks exchange, and where named mappings put them."""

    pairs: Pairs
    block: NDArray[np.int64]
    positions: dict[str, NDArray[np.int64]]


def _divisions(pattern: str, network: TwoLevelNetwork, seed: int, tiles: int) -> list[_Division]:
    """Return the divisions of a pattern with the named mappings of each."""
    if pattern not in WORKLOADS:
        (source, target, size), ranks = matrix_pairs(Path(pattern), network, tiles)
        block = np.arange(ranks) // network.cores_per_router
        blocks = int(block.max()) + 1
        pairs = sum_pairs(block[source], block[target], size, network)
        shuffled = np.random.default_rng(seed).permutation(network.routers)[:blocks].astype(np.int64)
        return [_Division(pairs, block, {"DEF": np.arange(blocks), "RNM": shuffled})]
    one = workload(pattern)
    divisions = []
    # Ranks in a row; and, where there is a grid, blocks of it.
    for plain in ("DEF", "BNM") if len(one.grid) > 1 else ("DEF",):
        first = map_tasks(plain, one, network, np.random.default_rng(seed)).astype(np.int64)
        block = np.unique(first, return_inverse=True)[1].astype(np.int64)
        positions = {}
        for name in MAPPINGS:
            try:
                router = map_tasks(name, one, network, np.random.default_rng(seed)).astype(np.int64)
            except InputError:
                # Not every pattern fills drawers or has a grid.
                continue
            position = np.full(int(block.max()) + 1, -1, dtype=np.int64)
            position[block] = router
            if (position[block] == router).all():
                positions[name] = position
        divisions.append(
            _Division(_numbered(router_pairs(one, first.astype(np.int32), network), first, block), block, positions)
        )
    return divisions


def _numbered(pairs: Pairs, router: NDArray[np.int64], block: NDArray[np.int64]) -> Pairs:
    """Return pairs of routers as pairs of the blocks on them."""
    block_on = np.full(int(router.max()) + 1, -1, dtype=np.int64)
    block_on[router] = block
    return block_on[pairs[0]], block_on[pairs[1]], pairs[2]


_LONGEST_HOST = 253


def read_hosts(path: Path) -> list[str]:
    """Read the hosts of all routers, one a line, in the order of the network.

    Parameters
    ----------
    path : Path
        File of names; empty lines and lines that begin with ``#`` are passed over.

    Returns
    -------
    list of str
        The names, at least one.

    Raises
    ------
    InputError
        If there is none, one is no host name, or one is a duplicate.
    """
    names: dict[str, int] = {}
    for number, line in enumerate(read_text(path, strict=True).splitlines(), start=1):
        name = line.strip()
        if not name or name.startswith("#"):
            continue
        # What MPI launchers take: anything else would change the meaning of the files written.
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name) or len(name) > _LONGEST_HOST:
            raise InputError(
                f"host is '{name}', expected a name of letters, digits, '.', '-' and '_'", path=path, line=number
            )
        if name in names:
            raise InputError(f"host '{name}' is a duplicate of line {names[name]}", path=path, line=number)
        names[name] = number
    if not names:
        raise InputError("holds no host, expected one a line", path=path)
    return list(names)
