"""Canonical forms, orbits and counts of congestion graphs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.pcie.graphs.congestion_graphs import Pair
from fabricast.pcie.topology.symmetry import automorphisms
from fabricast.pcie.topology.tree import PcieTree


class PairMasks:
    """Bit-mask representation of pair sets, and their canonical forms.

    Bit ``b`` of a mask represents the pair ``pairs[b]``. Masks have 64 bits, enough for all pairs among 8 endpoints.

    Arguments: tree: topology with at most 8 endpoints.
    """

    def __init__(self, tree: PcieTree) -> None:
        endpoints = len(tree.endpoint_names)
        self.pairs = [(s, t) for s in range(endpoints) for t in range(endpoints) if s != t]
        if len(self.pairs) > 64:
            raise InputError(
                f"topology '{tree.name}' has {endpoints} endpoints, expected at most 8 to compute canonical forms"
            )
        self.bit = {pair: bit for bit, pair in enumerate(self.pairs)}
        self.images = np.array(
            [[self.bit[int(image[s]), int(image[t])] for s, t in self.pairs] for image in automorphisms(tree)],
            dtype=np.int64,
        )

    def mask(self, pairs: Iterable[Pair]) -> int:
        """Return the bit mask of pairs."""
        return sum(1 << self.bit[pair] for pair in pairs)

    def unmask(self, mask: int) -> list[Pair]:
        """Return the pairs of a bit mask."""
        return [pair for bit, pair in enumerate(self.pairs) if mask >> bit & 1]

    def canonical(self, masks: Sequence[int]) -> list[int]:
        """Return the smallest image of each mask under all symmetries of the tree."""
        from fabricast.pcie.graphs.kernels.canonical import canonical_masks

        result: list[int] = canonical_masks(np.array(masks, dtype=np.uint64), self.images).tolist()
        return result


def canonical_forms(tree: PcieTree, graphs: Sequence[Iterable[Pair]]) -> list[list[Pair]]:
    """Return the canonical forms of several graphs; see `canonical_form`."""
    masks = PairMasks(tree)
    return [masks.unmask(mask) for mask in masks.canonical([masks.mask(pairs) for pairs in graphs])]


def canonical_form(tree: PcieTree, pairs: Iterable[Pair]) -> list[Pair]:
    """Return the canonical form of a graph under the symmetries of a tree.

    Two graphs have the same canonical form if and only if a permutation of the endpoints that preserves the tree maps
    one onto the other. Their copy times are then equal, too.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> canonical_form(storm8, [(6, 7)]) == canonical_form(storm8, [(1, 0)])
    True
    """
    return canonical_forms(tree, [pairs])[0]


def subset_orbits(tree: PcieTree, size: int) -> list[tuple[int, ...]]:
    """Return one representative of each orbit of endpoint subsets.

    Two subsets are in one orbit if a symmetry of the tree maps one onto the other.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> subset_orbits(regular_tree("storm8", (2, 2, 2)), 2)
    [(0, 1), (0, 2), (0, 4)]
    """
    images = automorphisms(tree)
    seen: set[tuple[int, ...]] = set()
    orbits = []
    for subset in itertools.combinations(range(len(tree.endpoint_names)), size):
        if subset not in seen:
            orbits.append(subset)
            moved = np.sort(images[:, list(subset)], axis=1)
            seen.update(map(tuple, np.unique(moved, axis=0).tolist()))
    return orbits


def count_graphs(tree: PcieTree, communications: int) -> int:
    """Return the number of graphs of one size, up to symmetries of the tree.

    Graphs are counted by Burnside's lemma: the number of orbits is the mean number of graphs that a symmetry leaves
    unchanged.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> [count_graphs(regular_tree("storm8", (2, 2, 2)), k) for k in range(1, 7)]
    [3, 43, 406, 4187, 36772, 287470]
    """
    images = PairMasks(tree).images
    fixed = 0
    for cycles, symmetries in _cycle_types(images).items():
        # A graph is unchanged if it is a union of cycles: coefficient k of prod(1 + x**length) counts those of size k.
        polynomial = [1] + [0] * communications
        for length in cycles:
            for power in range(communications, length - 1, -1):
                polynomial[power] += polynomial[power - length]
        fixed += symmetries * polynomial[communications]
    return fixed // len(images)


def _cycle_types(images: NDArray[np.int64]) -> Counter[tuple[int, ...]]:
    """Count the symmetries of each cycle type (sorted cycle lengths)."""
    types: Counter[tuple[int, ...]] = Counter()
    for image in images.tolist():
        lengths, seen = [], set()
        for start in range(len(image)):
            length, bit = 0, start
            while bit not in seen:
                seen.add(bit)
                bit = image[bit]
                length += 1
            if length:
                lengths.append(length)
        types[tuple(sorted(lengths))] += 1
    return types
