"""Trees from a matrix of path classes, as nvidia-smi prints it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.topology.memory import UNLIMITED
from fabricast.pcie.topology.parts import (
    BRIDGES_ASSUMED,
    INTER_SOCKET_ASSUMED,
    LINK_SPEED_REMEDY,
    MemoryNode,
    PeerLink,
    Vertex,
    imported_name,
)
from fabricast.pcie.topology.tree import PATH_CLASSES, PcieTree

_PIX, _PXB, _PHB, _NODE, _SYS = range(5)


@dataclass
class ClassMatrix:
    """Path classes of devices."""

    names: list[str]  # GPUs first, then network cards
    gpus: int  # Number of GPUs
    classes: dict[tuple[int, int], str]  # Class of each pair, in both orders; pairs with direct links are missing
    links: dict[tuple[int, int], int] = field(default_factory=dict)  # Number of direct links of each pair of GPUs
    numa_nodes: list[int | None] = field(default_factory=list)  # NUMA node of each GPU
    kind: str = "NVLink"  # Kind of direct links
    program: str = "nvidia-smi topo -m"  # Program that printed them
    #: Whether the program printed which GPUs are on one socket, and which are below a switch.
    has_sockets: bool = True
    has_switches: bool = True
    warnings: list[CodedWarning] = field(default_factory=list)  # Assumptions of the reader


def tree_of_classes(matrix: ClassMatrix, path: Path | str, *, network_cards: bool = False) -> PcieTree:
    """Return the tree of a matrix of path classes, up to what the classes leave open."""
    warnings = list(matrix.warnings)
    classes = _completed(matrix, warnings)
    _check_consistent(matrix, classes, path)
    builder = _Builder(matrix, classes, network_cards)
    vertices = builder.vertices()
    if builder.assumed_switches:
        warnings.append(
            CodedWarning(
                WarningCode.TOPOLOGY_NOTE,
                f"{matrix.program} does not print the number of switches between GPUs of class PXB: one level is "
                "assumed; 'lspci -tv' prints it",
            )
        )
    for nodes in builder.divided:
        first, *_, last = sorted(nodes, key=lambda name: nodes[name])
        warnings.append(
            CodedWarning(
                WarningCode.TOPOLOGY_NOTE,
                f"{first} and {last} are below one host bridge, but at NUMA nodes {nodes[first]} and {nodes[last]}: "
                "the node of that bridge is unknown; 'lstopo --whole-io' prints it",
            )
        )
    if builder.has_bridges:
        warnings.append(BRIDGES_ASSUMED)
    text = f"{matrix.program} prints no link speeds: {LINK_SPEED_REMEDY}"
    warnings.append(CodedWarning(WarningCode.LINK_SPEED_MISSING, text))
    if len(builder.sockets) > 1:
        warnings.append(INTER_SOCKET_ASSUMED)
    return PcieTree(
        imported_name(Path(path).stem),
        vertices,
        None,
        f"imported from {matrix.program}",
        "measured",
        tuple(warnings),
        None,
        _peer_links(matrix),
        memory_nodes=builder.memory_nodes(),
    )


def _completed(matrix: ClassMatrix, warnings: list[CodedWarning]) -> dict[tuple[int, int], int]:
    """Return the rank of each pair's class; pairs with direct links follow from NUMA nodes and other devices."""
    ranks = {pair: PATH_CLASSES.index(name) for pair, name in matrix.classes.items()}
    count = len(matrix.names)
    assumed = []
    for one, other in itertools.combinations(range(count), 2):
        if (one, other) in ranks:
            continue
        # A third device bounds the class from above, and states it if its own classes differ; without one, the NUMA
        # nodes decide.
        thirds = [
            (ranks[one, third], ranks[third, other])
            for third in range(count)
            if (one, third) in ranks and (third, other) in ranks
        ]
        bounds = [max(classes) for classes in thirds]
        is_stated = any(near != far for near, far in thirds)
        nodes = [matrix.numa_nodes[end] if end < len(matrix.numa_nodes) else None for end in (one, other)]
        by_node = _NODE if nodes[0] is not None and nodes[0] == nodes[1] else _SYS
        ranks[one, other] = ranks[other, one] = min(bounds if is_stated else [by_node, *bounds])
        assumed.append(f"{matrix.names[one]}-{matrix.names[other]}")
    if assumed:
        warnings.append(
            CodedWarning(
                WarningCode.TOPOLOGY_NOTE,
                f"the PCIe path of pairs with direct links is not printed ({len(assumed)}, for example "
                f"{assumed[0]}): it is assumed from NUMA nodes and other devices; 'lstopo --whole-io' prints it",
            )
        )
    return ranks


def _check_consistent(matrix: ClassMatrix, ranks: dict[tuple[int, int], int], path: Path | str) -> None:
    names = matrix.names
    for one, other in itertools.combinations(range(len(names)), 2):
        for third in range(len(names)):
            if third in (one, other):
                continue
            most = max(ranks[one, third], ranks[third, other])
            if ranks[one, other] > most:
                raise InputError(
                    f"{names[one]} and {names[other]} have class {PATH_CLASSES[ranks[one, other]]}, expected at most "
                    f"{PATH_CLASSES[most]}: both are at most that far from {names[third]}",
                    path=path,
                )


class _Builder:
    """Vertices of a tree from consistent path classes."""

    def __init__(self, matrix: ClassMatrix, ranks: dict[tuple[int, int], int], network_cards: bool) -> None:
        self._matrix, self._ranks, self._network_cards = matrix, ranks, network_cards
        self._inner: list[Vertex] = []
        self._leaves: dict[int, Vertex] = {}
        self._switches = itertools.count()
        self._roots = itertools.count()
        self.assumed_switches = self.has_bridges = False
        #: NUMA nodes by GPU of each root complex whose GPUs have different ones.
        self.divided: list[dict[str, int]] = []
        kept = [number for number in range(len(matrix.names)) if number < matrix.gpus or network_cards]
        self._kept = set(kept)
        self.sockets = [
            group for group in self._groups(range(len(matrix.names)), _NODE) if any(one in self._kept for one in group)
        ]
        self._root_of_node: dict[str, int | None] = {}

    def _groups(self, members: Sequence[int], rank: int) -> list[list[int]]:
        """Return the groups of members whose classes are at most a rank, in order."""
        groups: list[list[int]] = []
        for member in members:
            group = next((one for one in groups if self._ranks[one[0], member] <= rank), None)
            if group is None:
                groups.append([member])
            else:
                group.append(member)
        return groups

    def vertices(self) -> tuple[Vertex, ...]:
        """Return all vertices, endpoints last in the order of their numbers."""
        several = len(self.sockets) > 1
        if several:
            self._inner.append(Vertex("SYS", "system", None))
        for number, socket in enumerate(self.sockets):
            roots = [group for group in self._groups(socket, _PHB) if self._kept & set(group)]
            parent = "SYS" if several else None
            if len(roots) > 1:
                name = f"SOCKET{number}"
                self._inner.append(Vertex(name, "socket", parent))
                parent = name
                self.has_bridges = True
            for group in roots:
                self._root_complex(group, parent, single=not several and len(roots) == 1)
        return (*self._inner, *(self._leaves[number] for number in sorted(self._leaves)))

    def _root_complex(self, members: list[int], parent: str | None, *, single: bool) -> None:
        name = "RC" if single else f"RC{next(self._roots)}"
        node_of = {one: self._matrix.numa_nodes[one] for one in members if one < len(self._matrix.numa_nodes)}
        nodes = set(node_of.values())
        self._root_of_node[name] = nodes.pop() if len(nodes) == 1 else None
        if len(nodes - {None}) > 1:
            self.divided.append({self._matrix.names[one]: node for one, node in node_of.items() if node is not None})
        # Host bridges of a socket are connected within the processor, not by a PCIe link.
        capacity = UNLIMITED if parent is not None and parent != "SYS" else 1.0
        self._inner.append(Vertex(name, "root_complex", parent, capacity))
        for group in self._groups(members, _PXB):
            self._below_root(group, name)

    def _below_root(self, members: list[int], parent: str) -> None:
        """Add the devices below one port of a root complex."""
        parts = [group for group in self._groups(members, _PIX) if self._kept & set(group)]
        if not parts:
            return
        if len(parts) == 1:
            self._below_switch(parts[0], parent, is_alone=len(members) == len(parts[0]))
            return
        # Of network cards the number of switches says nothing about copies between GPUs.
        with_gpus = [part for part in parts if min(part) < self._matrix.gpus]
        self.assumed_switches |= len(with_gpus) > 1
        switch = self._switch(parent)
        for part in parts:
            self._below_switch(part, switch, is_alone=False)

    def _below_switch(self, members: list[int], parent: str, *, is_alone: bool) -> None:
        """Add devices of class PIX: below one switch, or directly if there is only one."""
        kept = [one for one in members if one in self._kept]
        if len(kept) > 1:
            parent = self._switch(parent)
        for one in kept:
            # A switch whose other devices are omitted is part of the link.
            hidden = len(kept) == 1 and (len(members) > 1 or not is_alone)
            name = str(one) if one < self._matrix.gpus else self._matrix.names[one]
            self._leaves[one] = Vertex(
                name,
                "endpoint",
                parent,
                label=self._matrix.names[one],
                switches_above=int(hidden),
                network_card=one >= self._matrix.gpus,
            )

    def _switch(self, parent: str) -> str:
        name = f"S{next(self._switches)}"
        self._inner.append(Vertex(name, "switch", parent))
        return name

    def memory_nodes(self) -> tuple[MemoryNode, ...]:
        """Return the NUMA nodes that belong to exactly one root complex."""
        nodes = [node for node in self._root_of_node.values() if node is not None]
        return tuple(
            MemoryNode(f"NUMA{node}", root)
            for root, node in self._root_of_node.items()
            if node is not None and nodes.count(node) == 1
        )


def _peer_links(matrix: ClassMatrix) -> tuple[PeerLink, ...]:
    """Return direct links; equal links between all GPUs are those of a switch."""
    if not matrix.links:
        return ()
    counts = set(matrix.links.values())
    pairs = [(one, other) for one, other in matrix.links if one < other]
    whole = matrix.gpus * (matrix.gpus - 1) // 2
    if matrix.gpus > 2 and len(pairs) == whole and len(counts) == 1 and matrix.kind == "NVLink" and max(counts) >= 6:
        return (PeerLink("NVSwitch", tuple(str(number) for number in range(matrix.gpus)), links=max(counts)),)
    return tuple(
        PeerLink(matrix.kind, (str(one), str(other)), links=matrix.links[one, other]) for one, other in sorted(pairs)
    )
