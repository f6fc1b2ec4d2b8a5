"""Host memory as endpoints of a PCIe tree: one of each NUMA node that the topology knows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.topology.parts import MemoryNode, Vertex
from fabricast.pcie.topology.tree import PcieTree

__all__ = [
    "HOST",
    "UNLIMITED",
    "ends_of",
    "has_host_memory",
    "is_between_roots",
    "is_host",
    "memory_beside",
    "memory_of",
    "memory_of_flows",
    "root_complex_of",
    "with_host_memory",
]

#: A capacity that no copies of one machine fill.
UNLIMITED = 1000.0
#: What programs call the memory of the only processor, or of the first.
_ONLY_NODE = "NUMA0"


def with_host_memory(tree: PcieTree) -> PcieTree:
    """Return a tree with host memory as endpoints below its root complexes.

    Every NUMA node of the topology is one, with its capacity where that is told. A root complex with no node, or with
    several, has ``H@`` and its name too: memory of which nobody says on which node it lies.

    Parameters
    ----------
    tree : PcieTree
        Topology.

    Returns
    -------
    PcieTree
        The same with endpoints that are marked `host_memory`, after all others.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> with_host_memory(regular_tree("flat4x2", (2, 4))).endpoint_names[-1]
    'H@RC'
    """
    roots = [vertex.name for vertex in tree.vertices if vertex.kind == "root_complex"] or [tree.root]
    memory = []
    for root in roots:
        nodes = [node for node in tree.memory_nodes if node.parent == root]
        memory += [_vertex(node.name, root, [node]) for node in nodes]
        if len(nodes) != 1:
            memory.append(_vertex(f"{HOST}@{root}", root, nodes))
    return replace(tree, vertices=(*tree.vertices, *memory), memory_nodes=())


def _vertex(name: str, root: str, nodes: list[MemoryNode]) -> Vertex:
    told = [node.capacity for node in nodes if node.capacity is not None]
    capacity = sum(told) if told and len(told) == len(nodes) else UNLIMITED
    return Vertex(name, "endpoint", root, capacity=capacity, host_memory=True)


def root_complex_of(tree: PcieTree, endpoint: str) -> str:
    """Return the root complex above an endpoint, or the root of the tree."""
    above = [name for name in tree.ancestors(endpoint) if tree.vertex(name).kind == "root_complex"]
    return above[-1] if above else tree.root


def memory_of(tree: PcieTree, root_complex: str) -> str:
    """Return the endpoint that host memory next to a root complex is: its NUMA node, or ``H@`` where none is alone."""
    nodes = [name for name in tree.children(root_complex) if tree.vertex(name).host_memory]
    return nodes[0] if len(nodes) == 1 else f"{HOST}@{root_complex}"


def has_host_memory(tree: PcieTree) -> bool:
    """Whether host memory is among the endpoints of a tree."""
    return any(vertex.host_memory for vertex in tree.vertices)


def memory_beside(tree: PcieTree) -> NDArray[np.int64]:
    """Return the endpoint number of the host memory next to each endpoint, shape (endpoints,)."""
    beside = [tree.endpoint_number[memory_of(tree, root_complex_of(tree, name))] for name in tree.endpoint_names]
    return np.array(beside, dtype=np.int64)


def ends_of(tree: PcieTree, flow: tuple[str, str]) -> tuple[str, str]:
    """Return the endpoints of a copy; `HOST` is the memory next to the other end.

    Parameters
    ----------
    tree : PcieTree
        With host memory.
    flow : tuple of (str, str)
        Names of source and target.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> ends_of(with_host_memory(regular_tree("flat4x2", (2, 4))), ("H", "3"))
    ('H@RC', '3')
    """
    source, target = (_memory_called(tree, name) for name in flow)
    if source == HOST:
        return memory_of(tree, root_complex_of(tree, target)), target
    return (source, memory_of(tree, root_complex_of(tree, source))) if target == HOST else (source, target)


def _memory_called(tree: PcieTree, name: str) -> str:
    """Return what a tree calls memory: the first NUMA node is the only memory there is, where it knows no nodes."""
    if name in tree.endpoint_number or name != _ONLY_NODE:
        return name
    memory = [vertex.name for vertex in tree.vertices if vertex.host_memory]
    return memory[0] if len(memory) == 1 and memory[0].startswith(HOST) else name


def memory_of_flows(tree: PcieTree, flows: Iterable[tuple[str, str]]) -> dict[str, list[bool]]:
    """Return the memory that copies use, and of each copy whether it reads there."""
    used: dict[str, list[bool]] = {}
    for flow in flows:
        for place, name in enumerate(ends_of(tree, flow)):
            if tree.vertex(name).host_memory:
                used.setdefault(name, []).append(place == 0)
    return used


def is_host(tree: PcieTree, flows: Iterable[tuple[str, str]]) -> bool:
    """Whether some copy reads or writes host memory."""
    return bool(memory_of_flows(tree, flows))


def is_between_roots(tree: PcieTree, flow: tuple[str, str]) -> bool:
    """Whether a copy goes from one socket to another."""
    return tree.vertex(tree.turn(*ends_of(tree, flow))).kind == "system"


#: Host memory, next to the GPU of the copy.
HOST = "H"
