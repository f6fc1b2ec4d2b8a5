"""Routes of copies through a cluster: node, network card, network, card, node, as one table of links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.clusters.machine import ClusterMachine, NodeMachine
from fabricast.networks.network import SwitchNetwork
from fabricast.pcie.engines.kernels.links import Links
from fabricast.pcie.engines.links import named_links_of
from fabricast.pcie.machines.shared_limits import limits_of
from fabricast.pcie.topology.memory import memory_of, root_complex_of
from fabricast.pcie.topology.paths import link_labels

__all__ = ["LAYERS", "ClusterLinks", "Layer", "cluster_links"]

_Ints = NDArray[np.int64]
#: Bytes/s that limit nothing.
_UNLIMITED = 1e30


class Layer(IntEnum):
    """Part of a cluster that a link belongs to."""

    NODE = 0
    CARD = 1
    NETWORK = 2
    PROCESS = 3


#: Words for the layers.
LAYERS = {Layer.NODE: "node", Layer.CARD: "card", Layer.NETWORK: "network", Layer.PROCESS: "process"}


@dataclass(frozen=True)
class ClusterLinks:
    """Links of a cluster that some copies use.

    Parameters
    ----------
    links : Links
        Routes and capacities.
    layer : ndarray of int64, shape (links,)
        Layer of each link.
    names : list of str
        Name of each link.
    crosses : ndarray of bool, shape (copies,)
        Whether a copy is between nodes.
    switches : ndarray of int64, shape (copies,)
        Switches of the network on the route of each copy; 0 without a network of switches.
    """

    links: Links
    layer: _Ints
    names: list[str]
    crosses: NDArray[np.bool_]
    switches: _Ints

    def without(self, layer: Layer) -> ClusterLinks:
        """Return links of which those of one layer limit nothing."""
        capacity = np.where(self.layer == layer, _UNLIMITED, self.links.capacity)
        return ClusterLinks(self.links._replace(capacity=capacity), self.layer, self.names, self.crosses, self.switches)


#: Copy within a node, as endpoint names.
_Leg = tuple[str, str]


@dataclass
class _Table:
    """Links of all layers in the order in which they are added, and pieces of routes that many copies share."""

    capacity: list[float] = field(default_factory=list)
    opposite: list[int] = field(default_factory=list)
    needs: list[tuple[int, int]] = field(default_factory=list)
    layer: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    duplex_cost: float = 0.0
    pieces: list[list[int]] = field(default_factory=list)

    def add(self, bytes_per_s: float, layer: Layer, name: str) -> int:
        """Add a link without a reverse direction, and return its number."""
        self.capacity.append(bytes_per_s)
        self.opposite.append(-1)
        self.needs.append((-1, -1))
        self.layer.append(layer)
        self.names.append(name)
        return len(self.capacity) - 1

    def add_node(self, node: int, links: Links, names: Sequence[str], pieces: Sequence[int]) -> None:
        """Add the links that the legs of a node use, and set the piece of each leg."""
        first = len(self.capacity)
        used = np.unique(links.link)
        # Links of the reverse direction and markers of shared limits stay, even if no leg uses them.
        kept = np.unique(np.concatenate([used, links.opposite[used], links.needs[used].ravel()]))
        kept = kept[kept >= 0]
        number = np.full(links.capacity.size + 1, -1, dtype=np.int64)
        number[kept] = first + np.arange(kept.size)
        self.capacity += links.capacity[kept].tolist()
        self.opposite += number[links.opposite[kept]].tolist()
        # The last entry of `number` is that of a link that is not needed.
        self.needs += [(one, other) for one, other in number[links.needs[kept]].tolist()]
        self.layer += [Layer.NODE] * kept.size
        self.names += [f"node{node}: {names[link]}" for link in kept.tolist()]
        self.duplex_cost = max(self.duplex_cost, links.duplex_cost)
        for leg, piece in enumerate(pieces):
            self.pieces[piece] = number[links.link[links.offset[leg] : links.offset[leg + 1]]].tolist()

    def add_piece(self, links: list[int]) -> int:
        """Add a piece of routes and return its number."""
        self.pieces.append(links)
        return len(self.pieces) - 1

    def links(self, routes: Sequence[Sequence[int]]) -> Links:
        """Return the links with routes that are given by their pieces."""
        dummy = self.add(1.0, Layer.NODE, "")
        opposite = [dummy if other < 0 else other for other in self.opposite]
        of_piece = np.array([len(piece) for piece in self.pieces], dtype=np.int64)
        begin = np.cumsum(of_piece) - of_piece
        every = np.array([link for piece in self.pieces for link in piece], dtype=np.int64)
        pieces = np.array([piece for route in routes for piece in route], dtype=np.int64)
        lengths = of_piece[pieces]
        ends = np.cumsum(lengths)
        places = np.arange(int(lengths.sum())) + np.repeat(begin[pieces] - (ends - lengths), lengths)
        of_route = np.cumsum([len(route) for route in routes])
        offset = np.concatenate([[0], ends[of_route - 1]]).astype(np.int64)
        return Links(
            offset,
            every[places],
            np.array(opposite, dtype=np.int64),
            np.array(self.capacity),
            np.array(self.needs, dtype=np.int64),
            self.duplex_cost,
        )


class _Crossing(NamedTuple):
    """Copy between nodes: number of the copy, and node and card at both ends."""

    copy: int
    node: int
    card: int
    other_node: int
    other_card: int


def cluster_links(
    cluster: ClusterMachine, source: _Ints, target: _Ints, *, routing: str = "static", spread: bool = False
) -> ClusterLinks:
    """Return the links of copies between ranks.

    Parameters
    ----------
    cluster : ClusterMachine
        Cluster.
    source, target : ndarray of int64, shape (copies,)
        Ranks.
    routing : {'static', 'adaptive'}, default 'static'
        Routes by destination, or copies that share all links of their leaf switch upwards and downwards.
    spread : bool, default False
        Whether GPUs use cards in turn in place of the nearest ones.
    """
    nodes, gpus = cluster.place_of(source)
    other_nodes, other_gpus = cluster.place_of(target)
    table, paths = _Table(), _Paths(cluster, spread)
    routes: list[list[int]] = []
    legs: dict[int, dict[_Leg, int]] = {}
    crossing: list[_Crossing] = []

    def piece_of(node: int, leg: _Leg) -> int:
        known = legs.setdefault(node, {})
        if leg not in known:
            known[leg] = table.add_piece([])
        return known[leg]

    ends = zip(nodes.tolist(), gpus.tolist(), other_nodes.tolist(), other_gpus.tolist(), strict=True)
    for copy, (node, gpu, other_node, other_gpu) in enumerate(ends):
        if node == other_node:
            routes.append([piece_of(node, leg) for leg in paths.within(node, gpu, other_gpu)])
            continue
        card, other_card, out, back = paths.between(node, gpu, other_node, other_gpu)
        routes.append([*(piece_of(node, leg) for leg in out), *(piece_of(other_node, leg) for leg in back)])
        crossing.append(_Crossing(copy, node, card, other_node, other_card))
    known_links: dict[tuple[int, tuple[_Leg, ...]], tuple[Links, list[str]]] = {}
    for node, of_node in legs.items():
        key = int(cluster.kind_of[node]), tuple(of_node)
        if key not in known_links:
            known_links[key] = _node_links(cluster.kind(node), key[1])
        table.add_node(node, *known_links[key], list(of_node.values()))
    _add_cards(table, cluster, crossing, routes)
    switches = _add_network(table, cluster, crossing, routes, routing)
    if cluster.process_bytes_per_s is not None:
        for one in crossing:
            link = table.add(cluster.process_bytes_per_s, Layer.PROCESS, "rate of one process")
            routes[one.copy].append(table.add_piece([link]))
    links = table.links(routes)
    return ClusterLinks(links, np.array(table.layer, dtype=np.int64), table.names, nodes != other_nodes, switches)


class _Paths:
    """Legs of copies within nodes, by kinds of nodes and GPUs."""

    def __init__(self, cluster: ClusterMachine, spread: bool) -> None:
        self._cluster, self._spread = cluster, spread
        self._within: dict[tuple[int, int, int], list[_Leg]] = {}
        self._between: dict[tuple[int, int, int, int], tuple[int, int, list[_Leg], list[_Leg]]] = {}

    def within(self, node: int, gpu: int, other: int) -> list[_Leg]:
        """Return the legs of a copy within a node."""
        key = int(self._cluster.kind_of[node]), gpu, other
        if key not in self._within:
            self._within[key] = _within(self._cluster.kind(node), gpu, other)
        return self._within[key]

    def between(self, node: int, gpu: int, other_node: int, other_gpu: int) -> tuple[int, int, list[_Leg], list[_Leg]]:
        """Return the cards of a copy between nodes, and its legs in both nodes."""
        cluster, spread = self._cluster, self._spread
        key = int(cluster.kind_of[node]), gpu, int(cluster.kind_of[other_node]), other_gpu
        if key not in self._between:
            kind, other = cluster.kind(node), cluster.kind(other_node)
            card, other_card = _cards(kind, gpu, other, other_gpu, spread, cluster.has_separate_rails)
            out = _to_card(kind, gpu, card, cluster.has_gpudirect, spread)
            back = _from_card(other, other_card, other_gpu, cluster.has_gpudirect)
            self._between[key] = card, other_card, out, back
        return self._between[key]


def _memory(kind: NodeMachine, gpu: str) -> str:
    """Return the host memory nearest to a GPU."""
    tree = kind.engines.tree
    return memory_of(tree, root_complex_of(tree, gpu))


def _within(kind: NodeMachine, gpu: int, other: int) -> list[_Leg]:
    """Return the legs of a copy within a node."""
    ends = kind.gpus[gpu], kind.gpus[other]
    if ends in kind.machine.tree.staged_pairs:
        memory = _memory(kind, ends[0])
        return [(ends[0], memory), (memory, ends[1])]
    return [ends]


def _cards(
    kind: NodeMachine, gpu: int, other: NodeMachine, other_gpu: int, spread: bool, separate: bool
) -> tuple[int, int]:
    """Return the cards of a copy between nodes: with direct links that of the target's rail, as NCCL's PXN."""
    card = (kind.spread_cards if spread else kind.card_of)[gpu]
    other_card = (other.spread_cards if spread else other.card_of)[other_gpu]
    has_rails = len(kind.cards) == len(other.cards) and kind.machine.tree.peer_links
    if has_rails:
        return other_card, other_card
    # On separate rails the target receives at the card with the number of the sender.
    return card, (min(card, len(other.cards) - 1) if separate else other_card)


def _to_card(kind: NodeMachine, gpu: int, card: int, has_gpudirect: bool, spread: bool) -> list[_Leg]:
    """Return the legs from a GPU to a card: over the GPU beside it if that is linked directly."""
    names, cards = kind.gpus, kind.spread_cards if spread else kind.card_of
    beside = gpu if cards[gpu] == card else next((place for place, own in enumerate(cards) if own == card), gpu)
    legs = []
    if beside != gpu and kind.machine.tree.peer_link(names[gpu], names[beside]):
        legs.append((names[gpu], names[beside]))
        gpu = beside
    if has_gpudirect:
        return [*legs, (names[gpu], kind.cards[card])]
    memory = _memory(kind, names[gpu])
    return [*legs, (names[gpu], memory), (memory, kind.cards[card])]


def _from_card(kind: NodeMachine, card: int, gpu: int, has_gpudirect: bool) -> list[_Leg]:
    """Return the legs from a card to a GPU."""
    if has_gpudirect:
        return [(kind.cards[card], kind.gpus[gpu])]
    memory = _memory(kind, kind.gpus[gpu])
    return [(kind.cards[card], memory), (memory, kind.gpus[gpu])]


def _node_links(kind: NodeMachine, legs: tuple[_Leg, ...]) -> tuple[Links, list[str]]:
    """Return the links of copies within a node, and their names."""
    engines = kind.engines
    tree, limits = limits_of(engines.rates, engines.tree, legs)
    number = tree.endpoint_number
    flows = [(number[source], number[target]) for source, target in legs]
    links, names = named_links_of(tree, flows, engines.rates, True, limits)
    labels = dict(enumerate(link_labels(tree))) | dict(names.names)
    return links, [labels.get(link, "") for link in range(links.capacity.size)]


def _add_cards(
    table: _Table, cluster: ClusterMachine, crossing: Sequence[_Crossing], routes: Sequence[list[int]]
) -> None:
    """Add the cards that copies use, one link for each direction."""
    peers: dict[tuple[int, int, str], set[int]] = {}
    for one in crossing:
        peers.setdefault((one.node, one.card, "sends"), set()).add(one.other_node)
        peers.setdefault((one.other_node, one.other_card, "receives"), set()).add(one.node)
    known = {}
    for (node, card, way), nodes in peers.items():
        kind = cluster.kind(node)
        rate = kind.card_to_many_bytes_per_s if len(nodes) > 1 else kind.card_bytes_per_s
        link = table.add(rate, Layer.CARD, f"node{node}: card {kind.cards[card]} {way}")
        known[node, card, way] = table.add_piece([link])
    for one in crossing:
        routes[one.copy] += [known[one.node, one.card, "sends"], known[one.other_node, one.other_card, "receives"]]


def _add_network(
    table: _Table, cluster: ClusterMachine, crossing: Sequence[_Crossing], routes: Sequence[list[int]], routing: str
) -> _Ints:
    """Add the links of the network on the routes of copies; return the number of switches on each route."""
    switches = np.zeros(len(routes), dtype=np.int64)
    if cluster.network is None:
        _add_uplinks(table, cluster, crossing, routes)
        return switches
    if not crossing:
        return switches
    network, known = cluster.network, dict[tuple[int, int], int]()
    rails, ports = network.rails(cluster.hosts), network.neighbour.size
    copies = np.array(crossing, dtype=np.int64)
    # Cards beyond the ports of a host in the network are equal planes of it.
    one = network.host_begin[cluster.hosts[copies[:, 1]]] + copies[:, 2] % rails
    other = network.host_begin[cluster.hosts[copies[:, 3]]] + copies[:, 4] % rails
    ways, of_copy = np.unique(np.stack([copies[:, 2] // rails, one, other]), axis=1, return_inverse=True)
    pieces = np.zeros(ways.shape[1], dtype=np.int64)
    counts = np.zeros(ways.shape[1], dtype=np.int64)
    found = _static_routes(network, ways) if routing == "static" else _adaptive_routes(network, ways)
    for way, links in enumerate(found):
        plane = int(ways[0, way])
        numbers = []
        for link, bytes_per_s, name in links:
            key = (plane, link)
            if key not in known:
                # The port of an end point is the cable of a card.
                layer = Layer.NETWORK if link < ports or link >= network.capacity.size else Layer.CARD
                known[key] = table.add(bytes_per_s, layer, f"{name}{f' (plane {plane})' if plane else ''}")
            numbers.append(known[key])
        pieces[way], counts[way] = table.add_piece(numbers), max(len(links) - 1, 1)
    of_copy = of_copy.reshape(-1)
    switches[copies[:, 0]] = counts[of_copy]
    for copy, piece in zip(copies[:, 0].tolist(), pieces[of_copy].tolist(), strict=True):
        routes[copy].append(piece)
    return switches


#: Number, capacity and name of a link.
_NetworkLink = tuple[int, float, str]


def _static_routes(network: SwitchNetwork, ways: _Ints) -> Iterator[list[_NetworkLink]]:
    """Yield the links of the static routes between end points. Shapes: ways (3, routes)."""
    from fabricast.networks.kernels.routes import static_routes

    offset, route = static_routes(ways[1], ways[2], *network.tables)
    names: dict[int, _NetworkLink] = {}
    for way in range(ways.shape[1]):
        links = route[offset[way] : offset[way + 1]].tolist()
        for link in links:
            if link not in names:
                names[link] = (link, float(network.capacity[link]), network.link_name(link))
        yield [names[link] for link in links]


def _adaptive_routes(network: SwitchNetwork, ways: _Ints) -> Iterator[list[_NetworkLink]]:
    """Yield the ports of end points, and all links of their leaf switches as one in each direction."""
    up = np.add.reduceat(np.append(network.capacity[: network.neighbour.size], 0.0), network.begin[:-1])
    ports, last = network.neighbour.size, network.capacity.size
    for one, other in ways[1:].T.tolist():
        leaves = int(network.leaf[one]), int(network.leaf[other])
        ends = (ports + 2 * one, ports + 2 * other + 1)
        found = [(link, float(network.capacity[link]), network.link_name(link)) for link in ends]
        if leaves[0] != leaves[1]:
            names = [network.switches[leaf] for leaf in leaves]
            found.insert(1, (last + 2 * leaves[0], float(up[leaves[0]]), f"all links of {names[0]} upwards"))
            found.insert(2, (last + 2 * leaves[1] + 1, float(up[leaves[1]]), f"all links of {names[1]} downwards"))
        yield found


def _add_uplinks(
    table: _Table, cluster: ClusterMachine, crossing: Sequence[_Crossing], routes: Sequence[list[int]]
) -> None:
    """Add the share of an oversubscribed network that a node has in each direction."""
    if cluster.oversubscription <= 1:
        return
    known: dict[tuple[int, str], int] = {}
    for one in crossing:
        for place, way in ((one.node, "to the network"), (one.other_node, "from the network")):
            if (place, way) not in known:
                kind = cluster.kind(place)
                rate = len(kind.cards) * kind.card_bytes_per_s / cluster.oversubscription
                link = table.add(rate, Layer.NETWORK, f"node{place}: oversubscribed link {way}")
                known[place, way] = table.add_piece([link])
            routes[one.copy].append(known[place, way])
