"""Routes of copies through a cluster: node, network card, network, card, node, as one table of links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.clusters.machine import ClusterMachine, NodeMachine
from fabricast.core.errors import InputError
from fabricast.networks.network import SwitchNetwork
from fabricast.pcie.engines.kernels.links import Links
from fabricast.pcie.engines.links import named_links_of
from fabricast.pcie.machines.shared_limits import limits_of
from fabricast.pcie.topology.memory import memory_of, root_complex_of
from fabricast.pcie.topology.paths import link_labels

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
    """Links of a cluster that some copies use."""

    links: Links  # Routes and capacities
    layer: _Ints  # Layer of each link, shape (links,)
    names: list[str]  # Name of each link
    crosses: NDArray[np.bool_]  # Whether a copy is between nodes, shape (copies,)
    #: Switches of the network on the route of each copy; 0 without a network of switches, shape (copies,).
    switches: _Ints

    def without(self, layer: Layer) -> ClusterLinks:
        """Return the same links, except that those of one layer limit nothing."""
        capacity = np.where(self.layer == layer, _UNLIMITED, self.links.capacity)
        return replace(self, links=self.links._replace(capacity=capacity))


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
    #: Largest rate of a copy with each piece, for limits that no other copy shares.
    most_bytes_per_s: list[float] = field(default_factory=list)

    def add(self, bytes_per_s: float, layer: Layer, name: str) -> int:
        """Add a link without a reverse direction, and return its number."""
        self.capacity.append(bytes_per_s)
        self.opposite.append(-1)
        self.needs.append((-1, -1))
        self.layer.append(layer)
        self.names.append(name)
        return len(self.capacity) - 1

    def add_node(self, node: int, found: _NodeLinks, pieces: Sequence[int]) -> None:
        """Add the links that the legs of a node use, and set its pieces."""
        first, links = len(self.capacity), found.links
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
        self.names += [f"node{node}: {found.names[link]}" for link in kept.tolist()]
        self.duplex_cost = max(self.duplex_cost, links.duplex_cost)
        for piece, of_piece, most in zip(pieces, found.pieces, found.most_bytes_per_s, strict=True):
            self.pieces[piece] = number[of_piece].tolist()
            self.most_bytes_per_s[piece] = most

    def add_piece(self, links: list[int]) -> int:
        """Add a piece of routes and return its number."""
        self.pieces.append(links)
        self.most_bytes_per_s.append(np.inf)
        return len(self.pieces) - 1

    def links(self, routes: _Ints) -> Links:
        """Return the links with routes by the numbers of their pieces, -1 for none. Shapes: routes (copies, pieces)."""
        dummy = self.add(1.0, Layer.NODE, "")
        opposite = [dummy if other < 0 else other for other in self.opposite]
        of_piece = np.array([len(piece) for piece in self.pieces], dtype=np.int64)
        begin = np.cumsum(of_piece) - of_piece
        every = np.array([link for piece in self.pieces for link in piece], dtype=np.int64)
        lengths_of = np.where(routes >= 0, of_piece[routes], 0)
        pieces = routes[routes >= 0]
        lengths = of_piece[pieces]
        ends = np.cumsum(lengths)
        places = np.arange(int(lengths.sum())) + np.repeat(begin[pieces] - (ends - lengths), lengths)
        return Links(
            np.concatenate([[0], np.cumsum(lengths_of.sum(axis=1))]).astype(np.int64),
            every[places],
            np.array(opposite, dtype=np.int64),
            np.array(self.capacity),
            np.array(self.needs, dtype=np.int64),
            self.duplex_cost,
        )


def cluster_links(
    cluster: ClusterMachine,
    source: _Ints,
    target: _Ints,
    size_bytes: NDArray[np.float64] | None = None,
    *,
    routing: str = "static",
    spread: bool = False,
) -> ClusterLinks:
    """Return the links of copies between ranks.

    Shapes: source, target (copies,), size_bytes (copies,).
    """
    (node, gpu), (other, other_gpu) = cluster.place_of(source), cluster.place_of(target)
    crosses = node != other
    # Copies between GPUs with the same numbers on nodes of the same kinds have the same legs within their nodes.
    keys = np.stack([crosses.astype(np.int64), cluster.kind_of[node], gpu, cluster.kind_of[other], other_gpu])
    kinds_of_paths, path = _unique(keys)
    paths = [_path(cluster, *row, spread=spread) for row in kinds_of_paths.T.tolist()]
    table = _Table()
    out, back = _node_pieces(table, cluster, paths, (node, other), path, crosses)
    pieces = [out, back, _single_pieces(table, node, out, back)]
    card, other_card = (np.array([getattr(one, name) for one in paths])[path] for name in ("card", "other_card"))
    crossing = _Crossing(np.flatnonzero(crosses), node[crosses], card[crosses], other[crosses], other_card[crosses])
    switches = np.zeros(source.size, dtype=np.int64)
    if crossing.copy.size:
        sizes = np.ones(crossing.copy.size) if size_bytes is None else size_bytes[crosses]
        pieces += [_of_crossing(source.size, crossing, one) for one in _card_pieces(table, cluster, crossing, sizes)]
        network, switches[crosses] = _network_pieces(table, cluster, crossing, routing)
        pieces += [_of_crossing(source.size, crossing, one) for one in network]
        if cluster.process_bytes_per_s is not None:
            ranks, of_copy = np.unique(source[crosses], return_inverse=True)
            rate, names = cluster.process_bytes_per_s, cluster.names_of(ranks.tolist())
            added = [table.add_piece([table.add(rate, Layer.PROCESS, f"process of {name}")]) for name in names]
            pieces.append(_of_crossing(source.size, crossing, np.array(added)[of_copy]))
    links = table.links(np.stack(pieces, axis=1))
    return ClusterLinks(links, np.array(table.layer, dtype=np.int64), table.names, crosses, switches)


def _single_pieces(table: _Table, node: _Ints, out: _Ints, back: _Ints) -> _Ints:
    """Add a link for each copy that has a largest rate of its class; return its piece, -1 for none."""
    most = np.array([*table.most_bytes_per_s, np.inf])
    rate = np.minimum(most[out], most[back])
    found = np.full(out.size, -1, dtype=np.int64)
    for copy in np.flatnonzero(np.isfinite(rate)).tolist():
        name = f"node{int(node[copy])}: rate of one copy"
        found[copy] = table.add_piece([table.add(float(rate[copy]), Layer.NODE, name)])
    return found


def _unique(columns: _Ints) -> tuple[_Ints, _Ints]:
    """Return the different columns of a table of small numbers, and the place of each column among them."""
    sides = columns.max(axis=1, initial=0) + 1
    keys, inverse = np.unique(np.ravel_multi_index(tuple(columns), tuple(sides)), return_inverse=True)
    return np.stack(np.unravel_index(keys, tuple(sides))).astype(np.int64), inverse


def _of_crossing(copies: int, crossing: _Crossing, pieces: _Ints) -> _Ints:
    """Return the piece of every copy; -1 for copies within a node."""
    found = np.full(copies, -1, dtype=np.int64)
    found[crossing.copy] = pieces
    return found


class _Crossing(NamedTuple):
    """Copies between nodes: their numbers, and node and card at both ends. Shapes: (copies between nodes,)."""

    copy: _Ints
    node: _Ints
    card: _Ints
    other: _Ints
    other_card: _Ints


class _Path(NamedTuple):
    """Cards of copies between two kinds of nodes, and their legs in the nodes of source and target."""

    card: int
    other_card: int
    out: list[_Leg]
    back: list[_Leg]


def _path(
    cluster: ClusterMachine, crosses: int, kind: int, gpu: int, other_kind: int, other_gpu: int, *, spread: bool
) -> _Path:
    first, other = cluster.kinds[kind], cluster.kinds[other_kind]
    if not crosses:
        return _Path(0, 0, _within(first, gpu, other_gpu), [])
    card, other_card = _cards(first, gpu, other, other_gpu, spread, cluster.has_separate_rails)
    out = _to_card(first, gpu, card, cluster.has_gpudirect)
    return _Path(card, other_card, out, _from_card(other, other_card, other_gpu, cluster.has_gpudirect))


def _node_pieces(
    table: _Table,
    cluster: ClusterMachine,
    paths: Sequence[_Path],
    nodes: tuple[_Ints, _Ints],
    path: _Ints,
    crosses: NDArray[np.bool_],
) -> tuple[_Ints, _Ints]:
    """Add the links of all nodes; return the pieces of copies in the node of the source and in that of the target."""
    sides = [(0, np.ones(path.size, dtype=bool)), (1, crosses)]
    wanted: dict[int, dict[tuple[int, int], int]] = {}
    found = []
    for side, is_used in sides:
        pairs, place = _unique(np.stack([nodes[side][is_used], path[is_used]]))
        numbers = np.array([table.add_piece([]) for _ in range(pairs.shape[1])], dtype=np.int64)
        for (node, of_path), number in zip(pairs.T.tolist(), numbers.tolist(), strict=True):
            wanted.setdefault(node, {})[side, of_path] = number
        pieces = np.full(path.size, -1, dtype=np.int64)
        pieces[is_used] = numbers[place] if numbers.size else -1
        found.append(pieces)
    known: dict[tuple[int, tuple[tuple[int, int], ...]], _NodeLinks] = {}
    for node, of_node in sorted(wanted.items()):
        key = int(cluster.kind_of[node]), tuple(of_node)
        if key not in known:
            legs = [list(paths[of_path].back if side else paths[of_path].out) for side, of_path in key[1]]
            known[key] = _node_links(cluster.kind(node), legs)
        table.add_node(node, known[key], list(of_node.values()))
    return found[0], found[1]


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
    if len(kind.cards) == len(other.cards):
        sender = _nearest_linked(kind, gpu, other_card)
        if kind.distance(sender, other_card) <= kind.distance(gpu, card):
            return other_card, other_card
    if not separate:
        return card, other_card
    # Only cards with the same number are on one rail.
    rails = range(min(len(kind.cards), len(other.cards)))
    rail = min(rails, key=lambda one: (kind.distance(gpu, one) + other.distance(other_gpu, one), one != card, one))
    return rail, rail


def _nearest_linked(kind: NodeMachine, gpu: int, card: int) -> int:
    """Return the GPU nearest to a card of a GPU and those that are linked to it directly; itself if it is as near."""
    tree, names = kind.machine.tree, kind.gpus
    linked = [place for place, name in enumerate(names) if place != gpu and tree.peer_link(names[gpu], name)]
    return min([gpu, *linked], key=lambda place: kind.distance(place, card))


def _to_card(kind: NodeMachine, gpu: int, card: int, has_gpudirect: bool) -> list[_Leg]:
    """Return the legs from a GPU to a card: over the GPU that is nearest to it if that is linked directly."""
    names = kind.gpus
    sender = _nearest_linked(kind, gpu, card)
    legs = [] if sender == gpu else [(names[gpu], names[sender])]
    if has_gpudirect:
        return [*legs, (names[sender], kind.cards[card])]
    memory = _memory(kind, names[sender])
    return [*legs, (names[sender], memory), (memory, kind.cards[card])]


def _from_card(kind: NodeMachine, card: int, gpu: int, has_gpudirect: bool) -> list[_Leg]:
    """Return the legs from a card to a GPU."""
    if has_gpudirect:
        return [(kind.cards[card], kind.gpus[gpu])]
    memory = _memory(kind, kind.gpus[gpu])
    return [(kind.cards[card], memory), (memory, kind.gpus[gpu])]


class _NodeLinks(NamedTuple):
    """Links of copies within a node, their names, the links of each wanted sequence of legs, and its largest rate."""

    links: Links
    names: list[str]
    pieces: list[list[int]]
    most_bytes_per_s: list[float]


#: Beginning of the names of limits that each copy has by itself.
_OF_ONE_COPY = ("rate of a copy between sockets", "rate of copies of class")


def _node_links(kind: NodeMachine, wanted: Sequence[Sequence[_Leg]]) -> _NodeLinks:
    """Return the links of sequences of legs within a node.

    Copies with equal legs share all links, except limits of a single copy, which are rates of each.
    """
    engines = kind.engines
    legs = list(dict.fromkeys(leg for one in wanted for leg in one))
    tree, limits = limits_of(engines.rates, engines.tree, legs)
    number = tree.endpoint_number
    flows = [(number[source], number[target]) for source, target in legs]
    links, names = named_links_of(tree, flows, engines.rates, True, limits)
    labels = dict(enumerate(link_labels(tree))) | dict(names.names)
    single = {link for link, label in labels.items() if label.startswith(_OF_ONE_COPY)}
    of_leg = {leg: links.link[links.offset[place] : links.offset[place + 1]].tolist() for place, leg in enumerate(legs)}
    # Both legs of a staged copy may use one limit of memory, which counts once.
    whole = [list(dict.fromkeys(link for leg in one for link in of_leg[leg])) for one in wanted]
    pieces = [[link for link in one if link not in single] for one in whole]
    most = [min((float(links.capacity[link]) for link in one if link in single), default=np.inf) for one in whole]
    return _NodeLinks(links, [labels.get(link, "") for link in range(links.capacity.size)], pieces, most)


#: Effective number of peers from which a card has several: one peer with a tenth of the bytes has no effect.
_SEVERAL = 1.5


def _card_pieces(
    table: _Table, cluster: ClusterMachine, crossing: _Crossing, size_bytes: NDArray[np.float64]
) -> Iterator[_Ints]:
    """Add the cards that copies use, one link for each direction, and yield the pieces of both ends of copies."""
    ends = (crossing.node, crossing.card, crossing.other), (crossing.other, crossing.other_card, crossing.node)
    for (node, card, peer), way in zip(ends, ("sends", "receives"), strict=True):
        cards, place = _unique(np.stack([node, card]))
        pairs, of_pair = _unique(np.stack([node, card, peer]))
        of_peer = np.bincount(of_pair, size_bytes, pairs.shape[1])
        of_card = _unique(pairs[:2])[1]
        # (sum of bytes)^2 / sum of squares is the number of peers with equal bytes.
        peers = np.bincount(of_card, of_peer) ** 2 / np.bincount(of_card, of_peer**2)
        pieces = []
        for number, (one, used) in enumerate(cards.T.tolist()):
            kind = cluster.kind(one)
            rate = kind.card_to_many_bytes_per_s if peers[number] > _SEVERAL else kind.card_bytes_per_s
            pieces.append(table.add_piece([table.add(rate, Layer.CARD, f"node{one}: card {kind.cards[used]} {way}")]))
        yield np.array(pieces, dtype=np.int64)[place]


def _network_pieces(
    table: _Table, cluster: ClusterMachine, crossing: _Crossing, routing: str
) -> tuple[list[_Ints], _Ints]:
    """Add the links of the network; return the pieces of copies between nodes, and the switches on their routes."""
    if cluster.network is None:
        return _uplink_pieces(table, cluster, crossing), np.zeros(crossing.copy.size, dtype=np.int64)
    network, known = cluster.network, dict[tuple[int, int], int]()
    rails, ports = network.rails(cluster.hosts), network.neighbour.size
    # Cards beyond the ports of a host in the network are equal planes of it.
    one = network.host_begin[cluster.hosts[crossing.node]] + crossing.card % rails
    other = network.host_begin[cluster.hosts[crossing.other]] + crossing.other_card % rails
    routes, of_copy = _unique(np.stack([crossing.card // rails, one, other]))
    hops = network.distance[network.leaf[routes[1]], network.leaf_number[network.leaf[routes[2]]]]
    if (hops < 0).any():
        raise InputError("does not connect the cards of two nodes, expected cards on one network", argument="switches")
    pieces = np.zeros(routes.shape[1], dtype=np.int64)
    found = _static_routes(network, routes) if routing == "static" else _adaptive_routes(network, routes)
    for way, links in enumerate(found):
        plane = int(routes[0, way])
        numbers = []
        for link, bytes_per_s, name in links:
            key = (plane, link)
            if key not in known:
                # The port of an end point is the cable of a card.
                layer = Layer.NETWORK if link < ports or link >= network.capacity.size else Layer.CARD
                known[key] = table.add(bytes_per_s, layer, f"{name}{f' (plane {plane})' if plane else ''}")
            numbers.append(known[key])
        pieces[way] = table.add_piece(numbers)
    return [pieces[of_copy]], hops[of_copy].astype(np.int64) + 1


#: Number, capacity and name of a link.
_NetworkLink = tuple[int, float, str]


def _static_routes(network: SwitchNetwork, routes: _Ints) -> Iterator[list[_NetworkLink]]:
    """Yield the links of the static routes between end points. Shapes: routes (3, number)."""
    from fabricast.networks.kernels.routes import static_routes

    offset, route = static_routes(routes[1], routes[2], *network.tables)
    names: dict[int, _NetworkLink] = {}
    for way in range(routes.shape[1]):
        links = route[offset[way] : offset[way + 1]].tolist()
        for link in links:
            if link not in names:
                names[link] = (link, float(network.capacity[link]), network.link_name(link))
        yield [names[link] for link in links]


def _adaptive_routes(network: SwitchNetwork, routes: _Ints) -> Iterator[list[_NetworkLink]]:
    """Yield the ports of end points, and all links of their leaf switches as one in each direction."""
    up = np.add.reduceat(np.append(network.capacity[: network.neighbour.size], 0.0), network.begin[:-1])
    ports, last = network.neighbour.size, network.capacity.size
    known: dict[int, _NetworkLink] = {}
    for one, other in routes[1:].T.tolist():
        leaves = int(network.leaf[one]), int(network.leaf[other])
        ends = (ports + 2 * one, ports + 2 * other + 1)
        for link in ends:
            if link not in known:
                known[link] = (link, float(network.capacity[link]), network.link_name(link))
        found = [known[link] for link in ends]
        if leaves[0] != leaves[1]:
            names = [network.switches[leaf] for leaf in leaves]
            found.insert(1, (last + 2 * leaves[0], float(up[leaves[0]]), f"all links of {names[0]} upwards"))
            found.insert(2, (last + 2 * leaves[1] + 1, float(up[leaves[1]]), f"all links of {names[1]} downwards"))
        yield found


def _uplink_pieces(table: _Table, cluster: ClusterMachine, crossing: _Crossing) -> list[_Ints]:
    """Add the share of an oversubscribed network that a node has in each direction; return the pieces of copies."""
    if cluster.oversubscription <= 1:
        return []
    found = []
    for nodes, way in ((crossing.node, "to the network"), (crossing.other, "from the network")):
        used, place = np.unique(nodes, return_inverse=True)
        pieces = []
        for node in used.tolist():
            kind = cluster.kind(node)
            rate = len(kind.cards) * kind.card_bytes_per_s / cluster.oversubscription
            link = table.add(rate, Layer.NETWORK, f"node{node}: oversubscribed link {way}")
            pieces.append(table.add_piece([link]))
        found.append(np.array(pieces, dtype=np.int64)[place])
    return found
