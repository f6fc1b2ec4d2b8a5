"""Times that an operation cannot fall below, for clusters that are neither emulated nor public."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.collectives.clusters.cluster import ETHERNET, PCIE, Cluster
from fabricast.nccl.costs import Operation, bus_factor

_Array = NDArray[np.float64]
#: Smallest size in bytes whose time depends on the rates of links, and hardly on latencies.
LEAST_BYTES = 1 << 20
#: Operations that are composed of sends and receives, whose paths the bounds do not follow.
SENDS = (Operation.ALLTOALL, Operation.SENDRECV)


def has_bounds(cluster: Cluster, operation: Operation) -> bool:
    """Return whether the cards of several nodes bound an operation.

    The cards of a node that is built in are not those that sockets use.
    """
    return cluster.nodes > 1 and operation not in SENDS and (cluster.network != ETHERNET or cluster.fabric == PCIE)


def card_rate(cluster: Cluster) -> float:
    """Return the rate of all cards of a node in bytes/s; infinite for one node."""
    if cluster.nodes == 1:
        return np.inf
    return cluster.cards * cluster.card_gbit_s * 1e9 / 8 / cluster.oversubscription


def link_rate(cluster: Cluster) -> float:
    """Return the rate of the links of a GPU within a node in bytes/s; infinite for one GPU."""
    return cluster.inner_bytes_per_s if cluster.gpus > 1 else np.inf


def least_s(cluster: Cluster, operation: Operation, is_ring: NDArray[np.bool_], size: _Array) -> _Array:
    """Return the time in which the links can move the bytes of rings or of other algorithms.

    Links have their raw rate, and rings over PCIe the fast end of the range of their forecast.

    Rings move what the bus bandwidth counts. The GPUs of a node can reduce first: the cards of n nodes then move that
    of n ranks, and links each byte once. Sends have no bound: 0.
    """
    if operation in SENDS:
        return np.zeros(size.shape)
    of_ring = bus_factor(operation, cluster.ranks)
    of_nodes = bus_factor(operation, cluster.nodes) if cluster.nodes > 1 else 0.0
    bound: _Array = size * np.maximum(
        np.where(is_ring, of_ring, of_nodes) / card_rate(cluster),
        np.where(is_ring, of_ring, min(of_ring, 1.0)) / link_rate(cluster),
    )
    return bound


def bounds(cluster: Cluster, operation: Operation, size: _Array) -> pd.DataFrame:
    """Return the least time of any algorithm and of a ring at each size, and what limits the ring."""
    size = size[size >= LEAST_BYTES]
    ring_s = least_s(cluster, operation, np.ones(size.shape, dtype=np.bool_), size)
    any_s = least_s(cluster, operation, np.zeros(size.shape, dtype=np.bool_), size)
    is_of_cards = card_rate(cluster) <= link_rate(cluster)
    return pd.DataFrame(
        {
            "size_bytes": size.astype(np.int64),
            "time_us": np.nan,
            "algorithm_gb_per_s": np.nan,
            "bus_gb_per_s": np.nan,
            "earliest_us": any_s * 1e6,
            "ring_earliest_us": ring_s * 1e6,
            "ring_most_gb_per_s": size / ring_s * bus_factor(operation, cluster.ranks) / 1e9,
            "limit": "network cards" if is_of_cards else f"{cluster.fabric} within the node",
        }
    )
