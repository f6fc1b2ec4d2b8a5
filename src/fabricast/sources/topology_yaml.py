"""Reader of topologies in YAML, as ``fabricast topology import`` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Quantity
from fabricast.pcie.topology.files import read_tree
from fabricast.sources.cluster_yaml import is_cluster
from fabricast.sources.text import Format, Reading, Text

_VERTICES = re.compile(r"^vertices:", re.MULTILINE)


def _is_topology(text: Text) -> bool:
    return not is_cluster(text) and _has_vertices(text)


def _has_vertices(text: Text) -> bool:
    return text.path.lower().endswith((".yaml", ".yml")) or _VERTICES.search(text.raw) is not None


def _read(text: Text) -> Iterator[Reading]:
    tree = read_tree(text.path, text.strict)
    yield Reading([text.fact(Quantity.TOPOLOGY, tree, 1, "YAML")], line=1)


FORMAT = Format(
    "YAML topology",
    Content.TOPOLOGY,
    "fabricast topology import topo.txt -o machine.yaml",
    "vertices:",
    _is_topology,
    _read,
    "topology.yaml",
    versions="this project; pairs without peer access, routes and memory nodes are optional",
)
