"""Validation of memory nodes and direct links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabricast.core.errors import InputError
from fabricast.pcie.topology.parts import MemoryNode, PeerLink

__all__ = [
    "FASTEST_BYTES_PER_S",
    "LARGEST_CAPACITY",
    "SLOWEST_BYTES_PER_S",
    "SMALLEST_CAPACITY",
    "check_memory_nodes",
    "check_peer_links",
]

#: Limits that detect typing errors in capacities: PCIe spans a factor of 500 from Gen1 x1 to Gen6 x16.
SMALLEST_CAPACITY, LARGEST_CAPACITY = 1e-3, 1e3
#: Kinds of direct links between endpoints.
_PEER_LINK_KINDS = ("NVLink", "NVSwitch", "xGMI")
#: Limits in bytes/s that detect typing errors in rates of direct links.
_SLOWEST_PEER, _FASTEST_PEER = 1e6, 1e13


def check_memory_nodes(nodes: Sequence[MemoryNode], kinds: Mapping[str, str]) -> None:
    """Check the names, parents and capacities of memory nodes.

    Parameters
    ----------
    nodes : sequence of MemoryNode
        Nodes to check.
    kinds : mapping of str to str
        Kind of each vertex of the tree by name.

    Raises
    ------
    InputError
        For the first node whose name is not unique among nodes and vertices, whose parent is not a root complex, or
        whose capacity is out of range.
    """
    names = [node.name for node in nodes]
    for node in nodes:
        item = "memory_nodes", node.name
        if node.name in kinds or names.count(node.name) > 1:
            raise InputError(f"memory node '{node.name}' is a duplicate, expected a unique name", item=item)
        if kinds.get(node.parent) != "root_complex":
            raise InputError(
                f"memory node '{node.name}' has the parent '{node.parent}', expected a root complex", item=item
            )
        if node.capacity is not None and not SMALLEST_CAPACITY <= node.capacity < LARGEST_CAPACITY:
            raise InputError(
                f"memory node '{node.name}' has capacity {node.capacity:g}, expected a positive number from "
                f"{SMALLEST_CAPACITY:g} to below {LARGEST_CAPACITY:g}",
                item=item,
            )


def check_peer_links(links: Sequence[PeerLink], endpoints: Sequence[str]) -> None:
    """Check the kinds, endpoints and rates of direct links.

    Parameters
    ----------
    links : sequence of PeerLink
        Links to check.
    endpoints : sequence of str
        Names of the endpoints of the tree.

    Raises
    ------
    InputError
        For the first link of unknown kind, without two different endpoints of the tree, or with a rate out of range.
    """
    for link in links:
        unknown = [name for name in link.endpoints if name not in endpoints]
        if unknown or link.kind not in _PEER_LINK_KINDS or len(set(link.endpoints)) < 2:
            raise InputError(
                f"peer_links connects {', '.join(link.endpoints[:8])} by '{link.kind}', expected two or more endpoints "
                f"of the tree and one of {', '.join(_PEER_LINK_KINDS)}"
            )
        if link.bytes_per_s is not None and not _SLOWEST_PEER <= link.bytes_per_s <= _FASTEST_PEER:
            raise InputError(
                f"bytes_per_s of {link.kind} between {', '.join(link.endpoints[:8])} is {link.bytes_per_s:g}, expected "
                f"{_SLOWEST_PEER:g} to {_FASTEST_PEER:g}"
            )


#: Limits in bytes/s that detect typing errors in rates of PCIe links.
SLOWEST_BYTES_PER_S, FASTEST_BYTES_PER_S = 1e6, 1e13
