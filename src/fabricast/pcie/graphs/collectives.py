"""Steps of collective operations as congestion graphs."""

from __future__ import annotations

from collections.abc import Callable

from fabricast.core.errors import InputError, unknown_name
from fabricast.pcie.graphs.congestion_graphs import Pair
from fabricast.pcie.topology.tree import PcieTree


def _ring(count: int) -> list[list[Pair]]:
    """Return the step of a ring algorithm, in which every rank sends to the next one.

    All steps of an all-reduce, reduce-scatter or all-gather over one ring consist of these copies.
    """
    return [[(rank, (rank + 1) % count) for rank in range(count)]]


def _tree(count: int) -> list[list[Pair]]:
    """Return the steps of a binary-tree reduction and broadcast, one level per step."""
    levels: dict[int, list[Pair]] = {}
    for rank in range(1, count):
        levels.setdefault((rank + 1).bit_length(), []).append((rank, (rank - 1) // 2))
    up = [levels[depth] for depth in sorted(levels, reverse=True)]
    return up + [[(parent, child) for child, parent in pairs] for pairs in reversed(up)]


def _pairwise(count: int) -> list[list[Pair]]:
    """Return the steps of a pairwise all-to-all: in step k, rank r sends to r + k."""
    return [[(rank, (rank + step) % count) for rank in range(count)] for step in range(1, count)]


def _halving(count: int) -> list[list[Pair]]:
    """Return the steps of a reduce-scatter by recursive halving."""
    if count & (count - 1):
        raise InputError(f"is {count}, expected a power of two for recursive halving", argument="endpoints")
    steps, distance = [], count // 2
    while distance:
        steps.append([(rank, rank ^ distance) for rank in range(count)])
        distance //= 2
    return steps


#: Functions that return the steps of a collective as lists of (source, target), by algorithm name.
COLLECTIVES: dict[str, Callable[[int], list[list[Pair]]]] = {
    "ring": _ring,
    "tree": _tree,
    "pairwise": _pairwise,
    "halving": _halving,
}


def collective_pairs(name: str, endpoints: int) -> list[list[Pair]]:
    """Return the copies of every step of a collective operation.

    The steps of a collective depend on each other. Each step is one congestion graph, whose copies start together.

    >>> collective_pairs("ring", 4)
    [[(0, 1), (1, 2), (2, 3), (3, 0)]]
    >>> [len(step) for step in collective_pairs("tree", 8)]
    [1, 4, 2, 2, 4, 1]
    """
    if name not in COLLECTIVES:
        raise unknown_name("collective", name, COLLECTIVES)
    if endpoints < 2:
        raise InputError(f"is {endpoints}, expected 2 or more", argument="endpoints")
    return COLLECTIVES[name](endpoints)


def card_pairs(tree: PcieTree) -> list[Pair]:
    """Return one copy from each accelerator to the nearest network card.

    The nearest card is the one with the deepest lowest common ancestor. If several cards are equally near, the card
    with the fewest accelerators so far is used.
    """
    cards = [name for name in tree.endpoint_names if tree.vertex(name).network_card]
    if not cards:
        raise InputError(
            f"topology '{tree.name}' has no network card; import XML files with network_cards=True to include them"
        )
    assigned = dict.fromkeys(cards, 0)
    pairs = []
    for name in tree.accelerator_names:
        ranked = [
            (-tree.depth[tree.lowest_common_ancestor(name, card)], assigned[card], index)
            for index, card in enumerate(cards)
        ]
        nearest = cards[min(ranked)[-1]]
        assigned[nearest] += 1
        pairs.append((tree.endpoint_number[name], tree.endpoint_number[nearest]))
    return pairs
