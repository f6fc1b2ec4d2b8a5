"""Validation of the parts of a tree: vertices, rates, memory nodes, direct links, pairs without peer access."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from fabricast.core.errors import InputError
from fabricast.pcie.topology.parts import MemoryNode, PeerLink, Vertex

#: Limits that detect typing errors in capacities: PCIe spans a factor of 500 from Gen1 x1 to Gen6 x16.
SMALLEST_CAPACITY, LARGEST_CAPACITY = 1e-3, 1e3
#: Limits in bytes/s that detect typing errors in rates of PCIe links.
SLOWEST_BYTES_PER_S, FASTEST_BYTES_PER_S = 1e6, 1e13
#: Kinds of direct links between endpoints.
_PEER_LINK_KINDS = ("NVLink", "NVSwitch", "xGMI")
#: Limits in bytes/s that detect typing errors in rates of direct links.
_SLOWEST_PEER, _FASTEST_PEER = 1e6, 1e13


def check_memory_nodes(nodes: Sequence[MemoryNode], kinds: Mapping[str, str]) -> None:
    """Check the names, parents and capacities of memory nodes."""
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
    """Check the kinds, endpoints and rates of direct links."""
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


def check_staged_pairs(pairs: Sequence[tuple[str, str]], accelerators: Sequence[str]) -> None:
    """Check that pairs without peer access are different accelerators."""
    known = set(accelerators)
    for source, target in pairs:
        if source == target or not {source, target} <= known:
            raise InputError(f"staged contains '{source}>{target}', expected two different accelerators of the tree")


def check_rates(name: str, link: float | None, copy_rate: float | None) -> None:
    """Check the rates of links and isolated copies of a tree with this name, in bytes/s."""
    for key, rate in (("link_bytes_per_s", link), ("bandwidth_bytes_per_s", copy_rate)):
        if rate is not None and not SLOWEST_BYTES_PER_S <= rate <= FASTEST_BYTES_PER_S:
            raise InputError(
                f"{key} of topology '{name}' is {rate:g}, expected {SLOWEST_BYTES_PER_S:g} to {FASTEST_BYTES_PER_S:g}"
            )
    if link is not None and copy_rate is not None and copy_rate > link:
        raise InputError(
            f"bandwidth_bytes_per_s of topology '{name}' is {copy_rate:g}, expected at most the link rate {link:g} "
            "(link_bytes_per_s)"
        )


def check_vertex(vertex: Vertex, parent_kind: str | None, children: int, endpoints_below: Sequence[str]) -> None:
    """Check the place, capacity and uplinks of a vertex of a tree."""
    item = "vertices", vertex.name
    if parent_kind == "endpoint":
        raise InputError(f"endpoint '{vertex.parent}' has the child '{vertex.name}', expected a leaf", item=item)
    if not SMALLEST_CAPACITY <= vertex.capacity <= LARGEST_CAPACITY:
        raise InputError(
            f"link of '{vertex.name}' has capacity {vertex.capacity:g}, expected a positive number from "
            f"{SMALLEST_CAPACITY:g} to {LARGEST_CAPACITY:g}",
            item=item,
        )
    if vertex.network_card and vertex.kind != "endpoint":
        raise InputError(f"{vertex.kind} '{vertex.name}' is marked network_card, expected an endpoint", item=item)
    if vertex.kind != "endpoint" and not children:
        raise InputError(f"{vertex.kind} '{vertex.name}' has no child, expected at least one", item=item)
    if vertex.uplink_groups:
        below = sorted(endpoints_below)
        if sorted(itertools.chain.from_iterable(vertex.uplink_groups)) != below:
            raise InputError(
                f"uplink_groups of '{vertex.name}' are invalid, expected each endpoint below it once: "
                f"{', '.join(below)}",
                item=item,
            )
