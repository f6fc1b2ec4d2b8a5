"""Read PCIe trees: built-in names, YAML, hwloc XML and NCCL XML."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fabricast import resources
from fabricast.errors import InputError
from fabricast.files import write_text
from fabricast.pcie.tree import PcieTree, Vertex
from fabricast.pcie.xml_import import import_xml
from fabricast.yaml_files import read_yaml, validate

__all__ = ["builtin_names", "load_tree", "write_tree"]


class _VertexEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    name: str = Field(min_length=1, max_length=200)
    kind: Literal["system", "root_complex", "switch", "endpoint"]
    parent: str | None = None
    capacity: float = Field(1.0, gt=0, allow_inf_nan=False)
    label: str = ""
    uplink_groups: list[list[str]] = []


class _TreeFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.-]+$")
    source: str = ""
    tag: Literal["published", "quoted", "derived", "assumed", "measured"] = "assumed"
    bandwidth_bytes_per_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    notes: list[str] = []
    vertices: list[_VertexEntry] = Field(min_length=1)


def builtin_names() -> list[str]:
    """Return the names of the built-in topologies."""
    return sorted(path.stem for path in resources.topologies().glob("*.yaml"))


def load_tree(topology: str | Path, *, include_display: bool = False) -> PcieTree:
    """Load a topology by built-in name, or from a YAML, hwloc XML or NCCL XML file.

    Parameters
    ----------
    topology : str or Path
        Built-in name or file. Files are told apart by their ending: ``.yaml``,
        ``.yml`` or ``.xml``.
    include_display : bool, default False
        Whether NVIDIA and AMD display controllers (class 0300) count as accelerators.

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
    >>> load_tree("storm8").automorphism_count
    128
    """
    path = Path(topology)
    if path.suffix.lower() in (".yaml", ".yml"):
        return _read_tree(path)
    if path.suffix.lower() == ".xml":
        return import_xml(path, include_display=include_display)
    if str(topology) in builtin_names():
        return _read_tree(resources.topologies() / f"{topology}.yaml")
    raise InputError(
        f"topology '{topology}' is neither a .yaml or .xml file nor built in; built in are {', '.join(builtin_names())}"
    )


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
        )
        for vertex in entry.vertices
    )
    try:
        return PcieTree(entry.name, vertices, entry.bandwidth_bytes_per_s, entry.source, entry.tag, tuple(entry.notes))
    except InputError as error:
        raise InputError(str(error), path=path, line=_line_of_fault(str(error), vertices, lines)) from error


def _line_of_fault(message: str, vertices: tuple[Vertex, ...], lines: dict[tuple[str | int, ...], int]) -> int:
    """Return the line of the last vertex that the message quotes, else that of the list."""
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
    if tree.bandwidth_bytes_per_s is not None:
        lines.append(f"bandwidth_bytes_per_s: {tree.bandwidth_bytes_per_s!r}")
    if tree.notes:
        lines += ["notes:", *(f"  - {json.dumps(note)}" for note in tree.notes)]
    lines.append("vertices:")
    for vertex in tree.vertices:
        entry = [f"name: {json.dumps(vertex.name)}", f"kind: {vertex.kind}"]
        if vertex.parent is not None:
            entry.append(f"parent: {json.dumps(vertex.parent)}")
        if vertex.capacity != 1.0:
            entry.append(f"capacity: {vertex.capacity!r}")
        if vertex.label:
            entry.append(f"label: {json.dumps(vertex.label)}")
        if vertex.uplink_groups:
            entry.append(f"uplink_groups: {json.dumps([list(group) for group in vertex.uplink_groups])}")
        lines.append("  - {" + ", ".join(entry) + "}")
    return "\n".join(lines) + "\n"
