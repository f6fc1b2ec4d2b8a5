"""Text drawings of PCIe trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from fabricast.api.topologies import UNLIMITED

if TYPE_CHECKING:
    from fabricast.pcie.topology.parts import PeerLink
    from fabricast.pcie.topology.tree import PcieTree


def tree_text(tree: PcieTree) -> Tree:
    """Return a drawing of the tree for the terminal."""

    def describe(name: str) -> str:
        vertex = tree.vertex(name)
        parts = [f"[bold]{escape(name)}[/bold] {vertex.kind.replace('_', ' ')}"]
        if vertex.parent is not None:
            if vertex.generation is not None:
                parts.append(f"Gen{vertex.generation} x{vertex.width}")
            if vertex.capacity >= UNLIMITED:
                parts.append("no limit known")
            elif tree.link_bytes_per_s:
                parts.append(f"{vertex.capacity * tree.link_bytes_per_s / 1e9:.2f} GB/s")
            elif vertex.capacity != 1.0:
                parts.append(f"capacity {vertex.capacity:g}")
        if vertex.switches_above:
            parts.append(f"below {vertex.switches_above} more switch{'es' if vertex.switches_above > 1 else ''}")
        if vertex.network_card:
            parts.append("network card")
        if vertex.label:
            parts.append(escape(vertex.label))
        if vertex.uplink_groups:
            groups = " | ".join(" ".join(group) for group in vertex.uplink_groups)
            parts.append(escape(f"uplinks {groups}"))
        return "  ".join(parts)

    def grow(branch: Tree, name: str) -> None:
        for child in tree.children(name):
            grow(branch.add(describe(child)), child)

    drawing = Tree(f"{escape(tree.name)} ({escape(tree.source)})")
    grow(drawing.add(describe(tree.root)), tree.root)
    for node in tree.memory_nodes:
        capacity = "" if node.capacity is None else f"  capacity {node.capacity:g}"
        drawing.add(escape(f"{node.name}  memory at {node.parent}{capacity}"))
    for peers in tree.peer_links:
        drawing.add(
            escape(f"{peers.kind} connects {' '.join(peers.endpoints)}: copies between these do not use the PCIe tree")
            + _rate(peers)
        )
    for rule in tree.route_rules:
        named = f"copies from {rule.source} to {rule.target}"
        copies = "all copies below this vertex" if rule.source == rule.target == "*" else named
        drawing.add(escape(f"{copies} are routed through {rule.turn}"))
    return drawing


def _rate(peers: PeerLink) -> str:
    return "" if peers.bytes_per_s is None else f"; {peers.bytes_per_s / 1e9:.4g} GB/s per direction"


def path_matrix(tree: PcieTree) -> Table:
    """Return the path classes of all endpoint pairs, as in ``nvidia-smi topo -mp``."""
    table = Table(show_edge=False, box=None, pad_edge=False)
    table.add_column("")
    for name in tree.endpoint_names:
        table.add_column(escape(name))
    for source in tree.endpoint_names:
        row = ["X" if source == target else tree.path_class(source, target) for target in tree.endpoint_names]
        table.add_row(escape(source), *row)
    return table
