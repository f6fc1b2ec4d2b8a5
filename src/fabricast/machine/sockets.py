"""Sockets of a tree whose description has none, from the path classes of another description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fabricast.core.warnings import WarningCode
from fabricast.pcie.topology.memory import UNLIMITED
from fabricast.pcie.topology.parts import INTER_SOCKET_ASSUMED, Vertex
from fabricast.pcie.topology.tree import PcieTree


def with_sockets(tree: PcieTree, classes: PcieTree) -> PcieTree:
    """Return a tree whose root complexes are on the sockets of another tree of the same machine."""
    roots = [vertex.name for vertex in tree.vertices if vertex.kind == "root_complex"]
    number = {name: place for place, name in enumerate(tree.accelerator_names)}
    others = classes.accelerator_names
    groups: list[list[str]] = []
    members: dict[str, list[int]] = {
        root: [number[name] for name in tree.preorder(root) if name in number] for root in roots
    }
    if len(roots) < 2 or any(not below for below in members.values()):
        return tree

    def is_apart(one: Sequence[int], other: Sequence[int]) -> bool:
        return any(classes.path_class(others[a], others[b]) == "SYS" for a in one for b in other if a != b)

    if any(is_apart(below, below) for below in members.values()):
        return tree
    for root in roots:
        group = next((one for one in groups if not is_apart(members[one[0]], members[root])), None)
        if group is None:
            groups.append([root])
        else:
            group.append(root)
    if len(groups) < 2:
        return tree
    parent: dict[str, tuple[str, float]] = {}
    sockets = []
    for place, group in enumerate(groups):
        above = "SYS" if len(group) == 1 else f"SOCKET{place}"
        sockets += [] if len(group) == 1 else [Vertex(above, "socket", "SYS")]
        parent |= {root: (above, 1.0 if len(group) == 1 else UNLIMITED) for root in group}
    kept = [
        replace(vertex, parent=parent[vertex.name][0], capacity=parent[vertex.name][1])
        if vertex.name in parent
        else vertex
        for vertex in tree.vertices
        if vertex.kind not in ("socket", "system")
    ]
    resolved = (WarningCode.INTER_SOCKET_CAPACITY_ASSUMED, WarningCode.SOCKETS_UNKNOWN)
    warnings = tuple(one for one in tree.warnings if one.code not in resolved)
    return replace(
        tree, vertices=(Vertex("SYS", "system", None), *sockets, *kept), warnings=(*warnings, INTER_SOCKET_ASSUMED)
    )
