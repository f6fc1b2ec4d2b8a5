"""Links that copies take, and what each of them carries: those of the tree, slower ways over its root, direct links."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fabricast.core.errors import InputError
from fabricast.pcie.topology.parts import direct_rates
from fabricast.pcie.topology.paths import Way, reverse_links, way_of
from fabricast.pcie.topology.tree import PcieTree

if TYPE_CHECKING:
    from fabricast.pcie.engines.kernels.engines import Links

__all__ = ["LinkRates", "SharedLimit", "links_of"]

_BACK: dict[Way, Way] = {
    "local": "local", "crossing": "crossing", "between_roots": "between_roots",
    "host_in": "host_out", "host_out": "host_in",
}  # fmt: skip
#: Ways to and from memory of another socket.
_REMOTE = ("remote_in", "remote_out")


@dataclass(frozen=True)
class LinkRates:
    """What one copy alone, and two opposite ones, tell of the links of a machine.

    Parameters
    ----------
    one_way_bytes_per_s : float
        Rate of a copy alone.
    two_way_bytes_per_s : float
        Rate of each of two opposite copies between the same endpoints.
    crossing_bytes_per_s, between_roots_bytes_per_s : float or None, default None
        Rate of a copy alone between GPUs that crosses the root complex, and that goes to another socket, where it is
        less.
    host_in_bytes_per_s, host_out_bytes_per_s : float or None, default None
        Rate of a copy alone from host memory, and to it, where it is less.
    remote_in_bytes_per_s, remote_out_bytes_per_s : float or None, default None
        The same of memory of another socket.
    """

    one_way_bytes_per_s: float
    two_way_bytes_per_s: float
    crossing_bytes_per_s: float | None = None
    between_roots_bytes_per_s: float | None = None
    host_in_bytes_per_s: float | None = None
    host_out_bytes_per_s: float | None = None
    remote_in_bytes_per_s: float | None = None
    remote_out_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        one, two = self.one_way_bytes_per_s, self.two_way_bytes_per_s
        if not 0 < one < 1e13 or not one / 2 <= two <= one * (1 + 1e-9):
            raise InputError(
                f"{one / 1e9:.4g} GB/s one way and {two / 1e9:.4g} GB/s each of two ways, expected a rate and from "
                "half of it to all of it"
            )

    def of_way(self, way: Way) -> float | None:
        """Return the rate of a copy alone of a kind of way through the root complex; None where the links decide."""
        apart = self.between_roots_bytes_per_s
        rate = {
            "crossing": self.crossing_bytes_per_s, "host_in": self.host_in_bytes_per_s,
            "host_out": self.host_out_bytes_per_s,
            "remote_in": self.remote_in_bytes_per_s or self.host_in_bytes_per_s,
            "remote_out": self.remote_out_bytes_per_s or self.host_out_bytes_per_s,
            "between_roots": self.crossing_bytes_per_s if apart is None else apart,
        }.get(way)  # fmt: skip
        return rate if rate is not None and rate < self.one_way_bytes_per_s else None

    @property
    def duplex_cost(self) -> float:
        """What a byte in one direction takes from the other, in bytes: acknowledgements and credits."""
        return self.one_way_bytes_per_s / min(self.two_way_bytes_per_s, self.one_way_bytes_per_s) - 1.0


@dataclass(frozen=True)
class SharedLimit:
    """What some flows carry together, whatever links they take, such as those that read one memory.

    Parameters
    ----------
    bytes_per_s : float
        Their rates together.
    flows : tuple of int
        Numbers of the flows.
    other_way : tuple of int, default ()
        Flows of the other direction that count too; the limit is then in force only while both kinds run.
    """

    bytes_per_s: float
    flows: tuple[int, ...]
    other_way: tuple[int, ...] = ()


def links_of(
    tree: PcieTree, flows: Sequence[tuple[int, int]], rates: LinkRates, over_peer_links: bool,
    limits: Sequence[SharedLimit] = (),
) -> Links:  # fmt: skip
    """Return the routes of flows and what their links carry in bytes/s; those that are none of the tree last."""
    from fabricast.pcie.engines.kernels.engines import Links
    from fabricast.pcie.graphs.kernels.link_use import links_in_use

    routes, names = tree.routes, tree.endpoint_names
    table = _LinkTable((routes.capacity * rates.one_way_bytes_per_s).tolist(), reverse_links(tree).tolist())
    told = direct_rates(tree.peer_links) if over_peer_links else {}
    links = []
    for source, target in flows:
        ends = names[source], names[target]
        rate = told.get(ends)
        if rate is None:
            pair = source * routes.endpoints + target
            route = routes.link[routes.offset[pair] : routes.offset[pair + 1]].tolist()
            way = way_of(tree, source, target)
            if way in _REMOTE:
                slower = table.of_gpu(target if way == "remote_in" else source, way, rates)
            else:
                slower = table.through_root(tree, route, way, rates)
            links.append([*route, *slower])
        elif tree.peer_link(*ends) == "NVSwitch":
            links.append([table.direct((ends[0], ""), rate), table.direct(("", ends[1]), rate)])
        else:
            links.append([table.direct(ends, rate)])
    for limit in limits:
        table.share(limit, links)
    capacity, opposite = table.capacity, table.opposite
    if -1 in opposite:
        # A link that nothing takes stands in for what such links have not.
        opposite = [len(capacity) if place < 0 else place for place in opposite] + [len(capacity)]
        capacity = [*capacity, 1.0]
    offset = np.concatenate([[0], np.cumsum(list(map(len, links)))]).astype(np.int64)
    link = np.array(list(itertools.chain.from_iterable(links)), dtype=np.int64)
    needs = np.array([table.needs.get(number, (-1, -1)) for number in range(len(capacity))], dtype=np.int64)
    return Links(
        offset, link, np.array(opposite, dtype=np.int64), np.array(capacity), needs,
        links_in_use(len(capacity), offset, link), rates.duplex_cost,
    )  # fmt: skip


@dataclass
class _LinkTable:
    """Links by number: those of the tree, then what else holds copies back, each where it is first needed."""

    capacity: list[float]
    #: The link of the other direction; -1 where there is none.
    opposite: list[int]
    #: Limits in force only while both of two other links are taken.
    needs: dict[int, tuple[int, int]] = field(default_factory=dict)
    _direct: dict[tuple[str, str], int] = field(default_factory=dict)
    _slow: dict[tuple[int, Way], int] = field(default_factory=dict)
    _of_gpu: dict[tuple[int, Way], int] = field(default_factory=dict)

    def add(self, bytes_per_s: float) -> int:
        """Return the number of a new link without an opposite."""
        self.capacity.append(bytes_per_s)
        self.opposite.append(-1)
        return len(self.capacity) - 1

    def direct(self, key: tuple[str, str], bytes_per_s: float) -> int:
        """Return the number of a direct link; what one direction of it costs the other nobody tells."""
        if key not in self._direct:
            self._direct[key] = self.add(bytes_per_s)
        return self._direct[key]

    def through_root(self, tree: PcieTree, route: list[int], way: Way, rates: LinkRates) -> list[int]:
        """Return what holds back copies of one kind of way: ports of root complexes, each with its opposite."""
        rate = rates.of_way(way)
        if rate is None:
            return []
        if way == "between_roots":
            # What holds such a copy back alone is no port: what several of them share is a limit of its own.
            return [self.add(rate)]
        found = []
        for link in route:
            if not _is_root_port(tree, link):
                continue
            if (link, way) not in self._slow:
                ports = (link, way), (self.opposite[link], _BACK[way])
                for port, kind in ports:
                    alone = rates.of_way(kind)
                    carried = self.capacity[port]
                    self._slow[port, kind] = self.add(carried if alone is None else min(alone, carried))
                there, back = (self._slow[port] for port in ports)
                self.opposite[there], self.opposite[back] = back, there
            found.append(self._slow[link, way])
        return found

    def of_gpu(self, gpu: int, way: Way, rates: LinkRates) -> list[int]:
        """Return what holds back copies of a GPU and memory of another socket: its own requests on a long way."""
        rate = rates.of_way(way)
        if rate is None:
            return []
        if (gpu, way) not in self._of_gpu:
            self._of_gpu[gpu, way] = self.add(rate)
        return [self._of_gpu[gpu, way]]

    def share(self, limit: SharedLimit, links: list[list[int]]) -> None:
        """Add what some flows carry together to the links that they take."""
        own = self.add(limit.bytes_per_s)
        for flow in (*limit.flows, *limit.other_way):
            links[flow].append(own)
        if limit.other_way:
            # One mark a direction, which holds nothing back: the limit is in force while both are taken.
            self.needs[own] = self.add(np.inf), self.add(np.inf)
            for mark, kind in zip(self.needs[own], (limit.flows, limit.other_way), strict=True):
                for flow in kind:
                    links[flow].append(mark)


def _is_root_port(tree: PcieTree, link: int) -> bool:
    """Whether a link joins a root complex with what is below it, other than memory."""
    lower, upper, *_ = tree.link_names[link]
    ends = [tree.vertex(lower), tree.vertex(upper)]
    others = [vertex for vertex in ends if vertex.kind != "root_complex"]
    return len(others) == 1 and others[0].kind != "system" and not others[0].host_memory
