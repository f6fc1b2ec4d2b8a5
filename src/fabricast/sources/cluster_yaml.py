"""Reader of descriptions of clusters in YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Quantity
from fabricast.inputs.cluster_files import read_cluster
from fabricast.sources.text import Format, Reading, Text

_KEY = re.compile(r"^cluster:", re.MULTILINE)


def is_cluster(text: Text) -> bool:
    """Return whether a text has the key of a cluster."""
    return _KEY.search(text.raw) is not None


def _read(text: Text) -> Iterator[Reading]:
    cluster = read_cluster(text.path, text.strict)
    yield Reading([text.fact(Quantity.CLUSTER, cluster, 1, "YAML")], line=1)


FORMAT = Format(
    "YAML cluster",
    Content.CLUSTER,
    "written by hand",
    "cluster:",
    is_cluster,
    _read,
    "cluster.yaml",
    reader="fabricast collective",
    versions="this project; nodes, network cards, and the network between nodes",
)
