"""Description of a cluster: equal nodes with direct links, their network cards, and the network."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.inputs.files import exists
from fabricast.inputs.gpus import gpu_model
from fabricast.inputs.pair_rates import host_link_share
from fabricast.nccl.hosts import Hosts
from fabricast.nccl.settings import NcclSettings, cpu_of
from fabricast.nccl.system import Cpu, PathType
from fabricast.pcie.topology.builtin import builtin_names, is_node, node_named

#: Kinds of networks between nodes; '' for one node, or if it is unknown.
VERBS, SLINGSHOT, EFA, ETHERNET = "InfiniBand or RoCE", "Slingshot", "EFA", "Ethernet"
NETWORKS = (VERBS, SLINGSHOT, EFA, ETHERNET)
_CARDS = re.compile(r"(\d{1,3})\s*[xX*\u00d7]\s*(?:(\d{1,4}(?:\.\d+)?)\s*([A-Za-z/]*)|([A-Za-z]{3}\d{0,3}))")
#: Units of the rate of a card by their factor to Gbit/s; bytes have a capital B.
_UNITS = {
    **dict.fromkeys(("", "g", "G", "Gb", "Gb/s", "Gbps", "Gbit", "Gbit/s", "gb", "gb/s", "gbps", "gbit/s", "GbE"), 1.0),
    **dict.fromkeys(("GB/s", "GBps", "GB"), 8.0),
}
#: Rates in Gbit/s by the name of a generation of InfiniBand.
_NAMED_RATES = {"QDR": 40, "FDR": 56, "EDR": 100, "HDR100": 100, "HDR": 200, "NDR200": 200, "NDR": 400, "XDR": 800}
#: More cards of a node are a rate, as in 400x8.
_MOST_CARDS = 128
#: Direct links of pairs of cards with a bridge.
BRIDGES = "bridges"
#: GPUs without direct links.
PCIE = "PCIe"
#: Rates of cards in Gbit/s that a description may have.
_SLOWEST, _FASTEST = 1.0, 1600.0
#: Most GPUs, and largest ratio of the rate of cards to that of the network above them.
_MOST_RANKS, _MOST_OVERSUBSCRIBED = 100_000, 100.0
#: Share of its PCIe link that a card can transfer.
_PCIE_SHARE = 0.85


@dataclass(frozen=True)
class Cluster:
    """Equal nodes with direct links between their GPUs."""

    name: str  # Name of the node
    gpu: str  # Product name of the GPUs
    #: GPUs of each node that are used, and number of nodes.
    gpus: int
    #: Links: by switches, equal between all pairs, or not: 'NVSwitch', 'mesh', 'cube mesh', 'bridges', 'xGMI'; 'PCIe'
    fabric: str
    links: int  # Direct links of a GPU
    nodes: int = 1
    cards: int = 0  # Network cards of a node
    card_gbit_s: float = 0.0  # Rate of a card in Gbit/s
    attach: PathType = PathType.PIX  # Path from a GPU to its card
    per_switch: int = 1  # GPUs below one PCIe switch
    cpu: str = ""  # Processor
    network: str = ""  # Kind of network
    oversubscription: float = 1.0  # Ratio of the rate of the cards to that of the network above them
    process_gpus: int = 1  # GPUs of each process
    has_gpudirect: bool = True  # Whether cards read and write the memory of GPUs
    has_nvls: bool = True  # Whether the multicasts of NVSwitch are available
    pcie_ring_bytes_per_s: float = 0.0  # Rate of a ring within a node that passes PCIe; 0 if none does
    is_network_assumed: bool = False  # Whether no input states the kind of network
    is_node_assumed: bool = False  # Whether the node is the built-in one with the GPUs that a log names
    settings: NcclSettings = field(default_factory=NcclSettings)  # Version and settings of NCCL

    @property
    def ranks(self) -> int:
        """Number of GPUs."""
        return self.gpus * self.nodes

    @property
    def has_more_cards_than_gpus(self) -> bool:
        """Whether the GPUs of a node share the network over fewer PCIe links than it has cards."""
        return self.nodes > 1 and self.cards > self.gpus

    @property
    def nvlink_bytes_per_s(self) -> float:
        """Rate of all direct links of a GPU in one direction by its data sheet."""
        return self.links * (gpu_model(self.gpu).nvlink_bytes_per_s or 0.0)

    @property
    def inner_bytes_per_s(self) -> float:
        """Rate within a node in one direction: that of its direct links, or of a ring over PCIe."""
        return self.pcie_ring_bytes_per_s or self.nvlink_bytes_per_s

    @property
    def card_bytes_per_s(self) -> float:
        """Rate of a card, not above the share of its PCIe link that a card can transfer, in bytes/s."""
        return min(self.card_gbit_s * 1e9 / 8, self.pcie_bytes_per_s)

    @property
    def pcie_bytes_per_s(self) -> float:
        """Rate that the PCIe link of a card can transfer in bytes/s."""
        model = gpu_model(self.gpu)
        return _PCIE_SHARE * pcie_link_bytes_per_s(model.generation, model.width)

    @property
    def has_pcie_gpus(self) -> bool:
        """Whether PCIe connects the GPUs with their host: superchips have NVLink-C2C."""
        return gpu_model(self.gpu).host_bytes_per_s is None

    @property
    def gpu_link_bytes_per_s(self) -> float:
        """Rate that a GPU can send to its host and cards in bytes/s."""
        of_host = gpu_model(self.gpu).host_bytes_per_s
        return self.pcie_bytes_per_s if of_host is None else of_host * host_link_share().median

    @property
    def hosts(self) -> Hosts:
        """The nodes as NCCL counts them."""
        capability = gpu_model(self.gpu).capability
        assert capability is not None, "only nodes with GPUs of NVIDIA are emulated"
        return Hosts(
            capability,
            self.gpus,
            self.nodes,
            self.links if self.gpus > 1 else 0,
            self.fabric == "NVSwitch",
            self.cards,
            self.card_gbit_s / 8,
            self.attach,
            self.per_switch,
            cpu_of(self.cpu) if self.cpu else Cpu.UNKNOWN,
            self.settings.version,
        )

    @property
    def words(self) -> str:
        """Description in words."""
        return self._node_words if self.nodes == 1 else self.words_of(self.nodes)

    @property
    def _node_words(self) -> str:
        """Description of a node without its cards."""
        if self.gpus == 1:
            return f"1 x {self.gpu}"
        if self.pcie_ring_bytes_per_s:
            ring = f"{self.pcie_ring_bytes_per_s / 1e9:.3g} GB/s"
            return f"{self.gpus} x {self.gpu} ({PCIE}, forecast of a ring within a node: {ring})"
        return f"{self.gpus} x {self.gpu} ({self.fabric}, {self.nvlink_bytes_per_s / 1e9:.4g} GB/s in each direction)"

    def words_of(self, count: int) -> str:
        """Return the description of a number of these nodes, which may be a part of a cluster."""
        kind = f" {self.network}" if self.network else ""
        text = f"{count} node{'s' if count > 1 else ''} of {self._node_words}"
        text += f", {self.cards} x {self.card_gbit_s:g} Gbit/s{kind}"
        return text + (f", oversubscribed by {self.oversubscription:g}" if self.oversubscription > 1 else "")

    def checked(self) -> Cluster:
        """Return the cluster itself; raise an error if it is no possible machine."""
        if self.gpus < 1 or not 1 <= self.nodes <= _MOST_RANKS or not 2 <= self.ranks <= _MOST_RANKS:
            raise InputError(
                f"is {self.nodes} of {self.gpus} GPUs, expected 2 to {_MOST_RANKS:,} GPUs in all", argument="nodes"
            )
        if self.nodes > 1 and not (self.cards and self.card_gbit_s):
            raise InputError(
                f"is not stated, and no file has the rate of the network cards of the {self.nodes} nodes, expected for "
                "example 8x400 ('ibstat' prints it)",
                argument="nic",
            )
        if not 1 <= self.oversubscription <= _MOST_OVERSUBSCRIBED:
            raise InputError(
                f"is {self.oversubscription:g}, expected 1 to {_MOST_OVERSUBSCRIBED:g}", argument="oversubscription"
            )
        if self.process_gpus < 1 or self.gpus % self.process_gpus:
            raise InputError(
                f"is {self.process_gpus}, expected a divisor of the {self.gpus} GPUs of a node",
                argument="gpus_per_process",
            )
        return self


def node_of(name: str) -> Cluster:
    """Return one node that is built in, with its network cards.

    >>> node = node_of("hgx_h100")
    >>> node.gpus, node.fabric, node.nvlink_bytes_per_s, node.cards
    (8, 'NVSwitch', 450000000000.0, 8)
    """
    node = node_named(name)
    return Cluster(
        node.name,
        node.gpu,
        node.gpus,
        node.fabric,
        node.links,
        cards=node.cards,
        card_gbit_s=node.card_gbit_s,
        attach=PathType[node.attach],
        per_switch=node.per_switch,
        cpu=node.cpu,
        network=node.network,
    )


def is_builtin_node(name: str) -> bool:
    """Return whether a name is that of a built-in node, or of nothing known, so that an error lists the known names.

    >>> is_builtin_node("HGX H100"), is_builtin_node("topology.xml")
    (True, False)
    """
    return is_node(name) or not (exists(name) or Path(name).suffix or name in builtin_names())


def with_cards(cluster: Cluster, text: str) -> Cluster:
    """Return a cluster with network cards such as '8x400'; several cards of each GPU are one, see `merged`.

    >>> with_cards(node_of("hgx_h100"), "4 x 200").card_gbit_s
    200.0
    """
    cards, gbit_s = merged(*cards_of(text), cluster.gpus)
    return replace(cluster, cards=cards, card_gbit_s=gbit_s)


def merged(cards: int, gbit_s: float, gpus: int) -> tuple[int, float]:
    """Return the cards of a node with several cards of each GPU as one of their rate, as NCCL and its plugins use them.

    >>> merged(16, 200.0, 8), merged(12, 400.0, 8)
    ((8, 400.0), (12, 400.0))
    """
    return (gpus, gbit_s * (cards // gpus)) if gpus and cards > gpus and cards % gpus == 0 else (cards, gbit_s)


def cards_of(text: str) -> tuple[int, float]:
    """Return the number of network cards of a node and Gbit/s of each.

    >>> cards_of("8x400"), cards_of("8xNDR"), cards_of("4 x 25 GB/s")
    ((8, 400.0), (8, 400.0), (4, 200.0))
    """
    found = _CARDS.fullmatch(text.strip())
    if found is None and exists(text):
        raise InputError(
            f"is the file '{text}', expected cards such as 8x400; a file is named without this option", argument="nic"
        )
    count = 0 if found is None else int(found[1])
    rate = 0.0
    if found is not None:
        named = _NAMED_RATES.get((found[4] or "").upper(), 0)
        rate = float(found[2]) * _UNITS.get(found[3], 0.0) if found[2] else float(named)
    if not (0 < count <= _MOST_CARDS and rate > 0):
        alone = _NAMED_RATES.get(text.strip().upper()) or (text.strip() if text.strip().isdigit() else "")
        hint = f"; with eight cards, 8x{alone}" if alone else ""
        raise InputError(
            f"is '{text}', expected cards of a node and Gbit/s of each, such as 8x400{hint}", argument="nic"
        )
    if not _SLOWEST <= rate <= _FASTEST:
        raise InputError(
            f"has cards of {rate:g}, expected {_SLOWEST:g} to {_FASTEST:g} Gbit/s (not GB/s)", argument="nic"
        )
    return count, rate
