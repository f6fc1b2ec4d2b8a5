"""Divisions of the ranks of a pattern into blocks of one node, with the named mappings of the blocks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.percs.cases import WORKLOADS, workload
from fabricast.percs.mapped_traffic import matrix_pairs
from fabricast.percs.mappings import MAPPINGS, map_tasks
from fabricast.percs.network import TwoLevelNetwork
from fabricast.percs.packets import Pairs, router_pairs, sum_pairs


@dataclass(frozen=True)
class Division:
    """Division of ranks into blocks of one node, with their messages and mappings."""

    pairs: Pairs
    block: NDArray[np.int64]
    positions: dict[str, NDArray[np.int64]]


def divisions_of(pattern: str, network: TwoLevelNetwork, seed: int, tiles: int) -> list[Division]:
    """Return the divisions of a pattern into blocks, with their named mappings."""
    if pattern not in WORKLOADS:
        (source, target, size), ranks = matrix_pairs(Path(pattern), network, tiles)
        block = np.arange(ranks) // network.cores_per_router
        blocks = int(block.max()) + 1
        pairs = sum_pairs(block[source], block[target], size, network)
        shuffled = np.random.default_rng(seed).permutation(network.routers)[:blocks].astype(np.int64)
        return [Division(pairs, block, {"DEF": np.arange(blocks), "RNM": shuffled})]
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
            Division(_numbered(router_pairs(tasks, first.astype(np.int32), network), first, block), block, positions)
        )
    return divisions


def _numbered(pairs: Pairs, router: NDArray[np.int64], block: NDArray[np.int64]) -> Pairs:
    """Convert pairs of routers to pairs of the blocks mapped to these routers."""
    block_on = np.full(int(router.max()) + 1, -1, dtype=np.int64)
    block_on[router] = block
    return block_on[pairs[0]], block_on[pairs[1]], pairs[2]
