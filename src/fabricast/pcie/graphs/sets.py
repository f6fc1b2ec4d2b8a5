"""Sets of congestion graphs: exhaustive, random, validation and stress sets."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

import numpy as np

from fabricast.core.errors import InputError
from fabricast.pcie.graphs.congestion_graphs import Pair, all_to_all, gather, scatter
from fabricast.pcie.graphs.symmetry import PairMasks, count_graphs, subset_orbits
from fabricast.pcie.topology.tree import PcieTree

#: Seed of the validation set, fixed so that the set is reproducible (date of SC16).
VALIDATION_SEED = 20161113


def exhaustive_graphs(tree: PcieTree, endpoints: Sequence[int], *, use_all: bool = True) -> list[list[Pair]]:
    """Return all graphs on a set of endpoints, up to symmetries of the tree.

    Graphs that a symmetry of the tree maps onto each other have equal copy times; the canonical form of each class is
    returned.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> len(exhaustive_graphs(regular_tree("storm8", (2, 2, 2)), (0, 1, 2, 3)))
    535
    """
    masks = PairMasks(tree)
    pairs = all_to_all(endpoints)
    if len(pairs) > 12:
        raise ValueError(f"number of endpoints is {len(endpoints)}, expected at most 4")
    bits = np.array([1 << masks.bit[pair] for pair in pairs], dtype=np.uint64)
    chosen = np.arange(1, 1 << len(pairs), dtype=np.uint64)
    member = (chosen[:, None] >> np.arange(len(pairs), dtype=np.uint64)) & np.uint64(1)
    if use_all:
        touches = np.array([[end in pair for end in endpoints] for pair in pairs], dtype=np.int64)
        member = member[((member.astype(np.int64) @ touches) > 0).all(axis=1)]
    graphs = (member * bits).sum(axis=1, dtype=np.uint64)
    canonical = sorted(set(masks.canonical(graphs.tolist())))
    return [masks.unmask(mask) for mask in canonical]


def random_graphs(tree: PcieTree, count: int, *, seed: int, smallest: int = 5, largest: int = 5) -> list[list[Pair]]:
    """Return distinct random graphs.

    On topologies with at most 8 endpoints the graphs are distinct up to symmetries of the tree, and their canonical
    forms are returned. On larger topologies they differ in their (source, target) pairs.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> [len(pairs) for pairs in random_graphs(regular_tree("quad4", (2, 2)), 2, seed=1)]
    [5, 5]
    """
    return _draw(tree, count, set(), random.Random(seed), smallest, largest)


def _draw(
    tree: PcieTree, count: int, seen: set[tuple[Pair, ...]], generator: random.Random, smallest: int, largest: int
) -> list[list[Pair]]:
    """Draw graphs whose canonical form is not in `seen`, and add them to it."""
    endpoints = range(len(tree.endpoint_names))
    pairs = list(itertools.permutations(endpoints, 2))
    if not 1 <= smallest <= largest <= len(pairs):
        raise InputError(
            f"copies per graph are {smallest} to {largest}, expected 1 to {len(pairs)}, the number of endpoint pairs "
            f"of '{tree.name}'"
        )
    masks = PairMasks(tree) if len(pairs) <= 64 else None
    graphs: list[list[Pair]] = []
    drawn = 0
    while len(graphs) < count and drawn < 100 * count:
        # Batches amortise the overhead of a kernel call, which exceeds the cost of a canonical form.
        batch = []
        for _ in range(min(1024, 2 * (count - len(graphs)))):
            drawn += 1
            size = smallest if smallest == largest else generator.randint(smallest, largest)
            batch.append(generator.sample(pairs, size))
        if masks is None:
            keys = [sorted(graph) for graph in batch]
        else:
            keys = [masks.unmask(mask) for mask in masks.canonical([masks.mask(g) for g in batch])]
        for key in keys:
            if tuple(key) not in seen and len(graphs) < count:
                seen.add(tuple(key))
                graphs.append(key)
    if len(graphs) == count:
        return graphs
    raise InputError(f"only {len(graphs)} distinct graphs were drawn on '{tree.name}', expected {count}")


#: Number of endpoints up to which all graphs are in a validation set.
_EXHAUSTIVE_ENDPOINTS = 4


def validation_set(tree: PcieTree, count: int, *, seed: int = VALIDATION_SEED) -> list[tuple[str, list[Pair]]]:
    """Return the validation graphs, which are distinct up to symmetries of the tree.

    The set contains all graphs on 2 to 4 endpoints that use each of these endpoints, all scatters, gathers and
    all-to-alls, all graphs of at most 4 copies, and random graphs up to `count`. Random graphs have 5 copies. If fewer
    than twice the required number of such graphs exist, they have more copies (6 on flat4x2).

    Martinasso et al., SC16: 22,259 graphs with about 100,000 communications in total. The composition of that set is
    not published; this set has the same number of graphs and a different composition. We read "non-isomorphic" as not
    equal under a symmetry of the tree, since places in the tree decide about shared links. As plain directed graphs,
    605 of the 22,259 graphs on storm8 are different.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = validation_set(storm8, 22259)
    >>> len(graphs), sum(len(pairs) for _, pairs in graphs)
    (22259, 112802)
    """
    masks = PairMasks(tree)
    endpoints = range(len(tree.endpoint_names))
    seen: set[tuple[Pair, ...]] = set()
    result: list[tuple[str, list[Pair]]] = []

    def add(family: str, graphs: Iterable[list[Pair]]) -> None:
        for pairs in graphs:
            if tuple(pairs) not in seen:
                seen.add(tuple(pairs))
                result.append((family, pairs))

    for size in range(2, min(_EXHAUSTIVE_ENDPOINTS, len(endpoints)) + 1):
        for subset in subset_orbits(tree, size):
            add("exhaustive", exhaustive_graphs(tree, subset))
    for size in range(2, len(endpoints) + 1):
        subsets = list(itertools.combinations(endpoints, size))
        patterns = {
            "scatter": [scatter(root, subset) for subset in subsets for root in subset],
            "gather": [gather(root, subset) for subset in subsets for root in subset],
            "all_to_all": [all_to_all(subset) for subset in subsets],
        }
        for family, graphs in patterns.items():
            canonical = sorted(set(masks.canonical([masks.mask(pairs) for pairs in graphs])))
            add(family, map(masks.unmask, canonical))
    add("exhaustive", _small_graphs(masks, 4))
    if count < len(result):
        kept = np.unique(np.linspace(0, len(result) - 1, count).astype(int))
        return [result[i] for i in kept]
    if len(endpoints) <= _EXHAUSTIVE_ENDPOINTS:
        # These are all graphs of the tree.
        return result
    missing = count - len(result)
    size = 5
    while size < len(masks.pairs) // 2 and count_graphs(tree, size) < 2 * missing:
        size += 1
    add("random", _draw(tree, missing, set(seen), random.Random(seed), size, size))
    return result


def _small_graphs(masks: PairMasks, largest: int) -> Iterable[list[Pair]]:
    """Yield the canonical forms of all graphs of up to `largest` copies."""
    # Each level adds one pair to every graph of the previous level.
    level = [0]
    for _ in range(largest):
        grown = {mask | 1 << bit for mask in level for bit in range(len(masks.pairs)) if not mask >> bit & 1}
        level = sorted(set(masks.canonical(sorted(grown))))
        yield from map(masks.unmask, level)


def stress_set(tree: PcieTree, count: int = 2000, *, seed: int = VALIDATION_SEED + 1) -> list[tuple[str, list[Pair]]]:
    """Return the stress set: random graphs of 6 to 16 copies, of fewer if the topology has fewer pairs."""
    endpoints = len(tree.endpoint_names)
    largest = min(16, endpoints * (endpoints - 1))
    pairs_of_graphs = random_graphs(tree, count, seed=seed, smallest=min(6, largest), largest=largest)
    return [("random", pairs) for pairs in pairs_of_graphs]
