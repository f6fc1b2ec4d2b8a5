"""What `fabricast network` and `fabricast map` print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from fabricast.errors import InputError
from fabricast.files import read_text
from fabricast.jobs import progress_of
from fabricast.percs.cases import WORKLOADS, workload
from fabricast.percs.loads import ROUTINGS, Routing, Traffic, count_traffic, matrix_traffic, route
from fabricast.percs.mapping_search import search_mapping, write_rank_files
from fabricast.percs.mappings import MAPPINGS, map_tasks
from fabricast.percs.network import TwoLevelNetwork
from fabricast.percs.packets import Pairs, router_pairs, simulate_packets, sum_pairs
from fabricast.percs.workloads import read_matrix

__all__ = ["loads_lines", "map_lines", "read_hosts", "simulate_lines"]


def _matrix_pairs(path: Path, network: TwoLevelNetwork, tiles: int) -> tuple[Pairs, int]:
    source, target, size, ranks = read_matrix(path)
    # Copies of the job side by side, each with its own ranks.
    shift = np.repeat(np.arange(tiles, dtype=np.int64) * ranks, source.size)
    source, target = np.tile(source, tiles) + shift, np.tile(target, tiles) + shift
    size, ranks = np.tile(size, tiles), ranks * tiles
    if ranks > network.tasks:
        raise InputError(f"has {ranks:,} ranks, expected at most {network.tasks:,} of the network", path=path)
    return (source, target, size), ranks


def _traffic(
    pattern: str, mapping: str, network: TwoLevelNetwork, seed: int, tiles: int
) -> tuple[Traffic, Pairs | None, str]:
    """Return traffic and router pairs of a built-in workload or of a user's matrix."""
    generator = np.random.default_rng(seed)
    if pattern in WORKLOADS:
        one = workload(pattern)
        router = map_tasks(mapping, one, network, generator)
        traffic, messages = count_traffic(one, router, network, seed=seed)
        pairs = None if one.random_targets else router_pairs(one, router, network)
        return traffic, pairs, f"{pattern}: {one.tasks:,} tasks, {messages:,} messages of {one.size_bytes:,.0f} bytes"
    if not Path(pattern).suffix:
        raise InputError(
            f"pattern '{pattern}' is unknown, expected one of {', '.join(WORKLOADS)} or a .csv or .mtx file"
        )
    pairs_of_ranks, ranks = _matrix_pairs(Path(pattern), network, tiles)
    nodes = -(-ranks // network.cores_per_router)
    if mapping == "DEF":
        owner = np.arange(nodes)
    elif mapping == "RNM":
        owner = generator.permutation(network.routers)[:nodes]
    else:
        raise InputError(f"--mapping is '{mapping}', expected DEF or RNM: a matrix has no grid to cut into blocks")
    router = owner[np.arange(ranks) // network.cores_per_router].astype(np.int32)
    traffic = matrix_traffic(*pairs_of_ranks, router, network)
    source, target, size = pairs_of_ranks
    owners = router.astype(np.int64)
    return traffic, sum_pairs(owners[source], owners[target], size, network), f"{pattern}: {ranks:,} ranks"


def loads_lines(pattern: str, mapping: str, network: TwoLevelNetwork, seed: int, *, tiles: int = 1) -> Iterator[str]:
    """Yield link loads of a pattern under both routings, class by class."""
    if mapping not in MAPPINGS:
        raise InputError(f"--mapping is '{mapping}', expected one of {', '.join(MAPPINGS)}")
    traffic, _, title = _traffic(pattern, mapping, network, seed, tiles)
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
            yield (
                f"    {name:2} {load.size:9,} links, {used:9,} used, mean {load.mean() / 2**20:10.3f} MiB, "
                f"max {load.max(initial=0.0) / 2**20:10.3f} MiB"
            )


def simulate_lines(
    pattern: str,
    mapping: str,
    network: TwoLevelNetwork,
    routing: Routing,
    *,
    packet_bytes: float,
    window: int,
    seed: int,
    tiles: int = 1,
) -> Iterator[str]:
    """Yield the packet-level time of a pattern beside its bound."""
    if routing not in ROUTINGS:
        raise InputError(f"--routing is '{routing}', expected one of {', '.join(ROUTINGS)}")
    traffic, pairs, title = _traffic(pattern, mapping, network, seed, tiles)
    if pairs is None or pairs[0].size == 0:
        raise InputError(f"'{pattern}' has no pairs of routers to simulate, expected a pattern with neighbours")
    bound, worst = route(traffic, network, routing).bottleneck
    run = simulate_packets(pairs, network, routing, packet_bytes=packet_bytes, window=window, seed=seed)
    yield f"{title}; {mapping}, {routing} routes"
    yield f"  {run.packets:,} packets of {packet_bytes:,.0f} bytes, {run.hops:,} hops"
    yield f"  last packet arrives after {run.elapsed_s * 1e3:.5g} ms; busiest link ({worst}) {bound * 1e3:.5g} ms"


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
    """Search a mapping for direct routing and yield what it brings; rank files are written if wanted."""
    cores = network.cores_per_router
    if pattern in WORKLOADS:
        one = workload(pattern)
        # Blocks of tasks where there is a grid, ranks in a row otherwise.
        mapped = map_tasks("BNM" if len(one.grid) > 1 else "DEF", one, network, np.random.default_rng(seed))
        pairs, block = router_pairs(one, mapped, network), mapped.astype(np.int64)
    else:
        (source, target, size), ranks = _matrix_pairs(Path(pattern), network, tiles)
        block = np.arange(ranks) // cores
        pairs = sum_pairs(block[source], block[target], size, network)
    blocks = int(block.max()) + 1
    if blocks > network.routers:
        raise InputError(f"'{pattern}' needs {blocks:,} routers, the network has {network.routers:,}")
    if pairs[0].size == 0:
        raise InputError(f"'{pattern}' has no communication between nodes of {cores} ranks: any mapping will do")
    start = np.random.default_rng(seed).permutation(network.routers)[:blocks]
    with progress_of("searching a mapping", proposals) as advance:
        found = search_mapping(pairs, start, network, proposals=proposals, seed=seed, progress=advance)
    moved = (found.position[pairs[0]], found.position[pairs[1]], pairs[2])
    order = np.lexsort((moved[1], moved[0]))
    ordered: Pairs = (moved[0][order], moved[1][order], moved[2][order])
    largest = float(pairs[2].max())
    run = simulate_packets(ordered, network, "direct", packet_bytes=max(largest / 16, 1.0))
    yield f"{pattern}: {blocks:,} nodes on {network.routers:,} routers, direct routes"
    yield f"  random nodes: busiest link {found.start_s * 1e3:.4g} ms"
    yield f"  found:        busiest link {found.bottleneck_s * 1e3:.4g} ms, {found.proposals:,} swaps tried"
    yield f"  packet level: {run.elapsed_s * 1e3:.4g} ms, packets of a 16th of the largest exchange"
    if output is not None:
        router = found.position[block]
        names = hosts or [f"node{number:05d}" for number in range(network.routers)]
        for path in write_rank_files(router, network, names, output):
            yield f"  written: {path}"


def read_hosts(path: Path) -> list[str]:
    """Read the hosts of all routers, one a line, in the order of the network."""
    names = [line.strip() for line in read_text(path, strict=True).splitlines() if line.strip()]
    if len(set(names)) != len(names):
        repeated = pd.Series(names)[pd.Series(names).duplicated()].iloc[0]
        raise InputError(f"host '{repeated}' stands twice", path=path)
    return names
