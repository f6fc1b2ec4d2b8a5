"""Search for hosts of nodes that avoid hot links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.networks.loads import NetworkLoads, link_loads
from fabricast.networks.network import SwitchNetwork

_EPOCHS = 12
_WARM, _COLD = 3.0, 0.03
#: Target time of a link as a multiple of the even-load time; only its order of magnitude matters.
_TARGET_OVER_FLOOR = 1.3
#: Most links of one search: each proposal looks at all of them.
_MOST_LINKS = 200_000


@dataclass(frozen=True)
class HostSearch:
    """Result of a search."""

    host: NDArray[np.int64]  # Host of each node, shape (nodes,)
    #: Time of the busiest link with static routes in s after and before the search.
    time_s: float
    start_s: float
    #: Number of proposed and accepted swaps.
    proposals: int
    kept: int


def search_hosts(
    network: SwitchNetwork,
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    nodes: int,
    hosts: NDArray[np.int64],
    *,
    proposals: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> HostSearch:
    """Minimise the time of the busiest link with static routes by simulated annealing.

    Shapes: hosts (at least nodes,).
    """
    from fabricast.networks.kernels.search import anneal

    if hosts.size < nodes:
        raise InputError(f"has {hosts.size:,} hosts, expected at least {nodes:,} for the nodes of the pattern")
    if network.capacity.size > _MOST_LINKS:
        raise InputError(
            f"has {network.capacity.size:,} links, expected at most {_MOST_LINKS:,} for a search", argument="network"
        )
    offset, other, sent, received = neighbours_of(pairs, nodes)
    source, target, size = pairs

    rails = network.rails(hosts)

    def loads_of(slots: NDArray[np.int64]) -> NetworkLoads:
        return link_loads(network, hosts[slots[source]], hosts[slots[target]], size, rails=rails)

    listed = np.arange(nodes)
    start = loads_of(listed)
    # No swap changes what the ports of hosts need, if they have one rate.
    fixed_s = start.host_s if has_equal_ports(network, hosts) else 0.0
    if start.time_s <= fixed_s or _is_the_same_in_any_order(pairs, nodes, hosts.size):
        return HostSearch(hosts[listed], start.time_s, start.time_s, 0, 0)
    others = [(loads_of(one), one) for one in _neighbours_together(network, pairs, nodes, hosts)]
    now, slot_of = min([(start, listed), *others], key=lambda one: one[0].time_s)
    node_in = np.full(hosts.size, -1, dtype=np.int64)
    node_in[slot_of] = listed
    load, best_s, best = now.bytes, now.time_s, slot_of.copy()
    links = network.neighbour.size
    even_s = float(load[:links].sum() / network.capacity[:links].sum())
    scale = 1 / network.capacity / max(_TARGET_OVER_FLOOR * even_s, start.host_s)
    temperatures = np.geomspace(_WARM, _COLD, _EPOCHS + 1)
    state = np.array([np.uint64(seed % (1 << 31)) * np.uint64(2654435769) + np.uint64(88172645463325252)])
    kept = tried = 0
    for epoch in range(_EPOCHS):
        if best_s <= fixed_s:
            break
        steps = proposals // _EPOCHS + (1 if epoch < proposals % _EPOCHS else 0)
        flows = (offset, other, sent, received, rails, network.host_begin)
        warm, cold = temperatures[epoch], temperatures[epoch + 1]
        kept += int(anneal(steps, warm, cold, state, load, scale, hosts, slot_of, node_in, *flows, network.tables))
        tried += steps
        # Recomputed, so that rounding errors do not accumulate.
        now = loads_of(slot_of)
        load = now.bytes
        if now.time_s < best_s * (1 - 1e-12):
            best_s, best = now.time_s, slot_of.copy()
        if progress is not None:
            progress(steps)
    return HostSearch(hosts[best], best_s, start.time_s, tried, kept)


def _neighbours_together(
    network: SwitchNetwork,
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    nodes: int,
    hosts: NDArray[np.int64],
) -> Iterator[NDArray[np.int64]]:
    """Yield places of nodes on hosts sorted by switch: in the order of nodes, and with those that exchange bytes."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    leaf = network.leaf[network.host_begin[hosts]]
    _, inverse, members = np.unique(leaf, return_inverse=True, return_counts=True)
    slots = np.lexsort((np.arange(hosts.size), leaf, -members[inverse]))[:nodes]
    yield slots
    source, target, size = pairs
    exchanged = coo_array((size, (source, target)), shape=(nodes, nodes)).tocsr()
    near = reverse_cuthill_mckee(exchanged + exchanged.T, symmetric_mode=True)
    placed = np.empty(nodes, dtype=np.int64)
    placed[near] = slots
    yield placed


def _is_the_same_in_any_order(
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]], nodes: int, hosts: int
) -> bool:
    """Return whether every node sends equally to all others and all hosts are used: any order has the same loads."""
    source, target, size = pairs
    if hosts != nodes or np.ptp(size) != 0 or (source == target).any():
        return False
    return np.unique(source * nodes + target).size == source.size == nodes * (nodes - 1)


def has_equal_ports(network: SwitchNetwork, hosts: NDArray[np.int64]) -> bool:
    """Return whether all ports of some hosts have one rate."""
    first = network.neighbour.size + 2 * network.host_begin[hosts]
    last = network.neighbour.size + 2 * network.host_begin[hosts + 1]
    rates = {float(rate) for one, other in zip(first, last, strict=True) for rate in network.capacity[one:other]}
    return len(rates) == 1


def fastest_hosts(network: SwitchNetwork, hosts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the hosts whose slowest port has the highest rate, in their order."""
    first = network.neighbour.size + 2 * network.host_begin[hosts]
    last = network.neighbour.size + 2 * network.host_begin[hosts + 1]
    rate = np.array([network.capacity[one:other].min() for one, other in zip(first, last, strict=True)])
    found: NDArray[np.int64] = hosts[rate == rate.max()]
    return found


def neighbours_of(
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]], nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the nodes with which each node exchanges bytes, and the bytes sent and received."""
    source, target, size = pairs
    keys = np.unique(np.concatenate([source * nodes + target, target * nodes + source]))
    sent, received = np.zeros(keys.size), np.zeros(keys.size)
    np.add.at(sent, np.searchsorted(keys, source * nodes + target), size)
    np.add.at(received, np.searchsorted(keys, target * nodes + source), size)
    offset = np.searchsorted(keys // nodes, np.arange(nodes + 1)).astype(np.int64)
    return offset, keys % nodes, sent, received
