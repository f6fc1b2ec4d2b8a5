"""PCIe trees in YAML files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from fabricast.core.errors import InputError
from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.files import write_text
from fabricast.inputs.parameters import Tag
from fabricast.inputs.yaml_files import read_yaml, validate
from fabricast.pcie.topology.parts import MemoryNode, PeerLink, RouteRule, Vertex, pairs_without_link
from fabricast.pcie.topology.tree import PcieTree

#: Relative tolerance of link rates, which input files round to a few digits.
_RATE_TOLERANCE = 0.02


class _VertexEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    name: str = Field(min_length=1, max_length=200)
    kind: Literal["system", "socket", "root_complex", "switch", "endpoint"]
    parent: str | None = None
    capacity: float = Field(1.0, gt=0, allow_inf_nan=False)
    label: str = ""
    uplink_groups: list[list[str]] = []
    generation: int | None = Field(None, ge=1, le=6)
    width: Literal[1, 2, 4, 8, 12, 16, 32] | None = None
    switches_above: int = Field(0, ge=0, le=64)
    network_card: bool = False


class _PeerEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    kind: Literal["NVLink", "NVSwitch", "xGMI"]
    endpoints: list[str] = Field(min_length=2)
    bytes_per_s: float | None = Field(None, gt=0, allow_inf_nan=False)


class _RouteEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    source: str
    target: str
    turn: str


class _MemoryEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    name: str = Field(min_length=1, max_length=200)
    parent: str
    capacity: float | None = Field(None, gt=0, allow_inf_nan=False)


class _WarningEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    code: WarningCode
    text: str


class _TreeFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.-]+$")
    source: str = ""
    tag: Tag = "assumed"
    link_bytes_per_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    bandwidth_bytes_per_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    notes: list[str] = []
    warnings: list[_WarningEntry] = []
    peer_links: list[_PeerEntry] = []
    routes: list[_RouteEntry] = []
    memory_nodes: list[_MemoryEntry] = []
    staged: Literal["all"] | list[str] = []
    vertices: list[_VertexEntry] = Field(min_length=1)

    @field_validator("staged", mode="before")
    @classmethod
    def _pairs_or_all(cls, staged: object) -> object:
        if staged != "all" and not (isinstance(staged, list) and all(isinstance(pair, str) for pair in staged)):
            raise ValueError("expected all, or a list of pairs such as 0>1")
        return staged

    def all_warnings(self) -> tuple[CodedWarning, ...]:
        """Return the notes of the file as warnings, followed by its coded warnings."""
        notes = [CodedWarning(WarningCode.TOPOLOGY_NOTE, text) for text in self.notes]
        return (*notes, *(CodedWarning(entry.code, entry.text) for entry in self.warnings))


def read_tree(path: Path | str, text: str | None = None) -> PcieTree:
    """Read a topology from a YAML file, or from its text."""
    value, lines = read_yaml(path, text)
    entry = validate(_TreeFile, value, path=path, lines=lines)
    vertices = tuple(
        Vertex(
            vertex.name,
            vertex.kind,
            vertex.parent,
            vertex.capacity,
            vertex.label,
            tuple(tuple(group) for group in vertex.uplink_groups),
            vertex.generation,
            vertex.width,
            vertex.switches_above,
            vertex.network_card,
        )
        for vertex in entry.vertices
    )
    peers = tuple(PeerLink(peer.kind, tuple(peer.endpoints), peer.bytes_per_s) for peer in entry.peer_links)
    rules = tuple(RouteRule(rule.source, rule.target, rule.turn) for rule in entry.routes)
    try:
        tree = PcieTree(
            entry.name,
            vertices,
            entry.bandwidth_bytes_per_s,
            entry.source,
            entry.tag,
            entry.all_warnings(),
            entry.link_bytes_per_s,
            peers,
            rules,
            tuple(MemoryNode(node.name, node.parent, node.capacity) for node in entry.memory_nodes),
            staged_pairs=_staged_pairs(entry, peers, vertices),
        )
        _check_widths(tree)
        return tree
    except InputError as error:
        raise InputError(str(error), path=path, line=_line_of(error.item, entry, lines)) from error


def _staged_pairs(
    entry: _TreeFile, peers: Sequence[PeerLink], vertices: Sequence[Vertex]
) -> tuple[tuple[str, str], ...]:
    """Return the pairs without peer access: those of the file, or all pairs of accelerators without a direct link."""
    if entry.staged == "all":
        names = [vertex.name for vertex in vertices if vertex.kind == "endpoint" and not vertex.network_card]
        return pairs_without_link(names, peers)
    pairs = []
    for text in entry.staged:
        source, arrow, target = text.partition(">")
        if not arrow:
            raise InputError(f"staged contains '{text}', expected pairs such as 0>1, or all", item=("staged", 0))
        pairs.append((source, target))
    return tuple(pairs)


def _check_widths(tree: PcieTree) -> None:
    """Raise `InputError` if generation and width of a link contradict its capacity."""
    for vertex in tree.vertices:
        if vertex.generation is None or vertex.width is None:
            continue
        rate = pcie_link_bytes_per_s(vertex.generation, vertex.width)
        if tree.link_bytes_per_s is None:
            raise InputError(
                f"link of '{vertex.name}' has a generation, but link_bytes_per_s is missing: specify the rate of a "
                "link of capacity 1 in bytes/s",
                item=("vertices", vertex.name),
            )
        specified = vertex.capacity * tree.link_bytes_per_s
        if abs(specified / rate - 1) > _RATE_TOLERANCE:
            raise InputError(
                f"link of '{vertex.name}' is Gen{vertex.generation} x{vertex.width} with a rate of {rate / 1e9:.2f} "
                f"GB/s, but capacity times link_bytes_per_s is {specified / 1e9:.2f} GB/s",
                item=("vertices", vertex.name),
            )


def _line_of(item: tuple[str, str | int] | None, entry: _TreeFile, lines: dict[tuple[str | int, ...], int]) -> int:
    """Return the line of a route, memory node or vertex; the last one with that name."""
    part, key = item or ("vertices", "")
    if isinstance(key, int):
        return lines.get((part, key), 1)
    memory = part == "memory_nodes"
    names = [one.name for one in entry.memory_nodes] if memory else [one.name for one in entry.vertices]
    named = [number for number, name in enumerate(names) if name == key]
    return lines.get((part, named[-1]) if named else (part,), 1)


def write_tree(tree: PcieTree, path: Path | str) -> None:
    """Write a topology as a YAML file, which `read_tree` can read.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "copy.yaml"
    >>> pair = regular_tree("pair", (2,))
    >>> write_tree(pair, file)
    >>> read_tree(file) == pair
    True
    """
    write_text(path, tree_yaml(tree))


def tree_yaml(tree: PcieTree) -> str:
    """Return a topology as YAML text with one line per vertex."""
    lines = [f"name: {json.dumps(tree.name)}"]
    if tree.source:
        lines.append(f"source: {json.dumps(tree.source)}")
    lines.append(f"tag: {tree.tag}")
    if tree.link_bytes_per_s is not None:
        lines.append(f"link_bytes_per_s: {tree.link_bytes_per_s!r}")
    if tree.bandwidth_bytes_per_s is not None:
        lines.append(f"bandwidth_bytes_per_s: {tree.bandwidth_bytes_per_s!r}")
    notes = [warning for warning in tree.warnings if warning.code == WarningCode.TOPOLOGY_NOTE]
    coded = [warning for warning in tree.warnings if warning.code != WarningCode.TOPOLOGY_NOTE]
    if notes:
        lines += ["notes:", *(f"  - {json.dumps(note.text)}" for note in notes)]
    if coded:
        lines += ["warnings:"]
        lines += [f"  - {{code: {warning.code}, text: {json.dumps(warning.text)}}}" for warning in coded]
    if tree.peer_links:
        lines.append("peer_links:")
        for peers in tree.peer_links:
            suffix = "" if peers.bytes_per_s is None else f", bytes_per_s: {peers.bytes_per_s!r}"
            lines.append(f"  - {{kind: {peers.kind}, endpoints: {json.dumps(list(peers.endpoints))}{suffix}}}")
    if tree.staged_pairs:
        every = pairs_without_link(tree.accelerator_names, tree.peer_links)
        is_all = set(tree.staged_pairs) == set(every)
        pairs = json.dumps([f"{source}>{target}" for source, target in tree.staged_pairs])
        lines.append(f"staged: {'all' if is_all else pairs}")
    if tree.route_rules:
        lines.append("routes:")
        for rule in tree.route_rules:
            ends = f"source: {json.dumps(rule.source)}, target: {json.dumps(rule.target)}"
            lines.append(f"  - {{{ends}, turn: {json.dumps(rule.turn)}}}")
    if tree.memory_nodes:
        lines.append("memory_nodes:")
        for node in tree.memory_nodes:
            suffix = "" if node.capacity is None else f", capacity: {node.capacity!r}"
            lines.append(f"  - {{name: {json.dumps(node.name)}, parent: {json.dumps(node.parent)}{suffix}}}")
    lines.append("vertices:")
    for vertex in tree.vertices:
        entry = [f"name: {json.dumps(vertex.name)}", f"kind: {vertex.kind}"]
        if vertex.parent is not None:
            entry.append(f"parent: {json.dumps(vertex.parent)}")
        if vertex.capacity != 1.0:
            entry.append(f"capacity: {vertex.capacity!r}")
        if vertex.generation is not None and vertex.width is not None:
            entry.append(f"generation: {vertex.generation}, width: {vertex.width}")
        if vertex.switches_above:
            entry.append(f"switches_above: {vertex.switches_above}")
        if vertex.network_card:
            entry.append("network_card: true")
        if vertex.label:
            entry.append(f"label: {json.dumps(vertex.label)}")
        if vertex.uplink_groups:
            entry.append(f"uplink_groups: {json.dumps([list(group) for group in vertex.uplink_groups])}")
        lines.append("  - {" + ", ".join(entry) + "}")
    return "\n".join(lines) + "\n"
