"""Host memory as endpoints of a PCIe tree, one endpoint per NUMA node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.topology.parts import MemoryNode, Vertex
from fabricast.pcie.topology.tree import PcieTree

#: Capacity of host memory of unknown bandwidth, which the copies of one machine cannot saturate.
UNLIMITED = 1000.0
#: Name that benchmarks use for the memory of the first processor, or of the only one.
_ONLY_NODE = "NUMA0"


def with_host_memory(tree: PcieTree) -> PcieTree:
    """Return a tree with host memory as endpoints below its root complexes.

    Every NUMA node becomes an endpoint below its root complex, with its capacity if that is known. A root complex that
    does not have exactly one NUMA node gets an additional endpoint, ``H@`` followed by its name, for host memory whose
    NUMA node is unknown.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> with_host_memory(regular_tree("flat4x2", (2, 4))).endpoint_names[-1]
    'H@RC'
    """
    if has_host_memory(tree):
        return tree
    roots = [vertex.name for vertex in tree.vertices if vertex.kind == "root_complex"] or [tree.root]
    memory = []
    for root in roots:
        nodes = [node for node in tree.memory_nodes if node.parent == root]
        memory += [_vertex(node.name, root, [node]) for node in nodes]
        if len(nodes) != 1:
            memory.append(_vertex(f"{HOST}@{root}", root, nodes))
    return replace(tree, vertices=(*tree.vertices, *memory), memory_nodes=())


def _vertex(name: str, root: str, nodes: list[MemoryNode]) -> Vertex:
    capacities = [node.capacity for node in nodes if node.capacity is not None]
    capacity = sum(capacities) if capacities and len(capacities) == len(nodes) else UNLIMITED
    return Vertex(name, "endpoint", root, capacity=capacity, host_memory=True)


def root_complex_of(tree: PcieTree, endpoint: str) -> str:
    """Return the root complex above an endpoint, or the root of the tree."""
    above = [name for name in tree.ancestors(endpoint) if tree.vertex(name).kind == "root_complex"]
    return above[-1] if above else tree.root


def socket_of(tree: PcieTree, endpoint: str) -> str:
    """Return the vertex below the system above an endpoint: a socket or its only root complex; else the root."""
    names = [
        name
        for name in (endpoint, *tree.ancestors(endpoint))
        if (parent := tree.vertex(name).parent) is not None and tree.vertex(parent).kind == "system"
    ]
    return names[-1] if names else tree.root


def memory_of(tree: PcieTree, root_complex: str) -> str:
    """Return the name of the host memory at a root complex.

    The host memory is the only NUMA node of the root complex, or else ``H@`` followed by the name of the root complex.
    """
    nodes = [name for name in tree.children(root_complex) if tree.vertex(name).host_memory]
    return nodes[0] if len(nodes) == 1 else f"{HOST}@{root_complex}"


def has_host_memory(tree: PcieTree) -> bool:
    """Return whether a tree has endpoints that are host memory."""
    return any(vertex.host_memory for vertex in tree.vertices)


def nearest_memory(tree: PcieTree) -> NDArray[np.int64]:
    """Return the endpoint number of the host memory nearest to each endpoint."""
    nearest = [tree.endpoint_number[memory_of(tree, root_complex_of(tree, name))] for name in tree.endpoint_names]
    return np.array(nearest, dtype=np.int64)


def ends_of(tree: PcieTree, flow: tuple[str, str]) -> tuple[str, str]:
    """Return the endpoints of a copy; `HOST` is replaced by the nearest memory.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> ends_of(with_host_memory(regular_tree("flat4x2", (2, 4))), ("H", "3"))
    ('H@RC', '3')
    """
    source, target = (_memory_called(tree, name) for name in flow)
    if source == HOST:
        return memory_of(tree, root_complex_of(tree, target)), target
    return (source, memory_of(tree, root_complex_of(tree, source))) if target == HOST else (source, target)


def _memory_called(tree: PcieTree, name: str) -> str:
    """Resolve ``NUMA0`` to the only host memory of a tree without NUMA nodes."""
    if name in tree.endpoint_number or name != _ONLY_NODE:
        return name
    memory = [vertex.name for vertex in tree.vertices if vertex.host_memory]
    return memory[0] if len(memory) == 1 and memory[0].startswith(HOST) else name


def memory_of_flows(tree: PcieTree, flows: Iterable[tuple[str, str]]) -> dict[str, list[bool]]:
    """Return the host memory that copies use."""
    used: dict[str, list[bool]] = {}
    for flow in flows:
        for position, name in enumerate(ends_of(tree, flow)):
            if tree.vertex(name).host_memory:
                used.setdefault(name, []).append(position == 0)
    return used


def is_host(tree: PcieTree, flows: Iterable[tuple[str, str]]) -> bool:
    """Return whether any copy reads or writes host memory."""
    return bool(memory_of_flows(tree, flows))


def is_inter_socket(tree: PcieTree, flow: tuple[str, str]) -> bool:
    """Return whether the route of a copy connects two sockets."""
    return tree.vertex(tree.turn(*ends_of(tree, flow))).kind == "system"


#: Name of the host memory nearest to the GPU of the copy.
HOST = "H"
