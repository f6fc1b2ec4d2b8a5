"""SVG drawings of PCIe trees for notebooks and web pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Protocol

from fabricast.pcie.topology.parts import MemoryNode, PeerLink, Vertex

_COLUMN, _ROW, _BOX_WIDTH, _BOX_HEIGHT = 84, 62, 72, 24
_FILLS = {
    "system": "#f0f0f0",
    "socket": "#f7ecd9",
    "root_complex": "#fbe3c8",
    "switch": "#d6e8f5",
    "endpoint": "#d8efdf",
}


class _DrawnTree(Protocol):
    """Interface of `PcieTree` for drawings, which avoids a circular import."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def vertices(self) -> tuple[Vertex, ...]: ...
    @property
    def peer_links(self) -> tuple[PeerLink, ...]: ...
    @property
    def memory_nodes(self) -> tuple[MemoryNode, ...]: ...
    @property
    def link_bytes_per_s(self) -> float | None: ...
    @property
    def root(self) -> str: ...
    @property
    def endpoint_names(self) -> tuple[str, ...]: ...
    @property
    def depth(self) -> Mapping[str, int]: ...

    def children(self, name: str) -> tuple[str, ...]: ...
    def vertex(self, name: str) -> Vertex: ...


#: Colour of saturated links, and labels of links in forecasts.
_SATURATED = "#D55E00"
_LINK, _END = re.compile(r"link (\S+) > (\S+?)(?: \(.*)?"), re.compile(r"endpoint (\S+) (?:sends|receives)")


def saturated_vertices(tree: _DrawnTree, labels: Iterable[str]) -> set[str]:
    """Return the vertices whose link to the parent is named in labels of forecasts, such as 'link S1 > S0'.

    >>> from fabricast.pcie.topology.builtin import load_tree
    >>> sorted(saturated_vertices(load_tree("storm8"), ["link S1 > S0", "endpoint 4 receives", ""]))
    ['4', 'S1']
    """
    found = set()
    for label in set(labels):
        if (match := _END.fullmatch(label)) is not None:
            found.add(match[1])
        elif (match := _LINK.fullmatch(label)) is not None:
            names = {vertex.name: vertex.parent for vertex in tree.vertices}
            found.add(match[1] if names.get(match[1]) == match[2] else match[2])
    return found & {vertex.name for vertex in tree.vertices}


def tree_svg(tree: _DrawnTree, saturated: Iterable[str] = ()) -> str:
    """Return an SVG drawing of a tree.

    Vertices are arranged by level. Links are labelled with PCIe generation, width and rate if these are known.

    >>> from fabricast.pcie.topology.builtin import load_tree
    >>> tree_svg(load_tree("storm8")).count("<rect")
    15
    """
    x, full = _places(tree), set(saturated)
    y = {name: _ROW * depth + _BOX_HEIGHT for name, depth in tree.depth.items()}
    width = _COLUMN * len(tree.endpoint_names) + 8
    height = max(y.values()) + _BOX_HEIGHT
    links, boxes = [], []
    for vertex in tree.vertices:
        center_x, center_y = x[vertex.name], y[vertex.name]
        if vertex.parent is not None:
            links.append(
                f'<line x1="{center_x:.0f}" y1="{center_y - _BOX_HEIGHT / 2:.0f}" x2="{x[vertex.parent]:.0f}" '
                f'y2="{y[vertex.parent] + _BOX_HEIGHT / 2:.0f}" '
                + (f'stroke="{_SATURATED}" stroke-width="4"/>' if vertex.name in full else 'stroke="#777"/>')
            )
            boxes.append(_text(center_x, center_y - _BOX_HEIGHT / 2 - 4, _link_label(tree, vertex.name), 8, "#555"))
        boxes.append(
            f'<rect x="{center_x - _BOX_WIDTH / 2:.0f}" y="{center_y - _BOX_HEIGHT / 2:.0f}" width="{_BOX_WIDTH}" '
            f'height="{_BOX_HEIGHT}" rx="4" fill="{_FILLS[vertex.kind]}" stroke="#777"/>'
        )
        boxes.append(
            _text(center_x, center_y + 4, vertex.name if len(vertex.name) < 12 else vertex.name[:10] + "…", 11, "#111")
        )
    kinds = f"{len(tree.endpoint_names)} endpoints, {len(tree.vertices)} vertices"
    peers = "".join(
        f"<p>{escape(link.kind)} connects {escape(', '.join(link.endpoints))}: these copies do not use PCIe.</p>"
        for link in tree.peer_links
    )
    memory = "".join(
        f"<p>{escape(node.name)} is host memory at {escape(node.parent)}.</p>" for node in tree.memory_nodes
    )
    return (
        f"<p><b>{escape(tree.name)}</b> ({kinds}) {escape(tree.source)}</p>"
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif"><title>PCIe tree {escape(tree.name)}: {kinds}</title>'
        f"{''.join(links)}{''.join(boxes)}</svg>{peers}{memory}"
    )


def _places(tree: _DrawnTree) -> dict[str, float]:
    """Return the x coordinate of each vertex, centred over its children."""
    coordinates: dict[str, float] = {}

    def place(name: str) -> float:
        children = tree.children(name)
        if children:
            below = [place(child) for child in children]
            coordinates[name] = (below[0] + below[-1]) / 2
        else:
            placed = sum(1 for name_of_leaf in coordinates if not tree.children(name_of_leaf))
            coordinates[name] = _COLUMN * (placed + 0.5) + 4
        return coordinates[name]

    place(tree.root)
    return coordinates


def _link_label(tree: _DrawnTree, name: str) -> str:
    vertex = tree.vertex(name)
    parts = [] if vertex.generation is None else [f"Gen{vertex.generation} x{vertex.width}"]
    if tree.link_bytes_per_s:
        parts.append(f"{vertex.capacity * tree.link_bytes_per_s / 1e9:.1f} GB/s")
    return " ".join(parts)


def _text(x: float, y: float, text: str, size: int, colour: str) -> str:
    if not text:
        return ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{colour}" text-anchor="middle" '
        f'paint-order="stroke" stroke="#fff" stroke-width="2">{escape(text)}</text>'
    )
