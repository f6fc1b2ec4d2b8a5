"""PCIe trees of described nodes whose network cards are stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fabricast.core.errors import InputError
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.topology.parts import Vertex
from fabricast.pcie.topology.tree import PATH_CLASSES, PcieTree


def card_names(tree: PcieTree) -> tuple[str, ...]:
    """Return the names of the network cards of a tree."""
    return tuple(name for name in tree.endpoint_names if tree.vertex(name).network_card)


def with_cards_placed(tree: PcieTree, count: int) -> PcieTree:
    """Return a tree with a number of network cards: the nearest ones of a description, or assumed ones.

    Cards of a description without any are placed next to one GPU after the other, which is stated as an assumption.
    """
    cards = card_names(tree)
    if len(cards) == count:
        return tree
    if not cards:
        return _with_assumed_cards(tree, count)
    if len(cards) < count:
        raise InputError(f"has {count} cards, expected at most the {len(cards)} of the description", argument="nic")
    kept = _nearest(tree, cards, count)
    vertices = _without_empty([one for one in tree.vertices if not one.network_card or one.name in kept])
    text = f"the description has {len(cards)} network cards: the {count} nearest to GPUs are used ({', '.join(kept)})"
    return replace(tree, vertices=vertices, warnings=(*tree.warnings, CodedWarning(WarningCode.TOPOLOGY_NOTE, text)))


def _nearest(tree: PcieTree, cards: Sequence[str], count: int) -> list[str]:
    """Return the cards that are nearest to some GPU, in their order; of equally near ones evenly spaced ones."""

    def distance(card: str) -> int:
        return min(PATH_CLASSES.index(tree.path_class(gpu, card)) for gpu in tree.accelerator_names)

    chosen: list[str] = []
    for far in range(len(PATH_CLASSES)):
        same = [card for card in cards if distance(card) == far]
        wanted = min(count - len(chosen), len(same))
        chosen += [same[place * len(same) // wanted] for place in range(wanted)]
    return [card for card in cards if card in chosen]


def _without_empty(vertices: Sequence[Vertex]) -> tuple[Vertex, ...]:
    """Return vertices without switches and sockets that have no endpoint below them."""
    above = {one.name: one.parent for one in vertices}
    used: set[str | None] = set()
    for one in vertices:
        name: str | None = one.name if one.kind == "endpoint" else None
        while name is not None and name not in used:
            used.add(name)
            name = above[name]
    return tuple(one for one in vertices if one.name in used)


def _with_assumed_cards(tree: PcieTree, count: int) -> PcieTree:
    gpus = tree.accelerator_names
    added = []
    for card in range(count):
        gpu = gpus[card * len(gpus) // count]
        added.append(Vertex(f"nic{card}", "endpoint", tree.vertex(gpu).parent, network_card=True))
    text = f"no file shows the network cards: {count} next to GPUs are assumed; add 'nvidia-smi topo -m' with its NICs"
    return replace(
        tree,
        vertices=(*tree.vertices, *added),
        warnings=(*tree.warnings, CodedWarning(WarningCode.TOPOLOGY_NOTE, text)),
    )
