"""Read PCIe trees: built-in names, YAML, hwloc XML and NCCL XML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fabricast.core import resources
from fabricast.core.errors import InputError, near_names
from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.inputs.files import write_text
from fabricast.inputs.parameters import Tag
from fabricast.inputs.yaml_files import read_yaml, validate
from fabricast.pcie.topology.parts import MemoryNode, PeerLink, RouteRule, Vertex
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["builtin_names", "load_tree", "load_trees", "write_tree"]

#: Files round rates of links to a few digits.
_RATE_TOLERANCE = 0.02


class _VertexEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    name: str = Field(min_length=1, max_length=200)
    kind: Literal["system", "root_complex", "switch", "endpoint"]
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


class _TreeFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.-]+$")
    source: str = ""
    tag: Tag = "assumed"
    link_bytes_per_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    bandwidth_bytes_per_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    notes: list[str] = []
    peer_links: list[_PeerEntry] = []
    routes: list[_RouteEntry] = []
    memory_nodes: list[_MemoryEntry] = []
    vertices: list[_VertexEntry] = Field(min_length=1)


def builtin_names() -> list[str]:
    """Return the names of the built-in topologies."""
    return sorted(path.stem for path in resources.topologies().glob("*.yaml"))


def load_tree(topology: str | Path, *, include_display: bool = False, network_cards: bool = False) -> PcieTree:
    """Load a topology by built-in name, or from a YAML, hwloc XML or NCCL XML file.

    Parameters
    ----------
    topology : str or Path
        Built-in name or file. Files are told apart by their ending: ``.yaml``,
        ``.yml`` or ``.xml``.
    include_display : bool, default False
        Whether NVIDIA and AMD display controllers (class 0300) count as accelerators.
    network_cards : bool, default False
        Whether network cards of XML are endpoints too; YAML says itself which endpoints it has.

    Returns
    -------
    PcieTree
        The tree.

    Raises
    ------
    InputError
        If there is no such topology or the file does not describe a tree.

    Examples
    --------
    >>> len(load_tree("storm8").endpoint_names)
    8
    """
    path = Path(topology)
    if path.suffix.lower() in (".yaml", ".yml"):
        return _read_tree(path)
    if path.suffix.lower() == ".xml":
        from fabricast.pcie.topology.xml_import import import_xml  # most topologies need no XML

        return import_xml(path, include_display=include_display, network_cards=network_cards)
    names = builtin_names()
    if str(topology) in names:
        return replace(_read_tree(resources.topologies() / f"{topology}.yaml"), builtin=True)
    raise InputError(
        f"topology '{topology}' is neither a .yaml or .xml file nor built in{near_names(str(topology), names)}; built "
        f"in are {', '.join(names)}"
    )


def load_trees(paths: Iterable[str | Path]) -> list[PcieTree]:
    """Load the topologies of files, each of which needs a name of its own.

    Parameters
    ----------
    paths : iterable of str or Path
        Files; one that is named twice is loaded once.

    Returns
    -------
    list of PcieTree
        The trees, in order.

    Raises
    ------
    InputError
        If two files hold topologies of one name.
    """
    found: dict[str, tuple[str, PcieTree]] = {}
    for path in dict.fromkeys(map(str, paths)):
        tree = load_tree(path)
        if tree.name in found:
            raise InputError(
                f"holds a topology named '{tree.name}', as does {found[tree.name][0]}; expected different names (of an "
                "XML file its own name, of a YAML file the key 'name')",
                path=path,
            )
        found[tree.name] = (path, tree)
    return [tree for _, tree in found.values()]


def _read_tree(path: Path) -> PcieTree:
    value, lines = read_yaml(path)
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
    rules = tuple(RouteRule(one.source, one.target, one.turn) for one in entry.routes)
    try:
        tree = PcieTree(
            entry.name, vertices, entry.bandwidth_bytes_per_s, entry.source, entry.tag, tuple(entry.notes),
            entry.link_bytes_per_s, peers, rules,
            tuple(MemoryNode(node.name, node.parent, node.capacity) for node in entry.memory_nodes),
        )  # fmt: skip
        _check_widths(tree)
        return tree
    except InputError as error:
        raise InputError(str(error), path=path, line=_line_of_fault(str(error), entry, rules, lines)) from error


def _check_widths(tree: PcieTree) -> None:
    """Refuse generations and widths that contradict the capacity of their link."""
    for vertex in tree.vertices:
        if vertex.generation is None or vertex.width is None:
            continue
        rate = pcie_link_bytes_per_s(vertex.generation, vertex.width)
        if tree.link_bytes_per_s is None:
            raise InputError(
                f"link of '{vertex.name}' has a generation, but link_bytes_per_s is missing: expected the rate of a "
                "link of capacity 1"
            )
        given = vertex.capacity * tree.link_bytes_per_s
        if abs(given / rate - 1) > _RATE_TOLERANCE:
            raise InputError(
                f"link of '{vertex.name}' is Gen{vertex.generation} x{vertex.width}, which carries {rate / 1e9:.2f} "
                f"GB/s, but capacity and link_bytes_per_s give {given / 1e9:.2f} GB/s"
            )


def _line_of_fault(
    message: str, entry: _TreeFile, rules: tuple[RouteRule, ...], lines: dict[tuple[str | int, ...], int]
) -> int:
    """Return the line of the rule, memory node or last vertex that the message names, else that of the vertices."""
    for place, rule in enumerate(rules):
        if message.startswith(f"{rule} "):
            return lines.get(("routes", place), 1)
    nodes = [i for i, node in enumerate(entry.memory_nodes) if message.startswith(f"memory node '{node.name}' ")]
    if nodes:
        return lines.get(("memory_nodes", nodes[-1]), 1)
    vertices = entry.vertices
    named = [i for i, vertex in enumerate(vertices) if f"'{vertex.name}'" in message]
    repeated = Counter(vertex.name for vertex in vertices)
    named = [i for i in named if repeated[vertices[i].name] > 1] or named[:1]
    return lines.get(("vertices", named[-1]) if named else ("vertices",), 1)


def write_tree(tree: PcieTree, path: Path | str) -> None:
    """Write a topology as YAML that `load_tree` reads back.

    Parameters
    ----------
    tree : PcieTree
        The topology.
    path : Path or str
        The file.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "copy.yaml"
    >>> write_tree(load_tree("dgx1"), file)
    >>> load_tree(file) == load_tree("dgx1")
    True
    """
    write_text(path, tree_yaml(tree))


def tree_yaml(tree: PcieTree) -> str:
    """Return a topology as YAML text, one vertex a line."""
    lines = [f"name: {json.dumps(tree.name)}"]
    if tree.source:
        lines.append(f"source: {json.dumps(tree.source)}")
    lines.append(f"tag: {tree.tag}")
    if tree.link_bytes_per_s is not None:
        lines.append(f"link_bytes_per_s: {tree.link_bytes_per_s!r}")
    if tree.bandwidth_bytes_per_s is not None:
        lines.append(f"bandwidth_bytes_per_s: {tree.bandwidth_bytes_per_s!r}")
    if tree.notes:
        lines += ["notes:", *(f"  - {json.dumps(note)}" for note in tree.notes)]
    if tree.peer_links:
        lines.append("peer_links:")
        for peers in tree.peer_links:
            told = "" if peers.bytes_per_s is None else f", bytes_per_s: {peers.bytes_per_s!r}"
            lines.append(f"  - {{kind: {peers.kind}, endpoints: {json.dumps(list(peers.endpoints))}{told}}}")
    if tree.route_rules:
        lines.append("routes:")
        for rule in tree.route_rules:
            ends = f"source: {json.dumps(rule.source)}, target: {json.dumps(rule.target)}"
            lines.append(f"  - {{{ends}, turn: {json.dumps(rule.turn)}}}")
    if tree.memory_nodes:
        lines.append("memory_nodes:")
        for node in tree.memory_nodes:
            told = "" if node.capacity is None else f", capacity: {node.capacity!r}"
            lines.append(f"  - {{name: {json.dumps(node.name)}, parent: {json.dumps(node.parent)}{told}}}")
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
