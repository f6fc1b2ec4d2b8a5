"""Topologies that are built in, by name: those of files, and those of nodes with direct links."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np

from fabricast.core import resources
from fabricast.core.errors import InputError, near_names, unknown_name
from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.inputs.pair_rates import host_link_share, pcie_share
from fabricast.pcie.topology.files import read_tree
from fabricast.pcie.topology.parts import PeerLink, Vertex
from fabricast.pcie.topology.tree import PcieTree

_COLUMNS = (
    "name",
    "gpu",
    "gpus",
    "fabric",
    "links",
    "cards",
    "card_gbit_s",
    "attach",
    "per_switch",
    "cpu",
    "network",
    "source",
)
#: xGMI links between the eight dies of four MI250 or MI250X (nodes of Frontier and LUMI); other pairs pass another die.
_LINKS_OF_DIES = {
    **dict.fromkeys([(0, 1), (2, 3), (4, 5), (6, 7)], 4),
    **dict.fromkeys([(0, 6), (2, 4)], 2),
    **dict.fromkeys([(0, 2), (1, 3), (1, 5), (3, 7), (4, 6), (5, 7)], 1),
}
_MI250, _DIES = ("mi250", "mi250x"), 8
#: Topology with the direct links of the only cube mesh among the nodes (DGX-1).
_CUBE_MESH = "dgx1_nvlink"
#: GPUs of a node up to which each is assumed to have a socket of its own if its card is at the processor.
_SUPERCHIPS = 4


@dataclass(frozen=True)
class Node:
    """Built-in node whose GPUs are connected directly."""

    name: str
    gpu: str  # Product name of the GPUs
    gpus: int
    #: Direct links: by switches, equal between all pairs, or not: 'NVSwitch', 'mesh', 'cube mesh', 'xGMI'
    fabric: str
    links: int  # Direct links of a GPU
    cards: int  # Network cards as commonly delivered
    card_gbit_s: float  # Rate of a card in Gbit/s
    attach: str  # Path from a GPU to its card: 'PIX', 'PXB' or 'PHB'
    per_switch: int  # GPUs below one PCIe switch
    cpu: str  # Processor
    network: str  # Kind of network, if the node has one by design
    source: str


@cache
def _nodes() -> dict[str, Node]:
    return {
        row["name"]: Node(
            row["name"],
            row["gpu"],
            int(row["gpus"]),
            row["fabric"],
            int(row["links"]),
            int(row["cards"]),
            row.number("card_gbit_s"),
            row["attach"],
            int(row["per_switch"]),
            row["cpu"],
            row["network"],
            row["source"],
        )
        for row in read_csv(resources.published() / "nodes.csv", _COLUMNS)
    }


def node_names() -> tuple[str, ...]:
    """Return the names of the nodes that are built in."""
    return tuple(_nodes())


def is_node(name: str) -> bool:
    """Return whether a name is that of a built-in node.

    >>> is_node("HGX H100"), is_node("storm8")
    (True, False)
    """
    return _key(name) in _nodes()


def node_named(name: str) -> Node:
    """Return the built-in node of a name."""
    if not is_node(name):
        raise unknown_name("node", name, node_names())
    return _nodes()[_key(name)]


def _key(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


def builtin_names() -> list[str]:
    """Return the names of the topologies that are files."""
    return sorted(path.stem for path in resources.topologies().glob("*.yaml"))


def is_builtin(name: str) -> bool:
    """Return whether a name is that of a built-in topology or node."""
    return name in builtin_names() or is_node(name)


def load_tree(topology: str | Path) -> PcieTree:
    """Load a built-in topology or read one from a YAML file; `fabricast.load_topology` reads other files.

    >>> len(load_tree("storm8").endpoint_names), load_tree("hgx_h100").peer_link("0", "7")
    (8, 'NVSwitch')
    """
    path = Path(topology)
    if path.suffix.lower() in (".yaml", ".yml"):
        return read_tree(path)
    names = builtin_names()
    if str(topology) in names:
        return replace(read_tree(resources.topologies() / f"{topology}.yaml"), builtin=True)
    if is_node(str(topology)):
        return node_tree(str(topology))
    names = list(dict.fromkeys([*names, *node_names()]))
    raise InputError(
        f"topology '{topology}' is neither a file nor a built-in topology"
        f"{near_names(str(topology), names)}; built-in topologies are {', '.join(names)}"
    )


def node_tree(name: str, cards: int | None = None) -> PcieTree:
    """Return the tree of a built-in node with its network cards, or with another number of them.

    Switches with GPUs and cards are below two sockets; the GPUs have direct links.

    >>> tree = node_tree("hgx_a100")
    >>> tree.path_class("0", "nic1"), tree.path_class("0", "nic2"), tree.peer_link("0", "7")
    ('PXB', 'NODE', 'NVSwitch')
    """
    node = node_named(name)
    is_at_processor = node.attach == "PHB"
    is_superchip = is_at_processor and node.gpus <= _SUPERCHIPS
    sockets = node.gpus if is_superchip else min(2, node.gpus)
    groups = -(-node.gpus // node.per_switch)
    vertices = [Vertex("SYS", "system", None)] if sockets > 1 else []
    vertices += [Vertex(f"S{socket}", "socket", "SYS" if sockets > 1 else None) for socket in range(sockets)]
    cards_of = _cards_of_groups(node.cards if cards is None else cards, groups)
    hops = 1 if node.attach == "PXB" else 0
    model = gpu_model(node.gpu)
    pcie = pcie_link_bytes_per_s(model.generation, model.width)
    # NVLink-C2C connects the GPUs of superchips with the host, and PCIe their network cards.
    link = model.host_bytes_per_s or pcie
    of_card = pcie / link
    if model.host_bytes_per_s is not None:
        # The rate of a link is its capacity times the share of the links of GPUs.
        of_card *= pcie_share(model.generation).median / host_link_share().median
    below: list[Vertex] = []
    for group in range(groups):
        root = f"R{group}"
        # Root ports of one socket share no link.
        socket = f"S{group * sockets // groups}"
        vertices.append(Vertex(root, "root_complex", socket, capacity=float(node.gpus)))
        parent = root
        if not is_at_processor:
            vertices.append(Vertex(f"X{group}", "switch", root))
            parent = f"X{group}"
        gpus = range(group * node.per_switch, min((group + 1) * node.per_switch, node.gpus))
        below += [Vertex(str(gpu), "endpoint", parent, switches_above=hops) for gpu in gpus]
    for group, of_group in enumerate(cards_of):
        parent = f"X{group}" if not is_at_processor else f"R{group}"
        below += [Vertex(f"nic{card}", "endpoint", parent, network_card=True, capacity=of_card) for card in of_group]
    gpus_below = "one GPU" if node.per_switch == 1 else f"{node.per_switch} GPUs"
    place = "root port" if is_at_processor else "switch"
    text = f"the PCIe tree of {node.name} is assumed: {gpus_below} with the nearest cards below each {place}"
    return PcieTree(
        node.name,
        (*vertices, *below),
        source=node.source,
        warnings=(CodedWarning(WarningCode.TOPOLOGY_NOTE, text),),
        link_bytes_per_s=link,
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


def _peer_links(node: Node) -> tuple[PeerLink, ...]:
    """Return the direct links of a built-in node."""
    names = tuple(map(str, range(node.gpus)))
    if node.gpus < 2:
        return ()
    rate = gpu_model(node.gpu).nvlink_bytes_per_s or 0.0
    if node.fabric == "cube mesh":
        return load_tree(_CUBE_MESH).peer_links
    if node.fabric == "NVSwitch":
        return (PeerLink("NVSwitch", names, rate * node.links, node.links),)
    kind = "xGMI" if node.fabric == "xGMI" else "NVLink"
    if are_dies(names, {node.gpu}):
        return links_of_dies(names, rate)
    share = node.links / (node.gpus - 1)
    return tuple(
        PeerLink(kind, (names[one], names[other]), rate * share, max(1, round(share)))
        for one in range(node.gpus)
        for other in range(one + 1, node.gpus)
    )


def are_dies(names: Sequence[str], models: Collection[str]) -> bool:
    """Return whether GPUs are the eight dies of four MI250 or MI250X."""
    words = [gpu_model(model).words if is_known_gpu(model) else model for model in models]
    return len(names) == _DIES and bool(words) and set(words) <= set(_MI250)


def links_of_dies(names: Sequence[str], bytes_per_s: float) -> tuple[PeerLink, ...]:
    """Return the direct links of eight dies with the rate of one link: each pair has those of its widest path.

    >>> [link.links for link in links_of_dies("01234567", 50e9)][:7]
    [4, 1, 1, 1, 1, 2, 2]
    """
    width = np.zeros((_DIES, _DIES), dtype=np.int64)
    for (one, other), count in _LINKS_OF_DIES.items():
        width[one, other] = width[other, one] = count
    for middle in range(_DIES):
        width = np.maximum(width, np.minimum(width[:, middle, None], width[middle]))
    return tuple(
        PeerLink("xGMI", (names[one], names[other]), bytes_per_s * int(width[one, other]), int(width[one, other]))
        for one, other in combinations(range(_DIES), 2)
    )
