"""Network traffic of a communication pattern with mapped ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fabricast.core.errors import InputError, unknown_name
from fabricast.networks.matrices import read_matrix
from fabricast.percs.cases import WORKLOADS, check_pattern, workload
from fabricast.percs.loads import Traffic, count_traffic, matrix_traffic
from fabricast.percs.mappings import MAPPINGS, map_tasks
from fabricast.percs.network import TwoLevelNetwork
from fabricast.percs.packets import Pairs, router_pairs, sum_pairs


def matrix_pairs(path: Path, network: TwoLevelNetwork, tiles: int) -> tuple[Pairs, int]:
    """Return the bytes between ranks for several instances of a matrix.

    Each instance of the job has separate ranks.
    """
    source, target, size, ranks = read_matrix(path)
    # The ranks of each instance follow those of the previous instance.
    shift = np.repeat(np.arange(tiles, dtype=np.int64) * ranks, source.size)
    source, target = np.tile(source, tiles) + shift, np.tile(target, tiles) + shift
    size, ranks = np.tile(size, tiles), ranks * tiles
    if ranks > network.tasks:
        raise InputError(f"has {ranks:,} ranks, expected at most {network.tasks:,} of the network", path=path)
    return (source, target, size), ranks


def mapped_traffic(
    pattern: str, mapping: str, network: TwoLevelNetwork, seed: int, tiles: int
) -> tuple[Traffic, Pairs | None, str]:
    """Return traffic and router pairs of a mapped workload or user-supplied matrix."""
    if mapping not in MAPPINGS:
        raise unknown_name("mapping", mapping, MAPPINGS)
    generator = np.random.default_rng(seed)
    if pattern in WORKLOADS:
        if tiles != 1:
            raise InputError(f"is {tiles}, but only matrices have several instances", argument="tiles")
        job = workload(pattern)
        router = map_tasks(mapping, job, network, generator)
        traffic, messages = count_traffic(job, router, network, seed=seed)
        pairs = None if job.random_targets else router_pairs(job, router, network)
        return traffic, pairs, f"{pattern}: {job.tasks:,} tasks, {messages:,} messages of {job.size_bytes:,.0f} bytes"
    check_pattern(pattern)
    pairs_of_ranks, ranks = matrix_pairs(Path(pattern), network, tiles)
    nodes = -(-ranks // network.cores_per_router)
    if mapping == "DEF":
        owner = np.arange(nodes)
    elif mapping == "RNM":
        owner = generator.permutation(network.routers)[:nodes]
    else:
        raise InputError(
            f"is '{mapping}', expected DEF or RNM because a matrix has no task grid to divide into blocks",
            argument="mapping",
        )
    router = owner[np.arange(ranks) // network.cores_per_router].astype(np.int32)
    traffic = matrix_traffic(*pairs_of_ranks, router, network)
    source, target, size = pairs_of_ranks
    owners = router.astype(np.int64)
    return traffic, sum_pairs(owners[source], owners[target], size, network), f"{pattern}: {ranks:,} ranks"
