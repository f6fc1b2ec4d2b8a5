"""Link loads and bottleneck times under direct and indirect routing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError, unknown_name
from fabricast.percs.network import LINK_CLASSES, TwoLevelNetwork
from fabricast.percs.workloads import Workload

__all__ = ["ROUTINGS", "LinkLoads", "Routing", "Traffic", "count_traffic", "matrix_traffic", "route", "route_each"]

Routing = Literal["direct", "indirect"]
ROUTINGS: tuple[Routing, ...] = ("direct", "indirect")


@dataclass(frozen=True)
class Traffic:
    """Traffic between routers and groups.

    These sums determine the link loads for every routing and gateway rule.

    Parameters
    ----------
    local : ndarray, shape (routers, routers of a group)
        Units from each router to each router of its group.
    out, into : ndarray, shape (routers, groups)
        Units from each router to each other group, and from each other group to each router; the same
        array if they are equal.
    unit_bytes : float
        Bytes per unit.
    """

    local: NDArray[np.generic]
    out: NDArray[np.generic]
    into: NDArray[np.generic]
    unit_bytes: float


@dataclass(frozen=True)
class LinkLoads:
    """Bytes on every directed link.

    Parameters
    ----------
    network : TwoLevelNetwork
        Network.
    link : ndarray of float64, shape (groups, routers of a group, routers of a group)
        Bytes on links within groups; zero on the diagonal.
    between : ndarray of float64, shape (groups, groups)
        Bytes on each of the parallel links between two groups.
    injected, ejected : ndarray of float64, shape (routers,)
        Bytes that the node of each router sends to and receives from other nodes.
    """

    network: TwoLevelNetwork
    link: NDArray[np.float64]
    between: NDArray[np.float64]
    injected: NDArray[np.float64]
    ejected: NDArray[np.float64]

    @cached_property
    def by_class(self) -> dict[str, NDArray[np.float64]]:
        """Load in bytes of every link by class; parallel links are listed separately."""
        groups, kind = self.network.groups, self.network.local_class.ravel()
        links = self.link.reshape(groups, -1)
        # Remove the diagonal: shift the flat matrix by one, so that it becomes the last column.
        between = self.between.ravel()[1:].reshape(groups - 1, groups + 1)[:, :-1].ravel()
        return {
            "LL": np.take(links, np.flatnonzero(kind == 0), axis=1).ravel(),
            "LR": np.take(links, np.flatnonzero(kind == 1), axis=1).ravel(),
            "D": between if self.network.multiplicity == 1 else np.repeat(between, self.network.multiplicity),
        }

    @property
    def _rates(self) -> dict[str, float]:
        return dict(zip(LINK_CLASSES, self.network.capacities.tolist(), strict=True))

    @cached_property
    def busiest_bytes(self) -> dict[str, float]:
        """Load in bytes of the busiest link of each class."""
        return {name: float(load.max(initial=0.0)) for name, load in self.by_class.items()}

    def class_times_s(self) -> dict[str, float]:
        """Return the transfer time of the busiest link of each class in s."""
        return {name: load / self._rates[name] for name, load in self.busiest_bytes.items()}

    @property
    def bottleneck(self) -> tuple[float, str]:
        """Transfer time of the busiest link in s, a lower bound, and its class."""
        times = self.class_times_s()
        worst = max(times, key=lambda name: times[name])
        return times[worst], worst

    def node_times_s(self) -> dict[str, float]:
        """Return the time in s that the busiest node needs to inject and to eject its bytes."""
        rate = self.network.injection_bytes_per_s
        return {
            "injection": float(self.injected.max(initial=0.0)) / rate,
            "ejection": float(self.ejected.max(initial=0.0)) / rate,
        }

    @property
    def limit(self) -> tuple[float, str]:
        """Time of the busiest resource in s, a link or the injection or ejection of a node, and its name."""
        times = self.class_times_s() | self.node_times_s()
        worst = max(times, key=lambda name: times[name])
        return times[worst], worst

    def floor_s(self) -> float:
        """Return the transfer time in s with evenly loaded links.

        This is the maximum over classes of mean load divided by capacity.
        """
        return float(max(load.mean() / self._rates[name] for name, load in self.by_class.items() if load.size))


def _empty(
    network: TwoLevelNetwork, kind: type[np.generic], *, mutual: bool = False
) -> tuple[NDArray[np.generic], NDArray[np.generic], NDArray[np.generic]]:
    shape = (network.routers, network.groups)
    local, out = np.zeros((network.routers, network.group_routers), kind), np.zeros(shape, kind)
    return local, out, out if mutual else np.zeros(shape, kind)


def count_traffic(
    workload: Workload, router: NDArray[np.int32], network: TwoLevelNetwork, *, seed: int = 0
) -> tuple[Traffic, int]:
    """Count the messages of a mapped workload between routers and groups.

    Parameters
    ----------
    workload : Workload
        Communication pattern; messages are generated on the fly.
    router : ndarray of int32, shape (tasks,)
        Router of each task.
    network : TwoLevelNetwork
        Network.
    seed : int, default 0
        Seed of random targets.

    Returns
    -------
    (Traffic, int)
        Message counts, and the total number of messages.
    """
    from fabricast.percs.kernels.loads import count_grid, count_random

    if router.shape != (workload.tasks,) or router.min() < 0 or router.max() >= network.routers:
        raise InputError(f"mapping of '{workload.name}' is invalid, expected a router below {network.routers} per task")
    small = np.uint16 if network.routers <= np.iinfo(np.uint16).max else np.uint32
    group_of = (np.arange(network.routers) // network.group_routers).astype(np.uint16)
    mapped = (router.astype(small), group_of, network.group_routers)
    if workload.random_targets:
        counts = _empty(network, np.int32)
        sent = count_random(workload.random_targets, seed, *mapped, *counts)
    else:
        grid, offsets, strides = workload.tables()
        # Upper bound of the counts of any router; narrower integers reduce memory traffic.
        most = int(np.bincount(router).max()) * len(workload.offsets)
        mutual = workload.is_mutual
        counts = _empty(network, np.uint16 if most <= np.iinfo(np.uint16).max else np.int32, mutual=mutual)
        sent = count_grid(grid, offsets, strides, workload.wrap, mutual, *mapped, *counts)
    return Traffic(*counts, workload.size_bytes), int(sent)


def matrix_traffic(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    size_bytes: NDArray[np.float64],
    router: NDArray[np.int32],
    network: TwoLevelNetwork,
) -> Traffic:
    """Sum the bytes between ranks by routers and groups.

    Parameters
    ----------
    source, target, size_bytes : ndarray, shape (pairs,)
        Sending rank, receiving rank and bytes of each pair.
    router : ndarray of int32, shape (ranks,)
        Router of each rank.
    network : TwoLevelNetwork
        Network.

    Returns
    -------
    Traffic
        Traffic in bytes.
    """
    from fabricast.percs.kernels.loads import count_pairs

    counts = _empty(network, np.float64)
    count_pairs(source, target, size_bytes, router, network.group_routers, *counts)
    return Traffic(*counts, 1.0)


def route(traffic: Traffic, network: TwoLevelNetwork, routing: Routing) -> LinkLoads:
    """Compute link loads under one routing.

    Parameters
    ----------
    traffic : Traffic
        Traffic between routers and groups.
    network : TwoLevelNetwork
        Network with gateway rule and parallel links.
    routing : {'direct', 'indirect'}
        Shortest routes, or routes through a random third group. Loads of indirect routes are expected values.

    Returns
    -------
    LinkLoads
        Bytes on every link.

    Raises
    ------
    InputError
        If there are too few groups for indirect routes.
    """
    return route_each(traffic, network, (routing,))[routing]


def route_each(
    traffic: Traffic, network: TwoLevelNetwork, routings: Sequence[Routing] = ROUTINGS
) -> dict[Routing, LinkLoads]:
    """Compute link loads under several routings.

    Parameters
    ----------
    traffic : Traffic
        Traffic between routers and groups.
    network : TwoLevelNetwork
        Network with gateway rule and parallel links.
    routings : sequence of str, default both
        Routings, see `route`.

    Returns
    -------
    dict of str to LinkLoads
        Bytes on every link, by routing.

    Raises
    ------
    InputError
        If there are too few groups for indirect routes, or a routing is unknown.
    """
    from fabricast.percs.kernels.loads import direct_loads, indirect_loads, sum_by_gateway

    groups, routers, gateways = network.groups, network.group_routers, network.gateways
    local = traffic.local.astype(np.float64)
    sent_by, sent, total = sum_by_gateway(traffic.out, gateways, routers)
    got_by, got = sent_by, sent
    if traffic.into is not traffic.out:
        got_by, got, _ = sum_by_gateway(traffic.into, gateways, routers)
    injected, ejected = _node_bytes(traffic, local, network)
    loads: dict[Routing, LinkLoads] = {}
    for routing in routings:
        link, between = np.zeros((groups, routers, routers)), np.zeros((groups, groups))
        if routing == "direct":
            direct_loads(local, sent_by, got_by, total, network.multiplicity, link, between)
        elif routing == "indirect":
            if groups < 3:
                raise InputError(f"groups is {groups}, expected 3 or more for indirect routes")
            fixed = network.gateway != "rel"
            indirect_loads(local, sent_by, got_by, sent, got, total, gateways, fixed, link, between)
        else:
            raise unknown_name("routing", routing, ROUTINGS)
        link *= traffic.unit_bytes
        between *= traffic.unit_bytes
        loads[routing] = LinkLoads(network, link, between, injected, ejected)
    return loads


def _node_bytes(
    traffic: Traffic, local: NDArray[np.float64], network: TwoLevelNetwork
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bytes that the node of each router injects and ejects."""
    groups, routers = network.groups, network.group_routers
    within = local.reshape(groups, routers, routers)
    same = within[:, np.arange(routers), np.arange(routers)].ravel()
    out, into = (units.sum(axis=1, dtype=np.float64) for units in (traffic.out, traffic.into))
    injected = within.sum(axis=2).ravel() - same + out
    ejected = within.sum(axis=1).ravel() - same + into
    return injected * traffic.unit_bytes, ejected * traffic.unit_bytes
