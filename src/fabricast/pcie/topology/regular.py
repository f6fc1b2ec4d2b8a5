"""Generator of regular trees."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fabricast.core.errors import InputError
from fabricast.pcie.topology.parts import Vertex
from fabricast.pcie.topology.tree import PcieTree


def regular_tree(name: str, branching: Sequence[int], *, sockets: int = 1) -> PcieTree:
    """Generate a tree in which all vertices of a level have equally many children.

    >>> len(regular_tree("flat4x2", (2, 4)).endpoint_names)
    8
    >>> regular_tree("storm16", (2, 2, 2), sockets=2).path_class("0", "8")
    'SYS'
    """
    if not branching or min(branching) < 1 or sockets < 1:
        raise InputError(f"branching is {list(branching)} on {sockets} sockets, expected positive numbers")
    vertices: list[Vertex] = [Vertex("SYS", "system", None)] if sockets > 1 else []
    switch_number, endpoint_number = itertools.count(), itertools.count()

    def grow(parent: str, levels: Sequence[int]) -> None:
        for _ in range(levels[0]):
            if len(levels) == 1:
                vertices.append(Vertex(str(next(endpoint_number)), "endpoint", parent))
            else:
                switch = f"S{next(switch_number)}"
                vertices.append(Vertex(switch, "switch", parent))
                grow(switch, levels[1:])

    for socket in range(sockets):
        root_complex = f"RC{socket}" if sockets > 1 else "RC"
        vertices.append(Vertex(root_complex, "root_complex", "SYS" if sockets > 1 else None))
        grow(root_complex, branching)
    return PcieTree(name, tuple(vertices), source="generated", tag="assumed")
