"""Steps of collective operations as congestion graphs, in the orders that communication libraries use."""

from __future__ import annotations

from collections.abc import Callable

from fabricast.core.errors import InputError, unknown_name
from fabricast.pcie.graphs.congestion_graphs import Arc
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["COLLECTIVES", "card_arcs", "collective_arcs"]


def _ring(count: int) -> list[list[Arc]]:
    """Every rank sends to the next: each step of an all-reduce, reduce-scatter or all-gather over one ring."""
    return [[(rank, (rank + 1) % count) for rank in range(count)]]


def _tree(count: int) -> list[list[Arc]]:
    """Reduce up a binary tree, level by level from the leaves, then broadcast down the same way."""
    levels: dict[int, list[Arc]] = {}
    for rank in range(1, count):
        levels.setdefault((rank + 1).bit_length(), []).append((rank, (rank - 1) // 2))
    up = [levels[depth] for depth in sorted(levels, reverse=True)]
    return up + [[(parent, child) for child, parent in arcs] for arcs in reversed(up)]


def _pairwise(count: int) -> list[list[Arc]]:
    """All-to-all in count - 1 steps: in step k every rank sends to that k places further."""
    return [[(rank, (rank + step) % count) for rank in range(count)] for step in range(1, count)]


def _halving(count: int) -> list[list[Arc]]:
    """Reduce-scatter by recursive halving: partners at half of the ranks, a quarter, and so on."""
    if count & (count - 1):
        raise InputError(f"is {count}, expected a power of two for recursive halving", argument="endpoints")
    steps, distance = [], count // 2
    while distance:
        steps.append([(rank, rank ^ distance) for rank in range(count)])
        distance //= 2
    return steps


#: Steps of each collective as lists of (source, target), by name.
COLLECTIVES: dict[str, Callable[[int], list[list[Arc]]]] = {
    "ring": _ring,
    "tree": _tree,
    "pairwise": _pairwise,
    "halving": _halving,
}


def collective_arcs(name: str, endpoints: int) -> list[list[Arc]]:
    """Return the communications of every step of a collective operation.

    Parameters
    ----------
    name : {'ring', 'tree', 'pairwise', 'halving'}
        A step of a ring; a binary tree up and down; all-to-all in steps of pairs; reduce-scatter by recursive halving.
    endpoints : int
        Number of ranks; rank k runs on endpoint k.

    Returns
    -------
    list of list of (int, int)
        Source and target of each communication, step by step.

    Raises
    ------
    InputError
        If the name is unknown, or the number of endpoints does not fit.

    Examples
    --------
    >>> collective_arcs("ring", 4)
    [[(0, 1), (1, 2), (2, 3), (3, 0)]]
    >>> [len(step) for step in collective_arcs("tree", 8)]
    [1, 4, 2, 2, 4, 1]
    """
    if name not in COLLECTIVES:
        raise unknown_name("collective", name, COLLECTIVES)
    if endpoints < 2:
        raise InputError(f"is {endpoints}, expected 2 or more", argument="endpoints")
    return COLLECTIVES[name](endpoints)


def card_arcs(tree: PcieTree) -> list[Arc]:
    """Return a communication of each accelerator to the nearest network card.

    Parameters
    ----------
    tree : PcieTree
        Topology with network cards.

    Returns
    -------
    list of (int, int)
        Numbers of accelerator and card; of equally near cards the one with the fewest accelerators so far.

    Raises
    ------
    InputError
        If the topology has no network card.
    """
    cards = [name for name in tree.endpoint_names if tree.vertex(name).network_card]
    if not cards:
        raise InputError(
            f"topology '{tree.name}' has no network card; those of XML are endpoints only if the import is told so"
        )
    taken = dict.fromkeys(cards, 0)
    arcs = []
    for name in tree.accelerator_names:
        ranked = [
            (-tree.depth[tree.lowest_common_ancestor(name, card)], taken[card], place)
            for place, card in enumerate(cards)
        ]
        nearest = cards[min(ranked)[-1]]
        taken[nearest] += 1
        arcs.append((tree.endpoint_number[name], tree.endpoint_number[nearest]))
    return arcs
