"""PCIe trees: vertices, dual-simplex links, routes and path classes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fabricast.core.errors import InputError
from fabricast.core.units import PROTOCOL_EFFICIENCY
from fabricast.core.warnings import CodedWarning
from fabricast.pcie.topology.checks import (
    check_memory_nodes,
    check_peer_links,
    check_rates,
    check_staged_pairs,
    check_vertex,
)
from fabricast.pcie.topology.parts import MemoryNode, PeerLink, RouteRule, Routes, Vertex, direct_rates

__all__ = ["PATH_CLASSES", "PcieTree", "check_rule", "single_copy_rate_of"]

#: Path classes as ``nvidia-smi topo`` prints them, nearest first.
PATH_CLASSES = ("PIX", "PXB", "PHB", "NODE", "SYS")

#: Routes of all endpoint pairs are tabulated, which limits the number of endpoints. No known server has more.
LARGEST_ENDPOINTS = 256
_DEEPEST = 64
_KINDS = ("system", "socket", "root_complex", "switch", "endpoint")
_CROSSING = ("root_complex", "socket", "system")


@dataclass(frozen=True)
class PcieTree:
    """Rooted tree of PCIe links, each consisting of two independent directed links.

    A copy uses the links from its source up to the vertex where the route turns, by default the lowest common ancestor,
    and from there down to its target. Trees are immutable; use `dataclasses.replace` to derive a modified tree.

    Parameters
    ----------
    name : str
        Name of the topology.
    vertices : tuple of Vertex
        All vertices. Endpoints are numbered in this order.
    bandwidth_bytes_per_s : float or None, default None
        Bandwidth in bytes/s of an isolated copy over links of capacity 1, if it was measured or published.
    source : str, default ''
        Origin of the topology, for display.
    tag : str, default 'assumed'
        Provenance tag.
    warnings : tuple of CodedWarning, default ()
        Assumptions stated in the input file or made while reading it.
    link_bytes_per_s : float or None, default None
        Raw rate in bytes/s of a link of capacity 1, after line coding and including packet headers; None if unknown.
        It is an upper bound for the rate of a copy.
    peer_links : tuple of PeerLink, default ()
        Direct links between endpoints, which copies use instead of the tree.
    route_rules : tuple of RouteRule, default ()
        Rules for routes that turn above the lowest common ancestor. The last matching rule applies.
    memory_nodes : tuple of MemoryNode, default ()
        Host memory. `fabricast.pcie.topology.memory.with_host_memory` converts it to endpoints.
    builtin : bool, default False
        Whether the topology is part of this package, so that published parameters may apply.
    staged_pairs : tuple of (str, str), default ()
        Source and target of copies without peer access, which pass through host memory.

    Raises
    ------
    InputError
        If the vertices do not form one tree with endpoints as leaves, or a rate or capacity is out of range.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("storm8", (2, 2, 2))
    >>> tree.endpoint_names
    ('0', '1', '2', '3', '4', '5', '6', '7')
    >>> tree.path_class("0", "1"), tree.path_class("0", "2"), tree.path_class("0", "4")
    ('PIX', 'PXB', 'PHB')
    """

    name: str
    vertices: tuple[Vertex, ...]
    bandwidth_bytes_per_s: float | None = None
    source: str = ""
    tag: str = "assumed"
    warnings: tuple[CodedWarning, ...] = ()
    link_bytes_per_s: float | None = None
    peer_links: tuple[PeerLink, ...] = ()
    route_rules: tuple[RouteRule, ...] = ()
    memory_nodes: tuple[MemoryNode, ...] = ()
    builtin: bool = field(default=False, compare=False)
    staged_pairs: tuple[tuple[str, str], ...] = ()
    _by_name: dict[str, Vertex] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, Vertex] = {}
        for vertex in self.vertices:
            if vertex.name in by_name:
                raise InputError(
                    f"vertex '{vertex.name}' is a duplicate in topology '{self.name}'", item=("vertices", vertex.name)
                )
            if vertex.kind not in _KINDS:
                raise InputError(
                    f"vertex '{vertex.name}' has kind '{vertex.kind}', expected one of {', '.join(_KINDS)}",
                    item=("vertices", vertex.name),
                )
            by_name[vertex.name] = vertex
        object.__setattr__(self, "_by_name", by_name)
        self._check_tree()

    def __repr__(self) -> str:
        return f"PcieTree('{self.name}', {len(self.endpoint_names)} endpoints, {len(self.vertices)} vertices)"

    def _repr_html_(self) -> str:
        from fabricast.pcie.topology.drawing import tree_svg

        return tree_svg(self)

    def _check_tree(self) -> None:
        roots = [vertex.name for vertex in self.vertices if vertex.parent is None]
        if len(roots) != 1:
            listed = ", ".join(roots) or "none (a cycle?)"
            raise InputError(
                f"topology '{self.name}' has the roots: {listed}; expected exactly one, for several sockets a vertex "
                "of kind system that is their parent"
            )
        for vertex in self.vertices:
            if vertex.parent is not None and vertex.parent not in self._by_name:
                raise InputError(
                    f"vertex '{vertex.name}' has the unknown parent '{vertex.parent}'", item=("vertices", vertex.name)
                )
        reached = set(self.preorder(roots[0]))
        unreachable = sorted(set(self._by_name) - reached)
        if unreachable:
            named = ", ".join(f"'{name}'" for name in unreachable[:8])
            raise InputError(
                f"topology {self.name} has a cycle: {named} cannot be reached from the root, expected a tree",
                item=("vertices", unreachable[0]),
            )
        for vertex in self.vertices:
            parent_kind = None if vertex.parent is None else self._by_name[vertex.parent].kind
            below = [name for name in self.preorder(vertex.name) if self.is_endpoint(name)]
            check_vertex(vertex, parent_kind, len(self._children[vertex.name]), below)
        if max(self.depth.values()) > _DEEPEST:
            raise InputError(f"depth of topology '{self.name}' exceeds the limit of {_DEEPEST} links")
        if not 1 <= len(self.endpoint_names) <= LARGEST_ENDPOINTS:
            raise InputError(
                f"topology '{self.name}' has {len(self.endpoint_names):,} endpoints, expected 1 to {LARGEST_ENDPOINTS}"
            )
        check_rates(self.name, self.link_bytes_per_s, self.bandwidth_bytes_per_s)
        check_peer_links(self.peer_links, self.endpoint_names)
        check_staged_pairs(self.staged_pairs, self.accelerator_names)
        for number, rule in enumerate(self.route_rules):
            check_rule(self, rule, number)
        check_memory_nodes(self.memory_nodes, {vertex.name: vertex.kind for vertex in self.vertices})

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        children: dict[str, list[str]] = {vertex.name: [] for vertex in self.vertices}
        for vertex in self.vertices:
            if vertex.parent is not None:
                children[vertex.parent].append(vertex.name)
        return children

    def preorder(self, name: str) -> Iterator[str]:
        """Yield the names of a vertex and of all vertices below it, parents first."""
        stack = [name]
        while stack:
            top = stack.pop()
            yield top
            stack.extend(reversed(self._children[top]))

    def is_endpoint(self, name: str) -> bool:
        """Return whether `name` is an endpoint."""
        return self._by_name[name].kind == "endpoint"

    def vertex(self, name: str) -> Vertex:
        """Return the vertex with name `name`."""
        return self._by_name[name]

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names of the vertices below `name`, in order."""
        return tuple(self._children[name])

    @property
    def root(self) -> str:
        """Name of the root vertex."""
        return next(vertex.name for vertex in self.vertices if vertex.parent is None)

    @cached_property
    def endpoint_names(self) -> tuple[str, ...]:
        """Names of the endpoints, in the order of their numbers."""
        return tuple(vertex.name for vertex in self.vertices if vertex.kind == "endpoint")

    @cached_property
    def accelerator_names(self) -> tuple[str, ...]:
        """Names of the endpoints that are neither network cards nor host memory."""
        marked = {vertex.name for vertex in self.vertices if vertex.network_card or vertex.host_memory}
        return tuple(name for name in self.endpoint_names if name not in marked)

    @cached_property
    def endpoint_number(self) -> Mapping[str, int]:
        """Number of each endpoint by name."""
        return {name: number for number, name in enumerate(self.endpoint_names)}

    @cached_property
    def depth(self) -> Mapping[str, int]:
        """Number of links between each vertex and the root, by name."""
        depth = {self.root: 0}
        for name in self.preorder(self.root):
            for child in self._children[name]:
                depth[child] = depth[name] + 1
        return depth

    def ancestors(self, name: str) -> list[str]:
        """Return the names of a vertex and of the vertices above it, nearest first."""
        chain = [name]
        while (parent := self._by_name[chain[-1]].parent) is not None:
            chain.append(parent)
        return chain

    def lowest_common_ancestor(self, source: str, target: str) -> str:
        """Return the lowest common ancestor of two endpoints."""
        above = set(self.ancestors(source))
        return next(name for name in self.ancestors(target) if name in above)

    def turn(self, source: str, target: str) -> str:
        """Return the vertex at which a route turns from upstream to downstream.

        The route turns at the lowest common ancestor of both endpoints unless a route rule specifies a vertex above it.

        Parameters
        ----------
        source, target : str
            Names of two different endpoints.

        Examples
        --------
        >>> from dataclasses import replace
        >>> from fabricast.pcie.topology.regular import regular_tree
        >>> tree = regular_tree("flat4x2", (2, 4))
        >>> controlled = replace(tree, route_rules=(RouteRule("*", "*", tree.root),))
        >>> tree.turn("0", "1"), controlled.turn("0", "1")
        ('S0', 'RC')
        """
        nearest = self.lowest_common_ancestor(source, target)
        for rule in reversed(self.route_rules):
            # A wildcard rule does not apply to routes that already turn above its vertex.
            if rule.matches(source, target) and rule.turn in self.ancestors(nearest):
                return rule.turn
        return nearest

    def is_crossing(self, source: str, target: str) -> bool:
        """Return whether the route of a copy turns at a root complex or above it."""
        return self._by_name[self.turn(source, target)].kind in _CROSSING

    def path_class(self, source: str, target: str) -> str:
        """Return the path class of two endpoints in the notation of ``nvidia-smi topo``.

        Route rules are ignored, because the operating system does not show them.

        Parameters
        ----------
        source, target : str
            Names of two different endpoints.

        Returns
        -------
        {'PIX', 'PXB', 'PHB', 'NODE', 'SYS'}
            One switch, several switches, a root complex (merged host bridges too), several root complexes of one
            socket, or the socket interconnect.
        """
        turn = self.lowest_common_ancestor(source, target)
        kind = self._by_name[turn].kind
        if kind == "system":
            return "SYS"
        if kind in ("root_complex", "socket"):
            return "PHB" if kind == "root_complex" else "NODE"
        ends = (self._by_name[source], self._by_name[target])
        one_switch = all(end.parent == turn and not end.switches_above for end in ends)
        return "PIX" if one_switch else "PXB"

    @cached_property
    def _peer_kind(self) -> Mapping[tuple[str, str], str]:
        return {pair: peers.kind for peers in self.peer_links for pair in itertools.permutations(peers.endpoints, 2)}

    def peer_link(self, source: str, target: str) -> str | None:
        """Return the kind of direct link between two endpoints; None if there is none."""
        return self._peer_kind.get((source, target))

    @cached_property
    def _direct_rates(self) -> dict[tuple[str, str], float]:
        return direct_rates(self.peer_links)

    def copy_bytes_per_s(self, source: str, target: str) -> float | None:
        """Return the rate of a single copy between two endpoints in bytes/s; None if it is unknown.

        It is that of their direct link, or else `bandwidth_bytes_per_s`.

        >>> from fabricast.pcie.topology.builtin import load_tree
        >>> load_tree("hgx_h100").copy_bytes_per_s("0", "7")
        450000000000.0
        """
        return self._direct_rates.get((source, target), self.bandwidth_bytes_per_s)

    @cached_property
    def _staged(self) -> frozenset[tuple[str, str]]:
        return frozenset(self.staged_pairs)

    def transport(self, source: str, target: str) -> str:
        """Return how copies between two endpoints travel.

        Returns
        -------
        {'p2p', 'staged', 'nvlink', 'nvswitch', 'xgmi'}
            Over the PCIe tree, through host memory, or over a direct link.
        """
        direct = self.peer_link(source, target)
        if direct is not None:
            return direct.lower()
        return "staged" if (source, target) in self._staged else "p2p"

    @cached_property
    def link_names(self) -> tuple[tuple[str, str, str, int], ...]:
        """Directed links in kernel order as (source, target, direction, uplink port)."""
        lower = [vertex.name for vertex in self.vertices if vertex.parent is not None]
        order = {name: position for position, name in enumerate(self.preorder(self.root))}
        upward = sorted(lower, key=lambda name: (-self.depth[name], order[name]))
        downward = sorted(lower, key=lambda name: (self.depth[name], order[name]))
        names: list[tuple[str, str, str, int]] = []
        for ordered, direction in ((upward, "pcie_up"), (downward, "pcie_down")):
            for name in ordered:
                parent = self._by_name[name].parent
                assert parent is not None
                ends = (name, parent) if direction == "pcie_up" else (parent, name)
                ports = max(1, len(self._by_name[name].uplink_groups))
                names.extend((*ends, direction, port) for port in range(ports))
        return tuple(names)

    @cached_property
    def _link_number(self) -> dict[tuple[str, str, str, int], int]:
        return {name: number for number, name in enumerate(self.link_names)}

    def port(self, name: str, endpoint: str) -> int:
        """Return the index of the uplink of a vertex that an endpoint uses."""
        for port, group in enumerate(self._by_name[name].uplink_groups):
            if endpoint in group:
                return port
        return 0

    def route(self, source: str, target: str) -> list[int]:
        """Return the numbers of the links between two endpoints, from source to target."""
        number = self._link_number
        turn = self.turn(source, target)
        links = []
        for name in itertools.takewhile(lambda name: name != turn, self.ancestors(source)):
            parent = self._by_name[name].parent
            assert parent is not None
            links.append(number[name, parent, "pcie_up", self.port(name, source)])
        down = list(itertools.takewhile(lambda name: name != turn, self.ancestors(target)))
        for name in reversed(down):
            parent = self._by_name[name].parent
            assert parent is not None
            links.append(number[parent, name, "pcie_down", self.port(name, target)])
        return links

    @cached_property
    def routes(self) -> Routes:
        """Routes of all ordered endpoint pairs as arrays."""
        names = self.endpoint_names
        offset, link, crossing = [0], [], []
        for source, target in itertools.product(names, names):
            if source != target:
                link.extend(self.route(source, target))
            offset.append(len(link))
            crossing.append(source != target and self.is_crossing(source, target))
        lower = [down if direction == "pcie_down" else up for up, down, direction, _ in self.link_names]
        return Routes(
            offset=np.array(offset, dtype=np.int64),
            link=np.array(link, dtype=np.int64),
            crossing=np.array(crossing, dtype=np.bool_),
            capacity=np.array([self._by_name[name].capacity for name in lower], dtype=np.float64),
            leaves_root_complex=np.array(
                [
                    direction == "pcie_down" and self._by_name[upper].kind == "root_complex"
                    for upper, _, direction, _ in self.link_names
                ],
                dtype=np.bool_,
            ),
            behind_root_complex=np.array(
                [self._by_name[start].kind in _CROSSING for start, _, _, _ in self.link_names], dtype=np.bool_
            ),
            upstream_links=sum(name[2] == "pcie_up" for name in self.link_names),
            endpoints=len(names),
        )


def check_rule(tree: PcieTree, rule: RouteRule, number: int = 0) -> None:
    """Raise `InputError` if a route rule does not apply to any route of a tree.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    rule : RouteRule
        Rule to check.
    number : int, default 0
        Index of the rule in the topology, for the error message.
    """
    named = f"{rule} of topology '{tree.name}'"
    ends = [end for end in (rule.source, rule.target) if end != "*"]
    unknown = [end for end in ends if end not in tree.endpoint_number]
    if unknown or (rule.source == rule.target != "*"):
        raise InputError(
            f"{named} has the endpoint '{(unknown or ends)[0]}', expected two different endpoints or '*'",
            item=("routes", number),
        )
    if rule.turn not in tree.depth or tree.is_endpoint(rule.turn):
        raise InputError(
            f"{named} turns at '{rule.turn}', expected a switch, a root complex or the system", item=("routes", number)
        )
    outside = [end for end in ends if rule.turn not in tree.ancestors(end)]
    if outside:
        raise InputError(
            f"{named} turns at '{rule.turn}', expected a vertex above '{outside[0]}'", item=("routes", number)
        )


def single_copy_rate_of(tree: PcieTree) -> float | None:
    """Return the rate of an isolated copy in bytes/s: the bandwidth of the topology, or the payload share of its links.

    Examples
    --------
    >>> from fabricast.pcie.topology.builtin import load_tree
    >>> single_copy_rate_of(load_tree("flat4x2")) is None
    True
    """
    if tree.bandwidth_bytes_per_s is not None:
        return tree.bandwidth_bytes_per_s
    return None if tree.link_bytes_per_s is None else tree.link_bytes_per_s * PROTOCOL_EFFICIENCY
