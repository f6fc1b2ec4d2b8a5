"""Links and capacities of the engine model: tree, root complex, direct, shared."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.topology.parts import direct_rates
from fabricast.pcie.topology.paths import COPY_CLASS_WORDS, CopyClass, copy_class_of, link_labels, reverse_links
from fabricast.pcie.topology.tree import PcieTree

if TYPE_CHECKING:
    from fabricast.pcie.engines.kernels.links import Links


_REVERSE: dict[CopyClass, CopyClass] = {
    "local": "local",
    "crossing": "crossing",
    "between_roots": "between_roots",
    "host_in": "host_out",
    "host_out": "host_in",
}
#: Path classes of copies from and to memory of another socket.
_REMOTE = ("remote_in", "remote_out")
#: Rank of the limits that packets reach after all links.
LAST = 3


@dataclass(frozen=True)
class SharedLimit:
    """Limit on the aggregate rate of some flows, whatever their routes.

    An example is the read bandwidth of one memory.
    """

    bytes_per_s: float  # Upper limit on the sum of the rates in bytes/s
    flows: tuple[int, ...]  # Numbers of the flows
    #: Numbers of the flows in the reverse direction that count as well. The limit then applies only while flows of both
    #: directions run.
    reverse_flows: tuple[int, ...] = ()
    name: str = ""  # Name of the resource, such as ``"memory of NUMA0"``
    #: Whether the resource serves each flow separately, as memory does: a slow link of one flow does not block others.
    serves_separately: bool = False


@dataclass(frozen=True)
class LinkNames:
    """Names of links that are not links of the tree, and the tree link at which each limits a flow."""

    tree_links: int  # Number of links of the tree, which have the lowest numbers
    names: Mapping[int, str]  # Name of each other link that limits flows, such as ``"root complex RC"``
    #: Position of each other link on routes: 0 before, 1 among and 2 after links that several directions share, 3 after
    #: all links of the tree.
    ranks: Mapping[int, int]
    #: For each flow, the link of its route that represents such limits: the last link towards the root, or the link of
    #: its host memory; -1 for flows that use no link of the tree.
    places: tuple[int, ...]


def links_of(
    tree: PcieTree,
    flows: Sequence[tuple[int, int]],
    rates: Rates,
    over_peer_links: bool,
    limits: Sequence[SharedLimit] = (),
) -> Links:
    """Return the routes of flows and the link capacities in bytes/s.

    Links of the tree come first, followed by limits that are not tree links.
    """
    return named_links_of(tree, flows, rates, over_peer_links, limits)[0]


def named_links_of(
    tree: PcieTree,
    flows: Sequence[tuple[int, int]],
    rates: Rates,
    over_peer_links: bool,
    limits: Sequence[SharedLimit] = (),
) -> tuple[Links, LinkNames]:
    """Return the links as `links_of` does, and their names."""
    from fabricast.pcie.engines.kernels.links import Links

    routes, names = tree.routes, tree.endpoint_names
    table = _LinkTable((routes.capacity * rates.one_way_bytes_per_s).tolist(), reverse_links(tree).tolist())
    table.slow_links(tree, rates)
    direct_bandwidth = direct_rates(tree.peer_links) if over_peer_links else {}
    links = []
    for source, target in flows:
        ends = names[source], names[target]
        rate = direct_bandwidth.get(ends)
        if rate is None:
            pair = source * routes.endpoints + target
            route = routes.link[routes.offset[pair] : routes.offset[pair + 1]].tolist()
            way = copy_class_of(tree, source, target)
            gpu = target if way in ("host_in", "remote_in") else source
            group_rate = rates.group_rates.get((names[gpu], way), rates.of_class(way) if way in _REMOTE else None)
            slower = [] if way in _REMOTE else table.through_root(tree, route, way, rates)
            if group_rate is not None:
                slower += table.of_group(gpu, way, group_rate)
            if rates.group_rates and way == "crossing" and (key := (tree.path_class(*ends), way)) in rates.group_rates:
                slower.append(table.add(rates.group_rates[key], f"rate of copies of class {key[0]}"))
            links.append([*route, *slower])
        elif tree.peer_link(*ends) == "NVSwitch":
            links.append([table.direct((ends[0], ""), rate), table.direct(("", ends[1]), rate)])
        else:
            links.append([table.direct(ends, rate)])
    places = tuple(_place(tree, flow, route, routes.upstream_links) for flow, route in zip(flows, links, strict=True))
    for limit in limits:
        table.share(limit, links)
    names_of_links = LinkNames(routes.capacity.size, table.names, table.ranks, places)
    capacity, opposite = table.capacity, table.opposite
    if -1 in opposite:
        # Links without a reverse direction point to an unused dummy link, whose load is always 0.
        opposite = [len(capacity) if place < 0 else place for place in opposite] + [len(capacity)]
        capacity = [*capacity, 1.0]
    offset = np.concatenate([[0], np.cumsum(list(map(len, links)))]).astype(np.int64)
    link = np.array(list(itertools.chain.from_iterable(links)), dtype=np.int64)
    needs = np.array([table.needs.get(number, (-1, -1)) for number in range(len(capacity))], dtype=np.int64)
    found = Links(offset, link, np.array(opposite, dtype=np.int64), np.array(capacity), needs, rates.duplex_cost)
    return found, names_of_links


def _place(tree: PcieTree, flow: tuple[int, int], links: Sequence[int], upstream_links: int) -> int:
    """Return the link of the route of a flow that represents limits that are not links; -1 for direct links."""
    route = [link for link in links if link < tree.routes.capacity.size]
    if not route:
        return -1
    source, target = (tree.vertex(tree.endpoint_names[end]) for end in flow)
    if source.host_memory or target.host_memory:
        return route[0] if source.host_memory else route[-1]
    return max((link for link in route if link < upstream_links), default=route[0])


@dataclass
class _LinkTable:
    """Numbered links: those of the tree, then further limits in the order of first use."""

    capacity: list[float]
    #: Link of the reverse direction; -1 for none.
    opposite: list[int]
    #: Limits that apply only while two other links are both in use.
    needs: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: Names of links that are not links of the tree, and their positions on routes.
    names: dict[int, str] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    _direct: dict[tuple[str, str], int] = field(default_factory=dict)
    _slow: dict[tuple[int, CopyClass], int] = field(default_factory=dict)
    _of_group: dict[tuple[int, CopyClass], int] = field(default_factory=dict)

    def add(self, bytes_per_s: float, name: str) -> int:
        """Add a link without a reverse direction and return its number."""
        self.names[len(self.capacity)] = name
        self.capacity.append(bytes_per_s)
        self.opposite.append(-1)
        return len(self.capacity) - 1

    def slow_links(self, tree: PcieTree, rates: Rates) -> None:
        """Reduce the capacities of links that are slower than the topology states."""
        if not rates.link_rates:
            return
        for link, label in enumerate(link_labels(tree)):
            self.capacity[link] = min(self.capacity[link], rates.link_rates.get(label, np.inf))

    def direct(self, key: tuple[str, str], bytes_per_s: float) -> int:
        """Return the number of a direct link.

        Its directions are independent, because the effect of reverse traffic is unknown.
        """
        if key not in self._direct:
            # Copies leave an NVSwitch after they entered it.
            self.ranks[len(self.capacity)] = 2 if key[0] == "" else 0
            self._direct[key] = self.add(bytes_per_s, f"direct link {key[0] or 'NVSwitch'} > {key[1] or 'NVSwitch'}")
        return self._direct[key]

    def through_root(self, tree: PcieTree, route: list[int], way: CopyClass, rates: Rates) -> list[int]:
        """Return the limits of a path class at each root port of a route.

        Each limit is a virtual link next to the port, paired with that of the reverse direction.
        """
        rate = rates.of_class(way)
        if rate is None:
            return []
        if way == "between_roots":
            # No port limits an isolated copy between sockets. A shared limit is a separate `SharedLimit`.
            return [self.add(rate, "rate of a copy between sockets")]
        limits = []
        for link in route:
            if not _is_root_port(tree, link):
                continue
            if (link, way) not in self._slow:
                ports = (link, way), (self.opposite[link], _REVERSE[way])
                for port, kind in ports:
                    isolated_rate = rates.of_class(kind)
                    capacity = self.capacity[port]
                    self._slow[port, kind] = self.add(
                        capacity if isolated_rate is None else min(isolated_rate, capacity),
                        f"rate of copies {COPY_CLASS_WORDS[kind]}",
                    )
                there, back = (self._slow[port] for port in ports)
                self.opposite[there], self.opposite[back] = back, there
            limits.append(self._slow[link, way])
        return limits

    def of_group(self, gpu: int, way: CopyClass, rate: float) -> list[int]:
        """Return the limit of one GPU on its copies of a path class.

        The outstanding requests of a GPU limit copies from and to memory of another socket, because the latency is
        high. Copies of host memory may be slower at one GPU or socket than at others.
        """
        if (gpu, way) not in self._of_group:
            self._of_group[gpu, way] = self.add(rate, f"rate of copies {COPY_CLASS_WORDS[way]}")
        return [self._of_group[gpu, way]]

    def share(self, limit: SharedLimit, links: list[list[int]]) -> None:
        """Add a shared limit to the links of its flows."""
        flows = (*limit.flows, *limit.reverse_flows)
        # A shared limit has no input ports: a link of each flow before it makes every flow an input of its own.
        inputs = [self.add(np.inf, limit.name) for _ in flows]
        limit_link = self.add(limit.bytes_per_s, limit.name)
        if limit.serves_separately:
            self.ranks |= dict.fromkeys([*inputs, limit_link], LAST)
        for flow, entry in zip(flows, inputs, strict=True):
            links[flow] += [entry, limit_link]
        if limit.reverse_flows:
            # One marker link of infinite capacity per direction: the limit applies while both markers are in use.
            self.needs[limit_link] = self.add(np.inf, limit.name), self.add(np.inf, limit.name)
            for mark, kind in zip(self.needs[limit_link], (limit.flows, limit.reverse_flows), strict=True):
                for flow in kind:
                    links[flow].append(mark)


def _is_root_port(tree: PcieTree, link: int) -> bool:
    """Return whether a link joins a root complex to a vertex below it that is not memory."""
    lower, upper, *_ = tree.link_names[link]
    ends = [tree.vertex(lower), tree.vertex(upper)]
    others = [vertex for vertex in ends if vertex.kind != "root_complex"]
    return len(others) == 1 and others[0].kind not in ("system", "socket") and not others[0].host_memory
