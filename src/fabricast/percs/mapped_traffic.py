"""Traffic of a pattern on a network, once its ranks have routers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fabricast.core.errors import InputError, unknown_name
from fabricast.percs.cases import WORKLOADS, check_pattern, workload
from fabricast.percs.loads import Traffic, count_traffic, matrix_traffic
from fabricast.percs.mappings import MAPPINGS, map_tasks
from fabricast.percs.matrices import read_matrix
from fabricast.percs.network import TwoLevelNetwork
from fabricast.percs.packets import Pairs, router_pairs, sum_pairs

__all__ = ["mapped_traffic", "matrix_pairs"]


def matrix_pairs(path: Path, network: TwoLevelNetwork, tiles: int) -> tuple[Pairs, int]:
    """Return what ranks exchange, and how many there are, of copies of a matrix side by side.

    Parameters
    ----------
    path : Path
        Bytes between ranks, as `fabricast.percs.matrices.read_matrix` takes them.
    network : TwoLevelNetwork
        Network on which they must fit.
    tiles : int
        Copies of the job, each with ranks of its own.

    Raises
    ------
    InputError
        If there are more ranks than cores.
    """
    source, target, size, ranks = read_matrix(path)
    # Copies of the job side by side, each with its own ranks.
    shift = np.repeat(np.arange(tiles, dtype=np.int64) * ranks, source.size)
    source, target = np.tile(source, tiles) + shift, np.tile(target, tiles) + shift
    size, ranks = np.tile(size, tiles), ranks * tiles
    if ranks > network.tasks:
        raise InputError(f"has {ranks:,} ranks, expected at most {network.tasks:,} of the network", path=path)
    return (source, target, size), ranks


def mapped_traffic(
    pattern: str, mapping: str, network: TwoLevelNetwork, seed: int, tiles: int
) -> tuple[Traffic, Pairs | None, str]:
    """Return traffic and router pairs of a built-in workload or of a user's matrix, once it is mapped.

    Parameters
    ----------
    pattern : str
        Built-in workload, or a file of bytes between ranks.
    mapping : str
        One of `fabricast.percs.mappings.MAPPINGS`; of a matrix DEF or RNM.
    network : TwoLevelNetwork
        Network.
    seed : int
        Seed of random mappings and targets.
    tiles : int
        Copies of a matrix side by side.

    Returns
    -------
    (Traffic, Pairs or None, str)
        Traffic; pairs of routers, if the pattern has neighbours; what it is, in words.

    Raises
    ------
    InputError
        If pattern or mapping is unknown, or the job does not fit.
    """
    if mapping not in MAPPINGS:
        raise unknown_name("mapping", mapping, MAPPINGS)
    generator = np.random.default_rng(seed)
    if pattern in WORKLOADS:
        one = workload(pattern)
        router = map_tasks(mapping, one, network, generator)
        traffic, messages = count_traffic(one, router, network, seed=seed)
        pairs = None if one.random_targets else router_pairs(one, router, network)
        return traffic, pairs, f"{pattern}: {one.tasks:,} tasks, {messages:,} messages of {one.size_bytes:,.0f} bytes"
    check_pattern(pattern)
    pairs_of_ranks, ranks = matrix_pairs(Path(pattern), network, tiles)
    nodes = -(-ranks // network.cores_per_router)
    if mapping == "DEF":
        owner = np.arange(nodes)
    elif mapping == "RNM":
        owner = generator.permutation(network.routers)[:nodes]
    else:
        raise InputError(
            f"is '{mapping}', expected DEF or RNM: a matrix has no grid to cut into blocks", argument="mapping"
        )
    router = owner[np.arange(ranks) // network.cores_per_router].astype(np.int32)
    traffic = matrix_traffic(*pairs_of_ranks, router, network)
    source, target, size = pairs_of_ranks
    owners = router.astype(np.int64)
    return traffic, sum_pairs(owners[source], owners[target], size, network), f"{pattern}: {ranks:,} ranks"
