"""Mappings of tasks to routers and placements of jobs on larger machines."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError, unknown_name
from fabricast.percs.network import TwoLevelNetwork
from fabricast.percs.workloads import Workload, blocks_of

__all__ = ["MAPPINGS", "MAPPING_TITLES", "PLACEMENTS", "RANDOM_MAPPINGS", "block_numbers", "map_tasks", "place"]

#: Rank order; blocks by node, drawer and supernode; blocks or rank-order chunks on random nodes or drawers.
MAPPINGS = ("DEF", "BNM", "BDM", "BSM", "RNM", "RDM", "RNMu", "RDMu")
#: Mapping titles for figures and tables.
MAPPING_TITLES = {
    "DEF": "rank order",
    "BNM": "blocks on nodes",
    "BDM": "blocks on drawers",
    "BSM": "blocks on supernodes",
    "RNM": "blocks on random nodes",
    "RDM": "blocks on random drawers",
    "RNMu": "rank-order chunks on random nodes",
    "RDMu": "rank-order chunks on random drawers",
}
RANDOM_MAPPINGS = ("RNM", "RDM", "RNMu", "RDMu")
PLACEMENTS = ("contiguous", "random_supernodes", "random_drawers", "random_nodes", "spread_drawers")

Map = NDArray[np.int32]


@lru_cache(maxsize=8)
def block_numbers(grid: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]) -> NDArray[np.int64]:
    """Return the block number of every task.

    Blocks are nested and numbered in row-major order, starting with the outermost level. Results are
    cached because the cases of the study repeat few combinations.

    Parameters
    ----------
    grid : tuple of int
        Number of tasks in each dimension.
    shapes : tuple of tuple of int
        Block shapes from the largest to the smallest; each shape divides the previous shape.

    Returns
    -------
    ndarray of int64, shape (tasks,), read-only
        Number of the smallest block that contains each task.

    Examples
    --------
    >>> block_numbers((4, 4), ((2, 2),)).reshape(4, 4)[:, ::2].tolist()
    [[0, 1], [0, 1], [2, 3], [2, 3]]
    """
    coordinates = np.indices(grid).reshape(len(grid), -1)
    number = np.zeros(coordinates.shape[1], dtype=np.int64)
    outer = grid
    remainder = coordinates
    for shape in shapes:
        counts = [whole // part for whole, part in zip(outer, shape, strict=True)]
        block_index = np.ravel_multi_index([remainder[d] // shape[d] for d in range(len(grid))], counts)
        number = number * int(np.prod(counts)) + block_index
        remainder = np.stack([remainder[d] % shape[d] for d in range(len(grid))])
        outer = shape
    number.flags.writeable = False
    return number


def map_tasks(
    mapping: str, workload: Workload, network: TwoLevelNetwork, generator: np.random.Generator, *, turned: bool = False
) -> Map:
    """Map every task of a workload to a router.

    Parameters
    ----------
    mapping : str
        One of `MAPPINGS`.
    workload : Workload
        Workload whose task grid is divided into blocks.
    network : TwoLevelNetwork
        Network whose nodes and drawers are filled.
    generator : numpy.random.Generator
        Source of random permutations.
    turned : bool, default False
        Whether the sides of node blocks are reversed.

    Returns
    -------
    ndarray of int32, shape (tasks,)
        Router of each task.

    Raises
    ------
    InputError
        If the mapping is unknown or the job does not fit the network.
    """
    cores = network.cores_per_router
    if workload.tasks % cores or workload.tasks > network.tasks:
        raise InputError(
            f"'{workload.name}' has {workload.tasks:,} tasks, expected a multiple of {cores} up to {network.tasks:,}"
        )
    nodes = workload.tasks // cores
    ranks = np.arange(workload.tasks) // cores
    if mapping == "DEF":
        return ranks.astype(np.int32)
    drawer = network.routers_per_drawer
    if mapping in ("RNMu", "RDMu"):
        order = ranks
    elif mapping in MAPPINGS:
        node, drawers, group = blocks_of(workload.grid)
        node = node[::-1] if turned else node
        nested = {"BNM": (node,), "RNM": (node,), "BDM": (drawers, node), "RDM": (drawers, node)}
        order = block_numbers(workload.grid, nested.get(mapping, (group, drawers, node)))
    else:
        raise unknown_name("mapping", mapping, MAPPINGS)
    if mapping.startswith("RNM"):
        order = generator.permutation(nodes)[order]
    elif mapping.startswith("RDM"):
        if nodes % drawer:
            raise InputError(f"'{workload.name}' fills {nodes} nodes, expected whole drawers of {drawer}")
        order = generator.permutation(nodes // drawer)[order // drawer] * drawer + order % drawer
    return order.astype(np.int32)


def place(placement: str, nodes: int, network: TwoLevelNetwork, generator: np.random.Generator) -> Map:
    """Return the routers allocated to a job, in the order in which it fills them.

    Parameters
    ----------
    placement : str
        One of `PLACEMENTS`. Random placements keep the router order of the machine.
    nodes : int
        Number of routers that the job needs.
    network : TwoLevelNetwork
        Network of the machine.
    generator : numpy.random.Generator
        Source of random permutations.

    Returns
    -------
    ndarray of int32, shape (nodes,)
        Routers of the job.
    """
    if nodes > network.routers:
        raise InputError(f"the job needs {nodes} routers, expected at most {network.routers}")
    all_routers = np.arange(network.routers)
    units = {
        "random_supernodes": network.group_routers,
        "random_drawers": network.routers_per_drawer,
        "random_nodes": 1,
    }
    if placement == "contiguous":
        chosen = all_routers[:nodes]
    elif placement in units:
        unit = units[placement]
        chosen_units = np.sort(generator.permutation(network.routers // unit)[: -(-nodes // unit)])
        chosen = (chosen_units[:, None] * unit + np.arange(unit)).ravel()[:nodes]
    elif placement == "spread_drawers":
        drawer = network.routers_per_drawer
        count = -(-nodes // drawer)
        # Drawers are assigned to the groups in round-robin order.
        drawer_index = np.arange(count)
        group, number = drawer_index % network.groups, drawer_index // network.groups
        first = group * network.group_routers + number * drawer
        chosen = (np.sort(first)[:, None] + np.arange(drawer)).ravel()[:nodes]
    else:
        raise unknown_name("placement", placement, PLACEMENTS)
    return chosen.astype(np.int32)
