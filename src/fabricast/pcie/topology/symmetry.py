"""Symmetries of PCIe trees: permutations of the endpoints that preserve the tree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.topology.tree import PcieTree

#: Limit that bounds the memory of the enumeration.
_MOST_AUTOMORPHISMS = 100_000


@lru_cache(maxsize=64)
def _shapes(tree: PcieTree) -> dict[str, tuple[object, ...]]:
    """Return the shape of the subtree at each vertex.

    Sibling subtrees of equal shape can be exchanged. A shape consists of kind, capacity, uplink ports and route rules
    of the vertex and the sorted shapes of its children.
    """
    shapes: dict[str, tuple[object, ...]] = {}
    for name in reversed(list(tree.preorder(tree.root))):
        vertex = tree.vertex(name)
        below = tuple(sorted((shapes[child] for child in tree.children(name)), key=repr))
        # Endpoints that use different uplinks of a switch are not equivalent.
        above = tree.ancestors(name) if vertex.kind == "endpoint" else []
        ports = tuple(tree.port(switch, name) for switch in above)
        kind = "network_card" if vertex.network_card else vertex.kind
        shapes[name] = (kind, vertex.capacity, ports, below, *_rules_naming(tree, name))
    return shapes


def _rules_naming(tree: PcieTree, name: str) -> list[tuple[str, int]]:
    """Return the role of a vertex in each route rule that names it.

    The role is part of the shape: no other vertex can replace the vertex.
    """
    rules = enumerate(tree.route_rules)
    roles = ("source", "target", "turn")
    return [(role, number) for number, rule in rules for role in roles if getattr(rule, role) == name]


@lru_cache(maxsize=64)
def shape_arrays(tree: PcieTree) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
    """Return parents, subtree shapes and endpoints of a tree as arrays for kernels.

    Shapes: parent (vertices,); shape (vertices,); endpoint (endpoints,).
    """
    shapes = {name: repr(shape) for name, shape in _shapes(tree).items()}
    vertex_number = {vertex.name: number for number, vertex in enumerate(tree.vertices)}
    parent = [-1 if vertex.parent is None else vertex_number[vertex.parent] for vertex in tree.vertices]
    # Numbers depend only on the shapes, not on the order of vertices.
    shape_number = {shape: number for number, shape in enumerate(sorted(set(shapes.values())))}
    return (
        np.array(parent, dtype=np.int64),
        np.array([shape_number[shapes[vertex.name]] for vertex in tree.vertices], dtype=np.uint64),
        np.array([vertex_number[name] for name in tree.endpoint_names], dtype=np.int64),
    )


def automorphism_count(tree: PcieTree) -> int:
    """Return the number of endpoint permutations that preserve a tree.

    The number is the product, over all vertices, of the factorials of the numbers of children with equal shape.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> automorphism_count(regular_tree("storm8", (2, 2, 2)))
    128
    """
    shapes = _shapes(tree)
    count = 1
    for vertex in tree.vertices:
        below = [shapes[child] for child in tree.children(vertex.name)]
        count *= math.prod(math.factorial(below.count(shape)) for shape in set(below))
    return count


@lru_cache(maxsize=64)
def automorphisms(tree: PcieTree) -> NDArray[np.int64]:
    """Return all endpoint permutations that preserve a tree.

    Shapes: result (automorphisms, endpoints).

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> automorphisms(regular_tree("flat2x1", (2, 1))).tolist()
    [[0, 1], [1, 0]]
    """
    if (count := automorphism_count(tree)) > _MOST_AUTOMORPHISMS:
        raise ValueError(f"topology '{tree.name}' has {count} symmetries, expected at most {_MOST_AUTOMORPHISMS}")
    images = [dict(pairs) for pairs in _isomorphisms(tree, tree.root, tree.root)]
    number = tree.endpoint_number
    table = [[number[image[name]] for name in tree.endpoint_names] for image in images]
    return np.array(sorted(table), dtype=np.int64)


def _isomorphisms(tree: PcieTree, start: str, image: str) -> Iterator[list[tuple[str, str]]]:
    """Yield all endpoint maps of the subtree at `start` onto the subtree at `image`."""
    if tree.is_endpoint(start):
        yield [(start, image)]
        return
    shapes, children = _shapes(tree), tree.children(start)
    for images in itertools.permutations(tree.children(image)):
        pairs = list(zip(children, images, strict=True))
        if all(shapes[a] == shapes[b] for a, b in pairs):
            parts = [list(_isomorphisms(tree, a, b)) for a, b in pairs]
            for choice in itertools.product(*parts):
                yield list(itertools.chain.from_iterable(choice))
