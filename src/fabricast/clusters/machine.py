"""A cluster as copies see it: the machine of each node, its network cards, and the network between nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fabricast.clusters.node_trees import card_names
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.warnings import CodedWarning
from fabricast.inputs.cluster_files import ClusterStatement
from fabricast.machine.machine import Machine
from fabricast.networks.network import SwitchNetwork
from fabricast.pcie.machines.engine_model import ENDPOINT_ENGINES, EngineModel
from fabricast.pcie.topology.tree import PATH_CLASSES


@dataclass(frozen=True)
class NodeMachine:
    """One kind of nodes."""

    name: str
    machine: Machine  # Topology with network cards, and rates
    gpus: tuple[str, ...]  # Endpoints of the GPUs that are used; GPU k of a node is the k-th one
    #: Rate that copies reach over one card in each direction in bytes/s: with cards of one other node, and of several.
    card_bytes_per_s: float
    card_to_many_bytes_per_s: float

    @cached_property
    def engines(self) -> EngineModel:
        """Topology with host memory and rates, for copies that run at the same time."""
        return EngineModel(self.machine.tree, self.machine.rates, program="independent", model=ENDPOINT_ENGINES)

    @cached_property
    def cards(self) -> tuple[str, ...]:
        """Network cards."""
        return card_names(self.machine.tree)

    @cached_property
    def card_of(self) -> tuple[int, ...]:
        """Number of the nearest card of each GPU; of equally near cards the one that the fewest GPUs have."""
        users = [0] * max(len(self.cards), 1)
        chosen = []
        for gpu in range(len(self.gpus)):
            far = [(self.distance(gpu, card), users[card], card) for card in range(len(self.cards))]
            card = min(far)[2] if far else 0
            users[card] += 1
            chosen.append(card)
        return tuple(chosen)

    def distance(self, gpu: int, card: int) -> int:
        """Return the place of the path class of a GPU and a card in `PATH_CLASSES`: 0 is the nearest."""
        return PATH_CLASSES.index(self.machine.tree.path_class(self.gpus[gpu], self.cards[card]))

    @property
    def spread_cards(self) -> tuple[int, ...]:
        """Number of a card of each GPU if GPUs are spread evenly over all cards, whatever their distance."""
        count = max(len(self.cards), 1)
        return tuple(place * count // len(self.gpus) for place in range(len(self.gpus)))


@dataclass(frozen=True, repr=False)
class ClusterMachine:
    """Nodes, network cards and network of a cluster.

    Parameters
    ----------
    name : str
        Name.
    kinds : tuple of NodeMachine
        Kinds of nodes.
    kind_of : ndarray of int64, shape (nodes,)
        Kind of each node.
    network : SwitchNetwork or None
        Network of switches; None for one that limits no copy, except by `oversubscription`.
    hosts : ndarray of int64, shape (nodes,)
        Number of the host of the network that each node is.
    oversubscription : float
        Ratio of the rate of the cards of a node to that of the network above them, without a network of switches.
    has_gpudirect : bool
        Whether cards read and write the memory of GPUs; otherwise copies pass through host memory.
    latency_s : float or None
        Time of a small message between two nodes in s, if it is stated or measured.
    process_bytes_per_s : float or None
        Largest rate of all copies of one GPU over the network in bytes/s (one process of the max-rate model).
    kind_of_network : str
        Kind of network, such as ``"InfiniBand or RoCE"``.
    words : str
        Description.
    statement : ClusterStatement
        What files and the user state, from which it was built.
    warnings : tuple of CodedWarning
        Assumptions.
    """

    name: str
    kinds: tuple[NodeMachine, ...]
    kind_of: NDArray[np.int64]
    network: SwitchNetwork | None = None
    hosts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    oversubscription: float = 1.0
    has_gpudirect: bool = True
    latency_s: float | None = None
    process_bytes_per_s: float | None = None
    kind_of_network: str = ""
    words: str = ""
    statement: ClusterStatement = field(default_factory=lambda: ClusterStatement("", ()))
    warnings: tuple[CodedWarning, ...] = ()

    def __repr__(self) -> str:
        return f"ClusterMachine: {self.words or self.name}"

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.kind_of.size

    @cached_property
    def has_separate_rails(self) -> bool:
        """Whether the cards of a host are on networks that are not connected, such as planes that are assumed."""
        if self.network is None:
            return False
        rails = self.network.rails(self.hosts)
        if rails < max(len(kind.cards) for kind in self.kinds):
            return True
        if rails == 1:
            return False
        begin = int(self.network.host_begin[self.hosts[0]])
        first, second = self.network.leaf[begin : begin + 2]
        return bool(self.network.distance[first, self.network.leaf_number[second]] < 0)

    def kind(self, node: int) -> NodeMachine:
        """Return the machine of a node."""
        return self.kinds[int(self.kind_of[node])]

    @cached_property
    def first_rank(self) -> NDArray[np.int64]:
        """Rank of the first GPU of each node, and the number of GPUs; ranks are consecutive on a node."""
        counts = np.array([len(kind.gpus) for kind in self.kinds], dtype=np.int64)[self.kind_of]
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @property
    def host_names(self) -> list[str]:
        """Name of the host of each node; ``node0`` and so on without a network of switches."""
        if self.network is None:
            return [f"node{node}" for node in range(self.nodes)]
        return [self.network.hosts[host] for host in self.hosts.tolist()]

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return int(self.first_rank[-1])

    def rank_of(self, name: str) -> int:
        """Return the rank of a GPU such as ``node0.gpu3`` or ``node0.3``; a number such as ``17`` is a rank.

        Raises
        ------
        InputError
            If there is no such GPU.
        """
        node_name, dot, gpu_name = name.strip().lower().rpartition(".")
        node, gpu = node_name.removeprefix("node"), gpu_name.removeprefix("gpu")
        if not dot and _is_number(gpu):
            if int(gpu) < self.gpus:
                return int(gpu)
            raise InputError(f"contains rank {name}, expected 0 to {self.gpus - 1}", argument="copies")
        if not (node_name.startswith("node") and _is_number(node) and _is_number(gpu)):
            raise InputError(f"contains '{name}', expected GPUs such as node0.gpu3", argument="copies")
        if int(node) >= self.nodes:
            raise InputError(f"contains {name}, expected node0 to node{self.nodes - 1}", argument="copies")
        count = len(self.kind(int(node)).gpus)
        if int(gpu) >= count:
            names = [f"node{node}.gpu{number}" for number in range(min(count, 16))]
            raise unknown_name("copies", name, names)
        return int(self.first_rank[int(node)]) + int(gpu)

    def place_of(self, ranks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return node and GPU of ranks."""
        node = np.searchsorted(self.first_rank, ranks, side="right") - 1
        return node, ranks - self.first_rank[node]

    def names_of(self, ranks: Sequence[int]) -> list[str]:
        """Return the names of GPUs by rank."""
        nodes, gpus = self.place_of(np.asarray(ranks, dtype=np.int64))
        return [f"node{node}.gpu{gpu}" for node, gpu in zip(nodes.tolist(), gpus.tolist(), strict=True)]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 8
