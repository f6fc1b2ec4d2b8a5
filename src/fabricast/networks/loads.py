"""Link loads of traffic between hosts, with static, adaptive and indirect routes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import unknown_name
from fabricast.networks.network import SwitchNetwork

#: static: by destination, as InfiniBand's default; adaptive: split evenly over minimal routes, a bound that adaptive
#: routing approaches; indirect: over a random leaf switch (Valiant), expected loads.
ROUTINGS = ("static", "adaptive", "indirect")


@dataclass(frozen=True)
class NetworkLoads:
    """Loads of all directed links."""

    bytes: NDArray[np.float64]  # Bytes on each link, shape (links,)
    time_s: float  # Time of the busiest link in s
    busiest: int  # Number of the busiest link
    host_s: float  # Time of the busiest end point in s, which no mapping of whole nodes changes


def end_point_pairs(
    network: SwitchNetwork,
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    size_bytes: NDArray[np.float64],
    rails: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the bytes between end points: those of a pair of hosts are split evenly over their rails."""
    rail = np.tile(np.arange(rails), source.size)
    first, second = (np.repeat(network.host_begin[ends], rails) + rail for ends in (source, target))
    return first, second, np.repeat(size_bytes / rails, rails)


def link_loads(
    network: SwitchNetwork,
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    size_bytes: NDArray[np.float64],
    routing: str = "static",
    rails: int | None = None,
) -> NetworkLoads:
    """Return the loads of bytes between hosts.

    Parameters
    ----------
    network : SwitchNetwork
        Network.
    source, target : ndarray of int64, shape (pairs,)
        Hosts.
    size_bytes : ndarray of float64, shape (pairs,)
        Bytes of each pair.
    routing : {'static', 'adaptive', 'indirect'}, default 'static'
        Routes.
    rails : int, optional
        Number of end points of each host that messages use; by default that of the host with the fewest.

    Returns
    -------
    NetworkLoads
        Loads and time of the busiest link.

    Examples
    --------
    >>> from fabricast.networks.generators import fat_tree
    >>> import numpy as np
    >>> tree = fat_tree(2, 4, 2, bytes_per_s=1e9)
    >>> hosts = np.arange(8)
    >>> link_loads(tree, hosts, (hosts + 2) % 8, np.full(8, 1e9)).time_s
    1.0
    """
    from fabricast.networks.kernels.routes import add_traffic

    if routing not in ROUTINGS:
        raise unknown_name("routing", routing, ROUTINGS)
    load = np.zeros(network.capacity.size)
    used = network.rails(np.concatenate([source, target])) if rails is None else rails
    one, other, size = end_point_pairs(network, source, target, size_bytes, used)
    if routing == "indirect":
        _add_indirect(load, network, one, other, size)
    else:
        add_traffic(load, one, other, size, routing == "adaptive", *network.tables)
    time, links = load / network.capacity, network.neighbour.size
    busiest, port = int(time.argmax()), links + int(time[links:].argmax())
    if time[port] >= time[busiest] * (1 - 1e-9):
        # Of equal times, that of the port of a host is the one that no mapping changes.
        busiest = port
    return NetworkLoads(load, float(time[busiest]), busiest, float(time[port]))


def _add_indirect(
    load: NDArray[np.float64],
    network: SwitchNetwork,
    one: NDArray[np.int64],
    other: NDArray[np.int64],
    size: NDArray[np.float64],
) -> None:
    """Add expected loads of routes over a random leaf switch of the same plane: minimal to it, and minimal from it."""
    from fabricast.networks.kernels.routes import add_indirect

    links = network.neighbour.size
    np.add.at(load, links + 2 * one, size)
    np.add.at(load, links + 2 * other + 1, size)
    sent, received = np.zeros(network.leaves.size), np.zeros(network.leaves.size)
    apart = network.leaf[one] != network.leaf[other]
    np.add.at(sent, network.leaf_number[network.leaf[one[apart]]], size[apart])
    np.add.at(received, network.leaf_number[network.leaf[other[apart]]], size[apart])
    add_indirect(load, sent, received, network.leaves, network.begin, network.neighbour, network.distance)
