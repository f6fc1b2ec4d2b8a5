"""Path classes of copies, and properties of their routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.topology.memory import is_host
from fabricast.pcie.topology.tree import PcieTree


def has_local_path(tree: PcieTree) -> bool:
    """Return whether any route between GPUs does not cross a root complex."""
    routes, names = tree.routes, tree.endpoint_names
    gpus = [number for number, name in enumerate(names) if not is_host(tree, [(name, name)])]
    return any(not routes.crossing[s * routes.endpoints + t] for s in gpus for t in gpus if s != t)


def are_disjoint(tree: PcieTree, flows: Sequence[tuple[int, int]]) -> bool:
    """Return whether the routes of all flows are disjoint (directed links)."""
    routes = tree.routes
    used: set[int] = set()
    for source, target in flows:
        pair = source * routes.endpoints + target
        links = set(routes.link[routes.offset[pair] : routes.offset[pair + 1]].tolist())
        if links & used:
            return False
        used |= links
    return True


#: Classes of copies; isolated copies of one class have the same rate. The classes are local (below a root complex),
#: crossing (over a root complex), between sockets, and between host memory and a GPU (in: to the GPU; remote: between
#: sockets).
CopyClass = Literal["local", "crossing", "between_roots", "host_in", "host_out", "remote_in", "remote_out"]
#: Words for the copies of each class, after "copies".
COPY_CLASS_WORDS: dict[CopyClass, str] = {
    "local": "below one switch",
    "crossing": "across the root complex",
    "between_roots": "between root complexes",
    "host_in": "from host memory",
    "host_out": "to host memory",
    "remote_in": "from memory of another socket",
    "remote_out": "to memory of another socket",
}


def copy_class_of(tree: PcieTree, source: int, target: int) -> CopyClass:
    """Return the class of a copy, which determines its rate as an isolated copy.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("flat4x2", (2, 4))
    >>> copy_class_of(tree, 0, 1), copy_class_of(tree, 0, 4)
    ('local', 'crossing')
    """
    ends = tree.endpoint_names[source], tree.endpoint_names[target]
    between = tree.vertex(tree.turn(*ends)).kind == "system"
    if tree.vertex(ends[0]).host_memory:
        return "remote_in" if between else "host_in"
    if tree.vertex(ends[1]).host_memory:
        return "remote_out" if between else "host_out"
    if between:
        return "between_roots"
    return "crossing" if tree.routes.crossing[source * tree.routes.endpoints + target] else "local"


def link_labels(tree: PcieTree) -> list[str]:
    """Return a label for each directed link: an endpoint that sends or receives, or a link between two vertices.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> link_labels(regular_tree("pair", (2,)))
    ['endpoint 0 sends', 'endpoint 1 sends', 'endpoint 0 receives', 'endpoint 1 receives']
    """
    labels = []
    for source, target, _, port in tree.link_names:
        if tree.is_endpoint(source):
            labels.append(f"endpoint {source} sends")
        elif tree.is_endpoint(target):
            labels.append(f"endpoint {target} receives")
        else:
            labels.append(f"link {source} > {target}" + (f" (port {port})" if port else ""))
    return labels


def narrowest_link(tree: PcieTree, flows: Sequence[tuple[int, int]]) -> float:
    """Return the smallest link capacity on the routes of several copies."""
    routes = tree.routes
    pairs = [source * routes.endpoints + target for source, target in flows]
    return min(float(routes.capacity[routes.link[routes.offset[p] : routes.offset[p + 1]]].min()) for p in pairs)


def child_above(tree: PcieTree, root: str, endpoint: str) -> str:
    """Return the child of `root` on the path to an endpoint."""
    below = endpoint
    for name in tree.ancestors(endpoint):
        if name == root:
            break
        below = name
    return below


def reverse_links(tree: PcieTree) -> NDArray[np.int64]:
    """Return the number of the reverse direction of each link."""
    number = {(source, target, port): k for k, (source, target, _, port) in enumerate(tree.link_names)}
    return np.array([number[target, source, port] for source, target, _, port in tree.link_names], dtype=np.int64)
