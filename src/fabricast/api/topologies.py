"""Built-in topologies, and topologies as YAML and drawings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from fabricast.api.machine_inputs import load_topology
from fabricast.core.errors import InputError
from fabricast.pcie.topology.builtin import builtin_names, load_tree, node_names
from fabricast.pcie.topology.drawing import saturated_vertices, tree_svg
from fabricast.pcie.topology.files import tree_yaml, write_tree
from fabricast.pcie.topology.memory import UNLIMITED
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["UNLIMITED", "builtin_topologies", "drawing_of", "topologies_of", "tree_yaml", "write_tree"]


def builtin_topologies() -> list[PcieTree]:
    """Return the built-in topologies, and the built-in nodes that are none of these.

    >>> len(builtin_topologies()) > 10
    True
    """
    return [load_tree(name) for name in dict.fromkeys([*builtin_names(), *node_names()])]


def topologies_of(paths: Iterable[str | Path]) -> list[PcieTree]:
    """Return the topologies of several files, which must have different names."""
    loaded: dict[str, tuple[str, PcieTree]] = {}
    for path in dict.fromkeys(map(str, paths)):
        tree = load_topology(path)
        if tree.name in loaded:
            text = f"holds a topology named '{tree.name}', as does {loaded[tree.name][0]}; expected unique names"
            raise InputError(f"{text} (the key 'name')", path=path)
        loaded[tree.name] = (path, tree)
    return [tree for _, tree in loaded.values()]


def drawing_of(tree: PcieTree, labels: Sequence[str] = ()) -> str:
    """Return the drawing of a topology as SVG, with the links of some labels highlighted."""
    drawing = tree_svg(tree, saturated_vertices(tree, labels)) if labels else tree_svg(tree)
    return drawing[drawing.index("<svg") : drawing.rindex("</svg>")] + "</svg>\n"
