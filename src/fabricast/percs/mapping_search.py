"""Search for mappings that avoid hot-spots.

For direct routing, blocks of tasks that fill a node are swapped between routers. The cost is the sum
of (load / capacity)**8 over all links of all classes, which the busiest links dominate. For indirect
routing, nodes are swapped and all loads are recomputed. Swaps move whole nodes, so that they do not change what a node
injects and ejects: `fabricast map` reports these times, which bound every mapping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.networks.mapping import neighbours_of
from fabricast.percs.loads import count_traffic, route
from fabricast.percs.network import TwoLevelNetwork
from fabricast.percs.packets import Pairs
from fabricast.percs.workloads import Workload

__all__ = ["MappingSearch", "bottleneck_s", "search_indirect", "search_mapping"]

_EPOCHS = 24
_WARM, _COLD = 3.0, 0.03
#: Target time of a link as a multiple of the even-load time; only its order of magnitude matters.
_TARGET_OVER_FLOOR = 1.3


@dataclass(frozen=True)
class MappingSearch:
    """Result of a mapping search.

    Parameters
    ----------
    position : ndarray of int64, shape (blocks,)
        Router of each block.
    bottleneck_s, start_s : float
        Time of the busiest link in s after and before the search.
    proposals, kept : int
        Number of proposed and accepted swaps.
    """

    position: NDArray[np.int64]
    bottleneck_s: float
    start_s: float
    proposals: int
    kept: int


def search_mapping(
    pairs: Pairs,
    start: NDArray[np.int64],
    network: TwoLevelNetwork,
    *,
    proposals: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> MappingSearch:
    """Minimise the load of the busiest link by simulated annealing (direct routing).

    Parameters
    ----------
    pairs : tuple of ndarray
        Source block, target block and bytes of each pair.
    start : ndarray of int64, shape (blocks,)
        Router of each block at the start.
    network : TwoLevelNetwork
        Network.
    proposals : int
        Number of swaps to propose.
    seed : int
        Seed of the proposals.
    progress : callable, optional
        Called with the number of swaps proposed since the previous call.

    Returns
    -------
    MappingSearch
        Best mapping among the start and the ends of all epochs.

    Raises
    ------
    InputError
        If two blocks share a router.
    """
    from fabricast.percs.kernels.search import COST, LOAD, SCALE, anneal, put_flows

    # Empty nodes participate in swaps so that blocks can move to them.
    empty = np.setdiff1d(np.arange(network.routers, dtype=np.int64), start)
    position, tables, inverse = _tables(pairs, np.concatenate([np.asarray(start, dtype=np.int64), empty]), network)
    links = tables[6]
    put_flows(*tables)
    first = best = float((links[:, LOAD] * inverse).max())
    best_position = position.copy()
    floor = _even_load_s(links[:, LOAD], network)
    links[:, SCALE] = inverse / (_TARGET_OVER_FLOOR * floor)
    temperatures = np.geomspace(_WARM, _COLD, _EPOCHS + 1)
    state, kept = np.uint64(seed), 0
    for epoch in range(_EPOCHS):
        # Recompute the loads so that rounding errors do not accumulate.
        links[:, LOAD], links[:, COST] = 0.0, 0.0
        put_flows(*tables)
        steps = proposals // _EPOCHS + (1 if epoch < proposals % _EPOCHS else 0)
        state, accepted = anneal(steps, temperatures[epoch], temperatures[epoch + 1], np.uint64(state), *tables)
        kept += int(accepted)
        now = float((links[:, LOAD] * inverse).max())
        if now < best * (1 - 1e-12):
            best, best_position = now, position.copy()
        if progress is not None:
            progress(steps)
    return MappingSearch(best_position[: len(start)], best, first, proposals, kept)


def search_indirect(
    workload: Workload, router: NDArray[np.int32], network: TwoLevelNetwork, *, evaluations: int, seed: int
) -> MappingSearch:
    """Minimise the expected load of the busiest link under indirect routing.

    Random pairs of nodes are swapped; a swap is accepted if it does not increase the bottleneck time.

    Parameters
    ----------
    workload : Workload
        Communication pattern.
    router : ndarray of int32, shape (tasks,)
        Router of each task at the start.
    network : TwoLevelNetwork
        Network.
    evaluations : int
        Number of swaps to try. Each swap affects every supernode and requires recounting all loads.
    seed : int
        Seed of the swaps.

    Returns
    -------
    MappingSearch
        Search result; ``position`` maps each router to its replacement.
    """
    generator = np.random.default_rng(seed)

    def time_of(position: NDArray[np.int64]) -> float:
        traffic, _ = count_traffic(workload, position[router].astype(np.int32), network)
        return route(traffic, network, "indirect").bottleneck[0]

    position = np.arange(network.routers)
    start = best = time_of(position)
    kept = 0
    for _ in range(evaluations):
        swapped = position.copy()
        pair = generator.choice(network.routers, 2, replace=False)
        swapped[pair] = swapped[pair[::-1]]
        now = time_of(swapped)
        if now <= best:
            position, best, kept = swapped, now, kept + 1
    return MappingSearch(position, best, start, evaluations, kept)


def bottleneck_s(pairs: Pairs, position: NDArray[np.int64], network: TwoLevelNetwork) -> float:
    """Return the time of the busiest link under direct routing.

    Parameters
    ----------
    pairs : tuple of ndarray
        Source block, target block and bytes of each pair.
    position : ndarray of int64, shape (blocks,)
        Router of each block.
    network : TwoLevelNetwork
        Network.

    Returns
    -------
    float
        Time in s.
    """
    from fabricast.percs.kernels.search import LOAD, put_flows

    _, tables, inverse = _tables(pairs, position, network)
    put_flows(*tables)
    return float((tables[6][:, LOAD] * inverse).max())


def _tables(
    pairs: Pairs, start: NDArray[np.int64], network: TwoLevelNetwork
) -> tuple[NDArray[np.int64], tuple[Any, ...], NDArray[np.float64]]:
    """Return positions, kernel arguments, and inverse capacities of all links."""
    from fabricast.percs.kernels.search import SCALE

    position = np.array(start, dtype=np.int64)
    if np.unique(position).size != position.size or position.min() < 0 or position.max() >= network.routers:
        raise InputError(f"blocks share routers or are out of range, expected distinct routers below {network.routers}")
    offset, neighbour, *flows = neighbours_of(pairs, position.size)
    inverse = 1 / network.link_capacities(1)
    group, number = np.divmod(np.arange(network.routers), network.group_routers)
    first_link = np.arange(network.routers) * network.group_routers
    lanes = np.stack([group, number, first_link, network.routers * network.group_routers + group * network.groups])
    # A swap removes and adds two flows per neighbour of each of two blocks; a flow uses at most one link between
    # groups and two links per stripe within groups.
    touched = 2 * 2 * 2 * int(np.diff(offset).max(initial=1)) * (1 + 2 * network.multiplicity) + 2
    undo, undo_index = np.zeros((2, touched)), np.zeros(touched, dtype=np.int64)
    links = np.zeros((inverse.size, 4))
    links[:, SCALE] = inverse
    return (
        position,
        (offset, neighbour, np.stack(flows), position, network.gateways, lanes, links, undo, undo_index),
        inverse,
    )


def _even_load_s(load: NDArray[np.float64], network: TwoLevelNetwork) -> float:
    """Return the time in s if bytes were spread evenly over the links."""
    count = network.groups * (network.groups - 1)
    between = load[network.groups * network.group_routers**2 :].sum() / count / network.d_bytes_per_s
    within = load[: network.groups * network.group_routers**2].sum()
    links = network.routers * max(network.group_routers - 1, 1)
    return max(float(between), float(within) / links / network.ll_bytes_per_s, 1e-12)
