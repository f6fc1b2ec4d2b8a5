"""PCIe trees: vertices, dual-simplex links, routes, path classes and leaf symmetries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fabricast.core.errors import InputError
from fabricast.core.units import PROTOCOL_EFFICIENCY
from fabricast.pcie.topology.checks import (
    FASTEST_BYTES_PER_S,
    LARGEST_CAPACITY,
    SLOWEST_BYTES_PER_S,
    SMALLEST_CAPACITY,
    check_memory_nodes,
    check_peer_links,
)
from fabricast.pcie.topology.parts import MemoryNode, PeerLink, RouteRule, Routes, Vertex

__all__ = ["PcieTree", "check_rule", "one_way_of"]

#: Path classes as ``nvidia-smi topo`` prints them, nearest first.
PATH_CLASSES = ("PIX", "PXB", "PHB", "SYS")

#: No server holds more; routes of all pairs are tabulated.
LARGEST_ENDPOINTS = 256
_DEEPEST = 64
_KINDS = ("system", "root_complex", "switch", "endpoint")


@dataclass(frozen=True)
class PcieTree:
    """A rooted tree of PCIe links, each one two independent directed links.

    Parameters
    ----------
    name : str
        Name of the topology.
    vertices : tuple of Vertex
        All vertices; endpoints are numbered in this order.
    bandwidth_bytes_per_s : float or None, default None
        Bandwidth of one copy alone on links of capacity 1, where it was measured or published.
    source : str, default ''
        Where the tree comes from.
    tag : str, default 'assumed'
        Provenance tag.
    notes : tuple of str, default ()
        What a reader of the file should be told.
    link_bytes_per_s : float or None, default None
        Raw rate of a link of capacity 1 after line coding, packet headers included, where it
        is known; no copy can be faster.
    peer_links : tuple of PeerLink, default ()
        Direct links between endpoints, which copies take instead of the tree.
    route_rules : tuple of RouteRule, default ()
        Routes that turn above the nearest vertex over both ends; of several that match, the last counts.
    memory_nodes : tuple of MemoryNode, default ()
        Host memory, which `fabricast.pcie.topology.memory.with_host_memory` makes endpoints.
    builtin : bool, default False
        Whether it is one of this package's topologies, to which published numbers may belong.

    Raises
    ------
    InputError
        If the vertices do not form one tree with endpoints as leaves.

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
    notes: tuple[str, ...] = ()
    link_bytes_per_s: float | None = None
    peer_links: tuple[PeerLink, ...] = ()
    route_rules: tuple[RouteRule, ...] = ()
    memory_nodes: tuple[MemoryNode, ...] = ()
    builtin: bool = field(default=False, compare=False)
    _by_name: dict[str, Vertex] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, Vertex] = {}
        for vertex in self.vertices:
            if vertex.name in by_name:
                raise InputError(f"vertex '{vertex.name}' is a duplicate in topology '{self.name}'")
            if vertex.kind not in _KINDS:
                raise InputError(
                    f"vertex '{vertex.name}' has kind '{vertex.kind}', expected one of {', '.join(_KINDS)}"
                )
            by_name[vertex.name] = vertex
        object.__setattr__(self, "_by_name", by_name)
        self._check_tree()

    def _repr_html_(self) -> str:
        from fabricast.pcie.topology.drawing import tree_svg

        return tree_svg(self)

    def _check_tree(self) -> None:
        roots = [vertex.name for vertex in self.vertices if vertex.parent is None]
        if len(roots) != 1:
            found = ", ".join(roots) or "none (a cycle?)"
            raise InputError(f"topology '{self.name}' has roots: {found}; expected exactly one")
        for vertex in self.vertices:
            if vertex.parent is not None and vertex.parent not in self._by_name:
                raise InputError(f"vertex '{vertex.name}' has the unknown parent '{vertex.parent}'")
        reached = set(self.preorder(roots[0]))
        lost = sorted(set(self._by_name) - reached)
        if lost:
            named = ", ".join(f"'{name}'" for name in lost[:8])
            raise InputError(
                f"topology {self.name} has a cycle: {named} cannot be reached from the root, expected a tree"
            )
        for vertex in self.vertices:
            self._check_vertex(vertex)
        if max(self.depth.values()) > _DEEPEST:
            raise InputError(f"topology '{self.name}' is deeper than {_DEEPEST} links")
        if not 1 <= len(self.endpoint_names) <= LARGEST_ENDPOINTS:
            raise InputError(
                f"topology '{self.name}' has {len(self.endpoint_names):,} endpoints, expected 1 to {LARGEST_ENDPOINTS}"
            )
        self._check_rates()
        for rule in self.route_rules:
            check_rule(self, rule)
        check_memory_nodes(self.memory_nodes, {vertex.name: vertex.kind for vertex in self.vertices})

    def _check_rates(self) -> None:
        link, alone = self.link_bytes_per_s, self.bandwidth_bytes_per_s
        for name, rate in (("link_bytes_per_s", link), ("bandwidth_bytes_per_s", alone)):
            if rate is not None and not SLOWEST_BYTES_PER_S <= rate <= FASTEST_BYTES_PER_S:
                raise InputError(
                    f"{name} of topology '{self.name}' is {rate:g}, expected {SLOWEST_BYTES_PER_S:g} to "
                    f"{FASTEST_BYTES_PER_S:g}"
                )
        if link is not None and alone is not None and alone > link:
            raise InputError(
                f"bandwidth_bytes_per_s of topology '{self.name}' is {alone:g}, expected at most the {link:g} of its "
                "links (link_bytes_per_s)"
            )
        check_peer_links(self.peer_links, self.endpoint_names)

    def _check_vertex(self, vertex: Vertex) -> None:
        if vertex.parent is not None and self._by_name[vertex.parent].kind == "endpoint":
            raise InputError(f"endpoint '{vertex.parent}' has the child '{vertex.name}', expected a leaf")
        if not SMALLEST_CAPACITY <= vertex.capacity <= LARGEST_CAPACITY:
            raise InputError(
                f"link of '{vertex.name}' has capacity {vertex.capacity:g}, expected a positive number from "
                f"{SMALLEST_CAPACITY:g} to {LARGEST_CAPACITY:g}"
            )
        if vertex.network_card and vertex.kind != "endpoint":
            raise InputError(f"{vertex.kind} '{vertex.name}' is marked network_card, expected an endpoint")
        if vertex.kind != "endpoint" and not self._children[vertex.name]:
            raise InputError(f"{vertex.kind} '{vertex.name}' has no child, expected at least one")
        if vertex.uplink_groups:
            below = sorted(name for name in self.preorder(vertex.name) if self.is_endpoint(name))
            if sorted(itertools.chain.from_iterable(vertex.uplink_groups)) != below:
                raise InputError(
                    f"uplink_groups of '{vertex.name}' must name each endpoint below it once: {', '.join(below)}"
                )

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        children: dict[str, list[str]] = {vertex.name: [] for vertex in self.vertices}
        for vertex in self.vertices:
            if vertex.parent is not None:
                children[vertex.parent].append(vertex.name)
        return children

    def preorder(self, name: str) -> Iterator[str]:
        """Yield `name` and all vertices below it, parents first."""
        stack = [name]
        while stack:
            top = stack.pop()
            yield top
            stack.extend(reversed(self._children[top]))

    def is_endpoint(self, name: str) -> bool:
        """Return whether `name` is an endpoint."""
        return self._by_name[name].kind == "endpoint"

    def vertex(self, name: str) -> Vertex:
        """Return the vertex called `name`."""
        return self._by_name[name]

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names of the vertices below `name`, in order."""
        return tuple(self._children[name])

    @property
    def root(self) -> str:
        """Name of the root."""
        return next(vertex.name for vertex in self.vertices if vertex.parent is None)

    @cached_property
    def endpoint_names(self) -> tuple[str, ...]:
        """Names of the endpoints in the order of their numbers."""
        return tuple(vertex.name for vertex in self.vertices if vertex.kind == "endpoint")

    @cached_property
    def accelerator_names(self) -> tuple[str, ...]:
        """Names of the endpoints that are neither network cards nor host memory, in the order of their numbers."""
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
        """Return `name` and the vertices above it, nearest first."""
        chain = [name]
        while (parent := self._by_name[chain[-1]].parent) is not None:
            chain.append(parent)
        return chain

    def lowest_common_ancestor(self, source: str, target: str) -> str:
        """Return the lowest common ancestor of two endpoints, where their route turns."""
        above = set(self.ancestors(source))
        return next(name for name in self.ancestors(target) if name in above)

    def turn(self, source: str, target: str) -> str:
        """Return the vertex at which a route turns: the nearest above both ends, unless a rule says another.

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
            # A rule for all endpoints leaves copies alone that turn above its vertex anyway.
            if rule.matches(source, target) and rule.turn in self.ancestors(nearest):
                return rule.turn
        return nearest

    def is_crossing(self, source: str, target: str) -> bool:
        """Return whether a route turns at a root complex or above it."""
        return self._by_name[self.turn(source, target)].kind in ("root_complex", "system")

    def path_class(self, source: str, target: str) -> str:
        """Return the path class of two endpoints as ``nvidia-smi topo`` names it.

        Parameters
        ----------
        source, target : str
            Names of two different endpoints.

        Returns
        -------
        {'PIX', 'PXB', 'PHB', 'SYS'}
            One switch, several switches, a root complex, or the socket interconnect.
            Host bridges of one package are merged, so PHB stands for PHB and NODE.
        """
        turn = self.lowest_common_ancestor(source, target)
        kind = self._by_name[turn].kind
        if kind == "system":
            return "SYS"
        if kind == "root_complex":
            return "PHB"
        ends = (self._by_name[source], self._by_name[target])
        one_switch = all(end.parent == turn and not end.switches_above for end in ends)
        return "PIX" if one_switch else "PXB"

    @cached_property
    def _peer_kind(self) -> Mapping[tuple[str, str], str]:
        return {pair: peers.kind for peers in self.peer_links for pair in itertools.permutations(peers.endpoints, 2)}

    def peer_link(self, source: str, target: str) -> str | None:
        """Return the kind of direct link between two endpoints, None where the tree is the only way."""
        return self._peer_kind.get((source, target))

    @cached_property
    def link_names(self) -> tuple[tuple[str, str, str, int], ...]:
        """Links in kernel order as (source, target, class, port of a multi-uplink switch)."""
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
        """Return the number of the uplink of a vertex that an endpoint uses."""
        for port, group in enumerate(self._by_name[name].uplink_groups):
            if endpoint in group:
                return port
        return 0

    def route(self, source: str, target: str) -> list[int]:
        """Return the numbers of the links between two endpoints, in order of travel."""
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
        """Routes of all ordered endpoint pairs, as arrays."""
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
                [self._by_name[start].kind in ("root_complex", "system") for start, _, _, _ in self.link_names],
                dtype=np.bool_,
            ),
            upstream_links=sum(name[2] == "pcie_up" for name in self.link_names),
            endpoints=len(names),
        )


def check_rule(tree: PcieTree, rule: RouteRule) -> None:
    """Refuse a rule that no route of a tree can follow."""
    named = f"{rule} of topology '{tree.name}'"
    ends = [end for end in (rule.source, rule.target) if end != "*"]
    unknown = [end for end in ends if end not in tree.endpoint_number]
    if unknown or (rule.source == rule.target != "*"):
        raise InputError(f"{named} has the end '{(unknown or ends)[0]}', expected two different endpoints or '*'")
    if rule.turn not in tree.depth or tree.is_endpoint(rule.turn):
        raise InputError(f"{named} turns at '{rule.turn}', expected a switch, a root complex or the system")
    apart = [end for end in ends if rule.turn not in tree.ancestors(end)]
    if apart:
        raise InputError(f"{named} turns at '{rule.turn}', expected a vertex above '{apart[0]}'")


def one_way_of(tree: PcieTree) -> float | None:
    """Return what the links of a machine's file tell of a copy alone, in bytes/s; None if they tell nothing.

    Examples
    --------
    >>> from fabricast.pcie.topology.files import load_tree
    >>> one_way_of(load_tree("flat4x2")) is None
    True
    """
    if tree.bandwidth_bytes_per_s is not None:
        return tree.bandwidth_bytes_per_s
    return None if tree.link_bytes_per_s is None else tree.link_bytes_per_s * PROTOCOL_EFFICIENCY
