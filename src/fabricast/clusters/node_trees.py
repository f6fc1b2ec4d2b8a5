"""PCIe trees of nodes with network cards: of nodes that are built in, and of described ones whose cards are stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fabricast.collectives.clusters.cluster import Cluster
from fabricast.core.errors import InputError
from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.gpus import gpu_model
from fabricast.nccl.system import PathType
from fabricast.pcie.topology.files import load_tree
from fabricast.pcie.topology.parts import PeerLink, Vertex
from fabricast.pcie.topology.tree import PATH_CLASSES, PcieTree

#: Rate in bytes/s of an xGMI link in one direction as the data sheet states it.
_XGMI_BYTES_PER_S = 64e9
#: Topology with the direct links of the only cube mesh among the nodes (DGX-1).
_CUBE_MESH = "dgx1_nvlink"
#: GPUs of a node up to which each is assumed to have a socket of its own if its card is at the processor.
_SUPERCHIPS = 4


def card_names(tree: PcieTree) -> tuple[str, ...]:
    """Return the names of the network cards of a tree."""
    return tuple(name for name in tree.endpoint_names if tree.vertex(name).network_card)


def tree_of_node(node: Cluster) -> PcieTree:
    """Return the tree of a built-in node: switches with GPUs and cards below two sockets, and the direct links.

    >>> from fabricast.collectives.clusters.cluster import node_of
    >>> tree = tree_of_node(node_of("hgx_a100"))
    >>> tree.path_class("0", "nic1"), tree.path_class("0", "nic2"), tree.peer_link("0", "7")
    ('PXB', 'NODE', 'NVSwitch')
    """
    is_superchip = node.attach >= PathType.PHB and node.gpus <= _SUPERCHIPS
    sockets = node.gpus if is_superchip else min(2, node.gpus)
    groups = -(-node.gpus // node.per_switch)
    vertices = [Vertex("SYS", "system", None)] if sockets > 1 else []
    vertices += [Vertex(f"S{socket}", "socket", "SYS" if sockets > 1 else None) for socket in range(sockets)]
    cards_of = _cards_of_groups(node.cards, groups)
    hops = 1 if node.attach is PathType.PXB else 0
    below: list[Vertex] = []
    for group in range(groups):
        root = f"R{group}"
        # Root ports of one socket share no link.
        socket = f"S{group * sockets // groups}"
        vertices.append(Vertex(root, "root_complex", socket, capacity=float(node.gpus)))
        parent = root
        if node.attach < PathType.PHB:
            vertices.append(Vertex(f"X{group}", "switch", root))
            parent = f"X{group}"
        gpus = range(group * node.per_switch, min((group + 1) * node.per_switch, node.gpus))
        below += [Vertex(str(gpu), "endpoint", parent, switches_above=hops) for gpu in gpus]
    for group, cards in enumerate(cards_of):
        parent = f"X{group}" if node.attach < PathType.PHB else f"R{group}"
        below += [Vertex(f"nic{card}", "endpoint", parent, network_card=True) for card in cards]
    model = gpu_model(node.gpu)
    gpus_below = "one GPU" if node.per_switch == 1 else f"{node.per_switch} GPUs"
    place = "root port" if node.attach >= PathType.PHB else "switch"
    text = f"the PCIe tree of {node.name} is assumed: {gpus_below} with the nearest cards below each {place}"
    return PcieTree(
        node.name,
        (*vertices, *below),
        warnings=(CodedWarning(WarningCode.TOPOLOGY_NOTE, text),),
        link_bytes_per_s=pcie_link_bytes_per_s(model.generation, model.width),
        peer_links=_peer_links(node),
    )


def _cards_of_groups(cards: int, groups: int) -> list[list[int]]:
    """Return the cards of each group of GPUs, spread evenly.

    >>> _cards_of_groups(4, 2), _cards_of_groups(1, 4)
    ([[0, 1], [2, 3]], [[0], [], [], []])
    """
    found: list[list[int]] = [[] for _ in range(groups)]
    for card in range(cards):
        found[card * groups // cards].append(card)
    return found


def _peer_links(node: Cluster) -> tuple[PeerLink, ...]:
    """Return the direct links of a built-in node."""
    names = tuple(map(str, range(node.gpus)))
    if node.gpus < 2:
        return ()
    rate = gpu_model(node.gpu).nvlink_bytes_per_s or _XGMI_BYTES_PER_S
    if node.fabric == "cube mesh":
        return load_tree(_CUBE_MESH).peer_links
    if node.fabric == "NVSwitch":
        return (PeerLink("NVSwitch", names, rate * node.links, node.links),)
    kind = "xGMI" if node.fabric == "xGMI" else "NVLink"
    # Pairs of MI250X have different numbers of links: each gets the mean.
    share = node.links / (node.gpus - 1)
    return tuple(
        PeerLink(kind, (names[one], names[other]), rate * share, max(1, round(share)))
        for one in range(node.gpus)
        for other in range(one + 1, node.gpus)
    )


def with_cards_placed(tree: PcieTree, count: int) -> PcieTree:
    """Return a tree with a number of network cards: the nearest ones of a description, or assumed ones.

    Cards of a description without any are placed next to one GPU after the other, which is stated as an assumption.
    """
    cards = card_names(tree)
    if len(cards) == count:
        return tree
    if not cards:
        return _with_assumed_cards(tree, count)
    if len(cards) < count:
        raise InputError(f"has {count} cards, expected at most the {len(cards)} of the description", argument="nic")
    kept = _nearest(tree, cards, count)
    vertices = _without_empty([one for one in tree.vertices if not one.network_card or one.name in kept])
    text = f"the description has {len(cards)} network cards: the {count} nearest to GPUs are used ({', '.join(kept)})"
    return replace(tree, vertices=vertices, warnings=(*tree.warnings, CodedWarning(WarningCode.TOPOLOGY_NOTE, text)))


def _nearest(tree: PcieTree, cards: Sequence[str], count: int) -> list[str]:
    """Return the cards that are nearest to some GPU, in their order; of equally near ones evenly spaced ones."""

    def distance(card: str) -> int:
        return min(PATH_CLASSES.index(tree.path_class(gpu, card)) for gpu in tree.accelerator_names)

    chosen: list[str] = []
    for far in range(len(PATH_CLASSES)):
        same = [card for card in cards if distance(card) == far]
        wanted = min(count - len(chosen), len(same))
        chosen += [same[place * len(same) // wanted] for place in range(wanted)]
    return [card for card in cards if card in chosen]


def _without_empty(vertices: Sequence[Vertex]) -> tuple[Vertex, ...]:
    """Return vertices without switches and sockets that have no endpoint below them."""
    above = {one.name: one.parent for one in vertices}
    used: set[str | None] = set()
    for one in vertices:
        name: str | None = one.name if one.kind == "endpoint" else None
        while name is not None and name not in used:
            used.add(name)
            name = above[name]
    return tuple(one for one in vertices if one.name in used)


def _with_assumed_cards(tree: PcieTree, count: int) -> PcieTree:
    gpus = tree.accelerator_names
    added = []
    for card in range(count):
        gpu = gpus[card * len(gpus) // count]
        added.append(Vertex(f"nic{card}", "endpoint", tree.vertex(gpu).parent, network_card=True))
    text = f"no file shows the network cards: {count} next to GPUs are assumed; add 'nvidia-smi topo -m' with its NICs"
    return replace(
        tree,
        vertices=(*tree.vertices, *added),
        warnings=(*tree.warnings, CodedWarning(WarningCode.TOPOLOGY_NOTE, text)),
    )
