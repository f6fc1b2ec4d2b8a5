"""Networks of switches between hosts, with every directed link numbered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError

#: Most hosts and switches of a network.
_MOST_HOSTS, _MOST_SWITCHES = 1_000_000, 60_000
#: Most pairs of a switch and a leaf whose distance is kept, 2 bytes each.
_MOST_DISTANCES = 400_000_000
_UNREACHED = np.int16(-1)


@dataclass(frozen=True)
class Cable:
    """Cable between two switches, or between a switch and a host."""

    #: Numbers of the ends: switches from 0; a host is ``-1 - number``. The end `one` is always a switch.
    one: int
    other: int
    bytes_per_s: float  # Capacity of each direction in bytes/s


@dataclass(frozen=True)
class SwitchNetwork:
    """Switches, hosts and directed links.

    A link from switch to switch is numbered by its place in `neighbour`; those of end points follow, two for each: to
    its leaf switch, then from it. An end point is a port of a network card; a host has one or several (rails).
    """

    title: str  # What the network is, in words
    #: Names.
    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    begin: NDArray[np.int64]  # First link of each switch, shape (switches + 1,)
    neighbour: NDArray[np.int64]  # Switch at the end of each link, shape (switch links,)
    leaf: NDArray[np.int64]  # Switch of each end point; end points of a host are consecutive, shape (end points,)
    host_begin: NDArray[np.int64]  # First end point of each host, shape (hosts + 1,)
    capacity: NDArray[np.float64]  # Capacity of each link in bytes/s, shape (links,)
    assumptions: tuple[str, ...] = ()  # What no file states

    def rails(self, hosts: NDArray[np.int64]) -> int:
        """Return the number of end points that every one of some hosts has."""
        return int(np.diff(self.host_begin)[hosts].min())

    @property
    def end_points(self) -> int:
        """Number of end points."""
        return self.leaf.size

    @cached_property
    def number(self) -> NDArray[np.int64]:
        """Number of each end point for routes by destination: end points of one leaf are consecutive."""
        order = np.argsort(self.leaf, kind="stable")
        number = np.empty(order.size, dtype=np.int64)
        number[order] = np.arange(order.size)
        return number

    @cached_property
    def leaves(self) -> NDArray[np.int64]:
        """Switches with end points, in ascending order."""
        return np.unique(self.leaf)

    @cached_property
    def leaf_number(self) -> NDArray[np.int64]:
        """Place of each switch among the leaves; -1 for others."""
        place = np.full(len(self.switches), -1, dtype=np.int64)
        place[self.leaves] = np.arange(self.leaves.size)
        return place

    @cached_property
    def distance(self) -> NDArray[np.int16]:
        """Number of links from each switch to each leaf, shape (switches, leaves); -1 if they are not connected."""
        from fabricast.networks.kernels.routes import distances

        if len(self.switches) * self.leaves.size > _MOST_DISTANCES:
            raise InputError(
                f"{self.title} has {len(self.switches):,} switches, {self.leaves.size:,} of them with hosts: expected "
                f"a product of at most {_MOST_DISTANCES:,}"
            )
        found: NDArray[np.int16] = distances(self.begin, self.neighbour, self.leaves)
        return found

    @cached_property
    def divisor(self) -> NDArray[np.int64]:
        """Number of routes that the levels below each switch distinguish, for routes by destination."""
        from fabricast.networks.kernels.routes import divisors

        # The level of a switch is its distance to the nearest leaf. As unsigned numbers, unreached leaves are farthest.
        nearest = self.distance.view(np.uint16).min(axis=1)
        level = np.where(nearest == _UNREACHED.view(np.uint16), 0, nearest).astype(np.int64)
        found: NDArray[np.int64] = divisors(self.begin, self.neighbour, level)
        return found

    @cached_property
    def tables(self) -> tuple[NDArray[Any], ...]:
        """Arrays of the kernels of routes."""
        ways = (self.begin, self.neighbour, self.leaf, self.leaf_number, self.distance)
        return (*ways, self.number, self.divisor)

    def link_name(self, link: int) -> str:
        """Return the ends of a link in words."""
        if link < self.neighbour.size:
            source = int(np.searchsorted(self.begin, link, side="right")) - 1
            return f"{self.switches[source]} to {self.switches[self.neighbour[link]]}"
        point, down = divmod(link - self.neighbour.size, 2)
        host = self.hosts[int(np.searchsorted(self.host_begin, point, side="right")) - 1]
        switch = self.switches[self.leaf[point]]
        return f"{switch} to {host}" if down else f"{host} to {switch}"

    def host_numbers(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of hosts by name."""
        known = {name: number for number, name in enumerate(self.hosts)}
        # Launchers list short names, where the network may have those with a domain.
        short = {name.partition(".")[0]: number for name, number in known.items()}
        if len(short) == len(known):
            known = {**short, **known}
        missing = [name for name in names if name not in known]
        if missing:
            raise InputError(
                f"has {missing[0]}, which the network lacks; it has {len(self.hosts):,} hosts such as {self.hosts[0]}",
                argument="hosts",
            )
        return np.array([known[name] for name in names], dtype=np.int64)


def network_of_cables(
    title: str, hosts: Sequence[str], switches: Sequence[str], cables: Sequence[Cable], assumptions: Sequence[str] = ()
) -> SwitchNetwork:
    """Return the network of cables; every pair of hosts must be connected.

    >>> net = network_of_cables("two", ["a", "b"], ["s"], [Cable(0, -1, 1e9), Cable(0, -2, 1e9)])
    >>> net.leaf.tolist(), net.capacity.tolist(), net.link_name(3)
    ([0, 0], [1000000000.0, 1000000000.0, 1000000000.0, 1000000000.0], 's to b')
    """
    if not 2 <= len(hosts) <= _MOST_HOSTS:
        raise InputError(f"{title} has {len(hosts):,} hosts, expected 2 to {_MOST_HOSTS:,}")
    if len(switches) > _MOST_SWITCHES:
        raise InputError(f"{title} has {len(switches):,} switches, expected at most {_MOST_SWITCHES:,}")
    ends = np.array([(cable.one, cable.other) for cable in cables], dtype=np.int64)
    rate = np.array([cable.bytes_per_s for cable in cables])
    between = ends[:, 1] >= 0
    source = np.concatenate([ends[between, 0], ends[between, 1]])
    target = np.concatenate([ends[between, 1], ends[between, 0]])
    rates = np.concatenate([rate[between], rate[between]])
    # Parallel cables are in the order of the file, in both directions.
    order = np.lexsort((target, source))
    begin = np.searchsorted(source[order], np.arange(len(switches) + 1))
    host = -1 - ends[~between, 1]
    by_host = np.argsort(host, kind="stable")
    host_begin = np.searchsorted(host[by_host], np.arange(len(hosts) + 1))
    if (np.diff(host_begin) == 0).any():
        raise InputError(f"{title}: host {hosts[int(np.argmin(np.diff(host_begin)))]} has no cable")
    network = SwitchNetwork(
        title,
        tuple(hosts),
        tuple(switches),
        begin.astype(np.int64),
        target[order],
        ends[~between, 0][by_host],
        host_begin.astype(np.int64),
        np.concatenate([rates[order], np.repeat(rate[~between][by_host], 2)]),
        tuple(assumptions),
    )
    _check_connected(network)
    return network


def _check_connected(network: SwitchNetwork) -> None:
    """Raise an error if end points with the same place in their hosts cannot reach each other."""
    from fabricast.networks.kernels.routes import distances

    rails = np.diff(network.host_begin)
    for rail in range(int(rails.max())):
        hosts = np.flatnonzero(rails > rail)
        leaf = network.leaf[network.host_begin[hosts] + rail]
        far = distances(network.begin, network.neighbour, leaf[:1])[:, 0]
        apart = np.flatnonzero(far[leaf] == _UNREACHED)
        if apart.size:
            raise InputError(
                f"{network.title}: {network.hosts[hosts[int(apart[0])]]} and {network.hosts[hosts[0]]} are not "
                "connected, expected one network: lines may be missing, or it is a dragonfly, between whose groups "
                "Slurm lists no links (dragonfly:GROUPS,ROUTERS,HOSTS,GLOBAL describes one)"
            )
