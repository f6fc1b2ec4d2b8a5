"""Sets of congestion graphs: exhaustive, random, validation and stress sets."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

import numpy as np

from fabricast.core.errors import InputError
from fabricast.pcie.graphs.congestion_graphs import Arc, all_to_all, gather, scatter
from fabricast.pcie.graphs.symmetry import ArcMasks, count_graphs, subset_orbits
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["exhaustive_graphs", "random_graphs", "stress_set", "validation_set"]

#: The seed that studies/pcie.md fixes for the validation set: the month of SC16.
VALIDATION_SEED = 20161113


def exhaustive_graphs(tree: PcieTree, endpoints: Sequence[int], *, use_all: bool = True) -> list[list[Arc]]:
    """Return every graph among some endpoints, up to the tree's symmetry.

    Parameters
    ----------
    tree : PcieTree
        Topology of at most 8 endpoints.
    endpoints : sequence of int
        At most 4 endpoint numbers (5 already have over a million arc sets).
    use_all : bool, default True
        Keep only graphs in which each of `endpoints` sends or receives.

    Returns
    -------
    list of list of (int, int)
        Canonical graphs in order of their canonical form.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> len(exhaustive_graphs(regular_tree("storm8", (2, 2, 2)), (0, 1, 2, 3)))
    535
    """
    masks = ArcMasks(tree)
    arcs = all_to_all(endpoints)
    if len(arcs) > 12:
        raise ValueError(f"{len(endpoints)} endpoints given, expected at most 4")
    bits = np.array([1 << masks.bit[arc] for arc in arcs], dtype=np.uint64)
    chosen = np.arange(1, 1 << len(arcs), dtype=np.uint64)
    member = (chosen[:, None] >> np.arange(len(arcs), dtype=np.uint64)) & np.uint64(1)
    if use_all:
        touches = np.array([[end in arc for end in endpoints] for arc in arcs], dtype=np.int64)
        member = member[((member.astype(np.int64) @ touches) > 0).all(axis=1)]
    graphs = (member * bits).sum(axis=1, dtype=np.uint64)
    canonical = sorted(set(masks.canonical(graphs.tolist())))
    return [masks.unmask(mask) for mask in canonical]


def random_graphs(tree: PcieTree, count: int, *, seed: int, smallest: int = 5, largest: int = 5) -> list[list[Arc]]:
    """Return distinct random graphs, up to the tree's symmetry where it is computed.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    count : int
        Number of graphs.
    seed : int
        Seed of the sampling.
    smallest, largest : int, default 5
        Range of the number of communications, drawn uniformly.

    Returns
    -------
    list of list of (int, int)
        The graphs in the order in which they were drawn.

    Raises
    ------
    InputError
        If so many distinct graphs are not found in 100 draws for each.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> [len(arcs) for arcs in random_graphs(regular_tree("quad4", (2, 2)), 2, seed=1)]
    [5, 5]
    """
    return _draw(tree, count, set(), random.Random(seed), smallest, largest)


def _draw(
    tree: PcieTree,
    count: int,
    seen: set[tuple[Arc, ...]],
    generator: random.Random,
    smallest: int,
    largest: int,
) -> list[list[Arc]]:
    """Draw graphs whose canonical form is not in `seen`, and add them to it."""
    endpoints = range(len(tree.endpoint_names))
    arcs = list(itertools.permutations(endpoints, 2))
    if not 1 <= smallest <= largest <= len(arcs):
        raise InputError(
            f"graphs of {smallest} to {largest} communications asked for on '{tree.name}', "
            f"which has {len(arcs)} endpoint pairs"
        )
    masks = ArcMasks(tree) if len(arcs) <= 64 else None
    found: list[list[Arc]] = []
    drawn = 0
    while len(found) < count and drawn < 100 * count:
        # Drawn in batches: a canonical form is cheap, calling the kernel is not.
        batch = []
        for _ in range(min(1024, 2 * (count - len(found)))):
            drawn += 1
            size = smallest if smallest == largest else generator.randint(smallest, largest)
            batch.append(generator.sample(arcs, size))
        if masks is None:
            keys = [sorted(graph) for graph in batch]
        else:
            keys = [masks.unmask(mask) for mask in masks.canonical([masks.mask(g) for g in batch])]
        for key in keys:
            if tuple(key) not in seen and len(found) < count:
                seen.add(tuple(key))
                found.append(key)
    if len(found) == count:
        return found
    raise InputError(f"only {len(found)} distinct graphs found on '{tree.name}', asked for {count}")


def validation_set(tree: PcieTree, count: int, *, seed: int = VALIDATION_SEED) -> list[tuple[str, list[Arc]]]:
    """Return the validation graphs, told apart by position in the tree.

    The set holds every graph that uses all of 2, 3 or 4 endpoints, all scatters,
    gathers and all-to-alls, all graphs of at most 4 communications, and random graphs
    up to `count`. Random graphs have 5 communications, or as many more as it takes for
    at least twice the wanted number of them to exist (6 on flat4x2).

    Parameters
    ----------
    tree : PcieTree
        Topology of at most 8 endpoints.
    count : int
        Number of graphs. A smaller number than the systematic families hold keeps an
        evenly spaced part of them.
    seed : int, default 20161113
        Seed of the random graphs.

    Returns
    -------
    list of (str, list of (int, int))
        Family and arcs of each graph; the family is the first that holds it.

    References
    ----------
    Martinasso et al., SC16: 22,259 graphs of about 100,000 communications. Which they
    were is not published; this set has the same size and its own composition.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = validation_set(storm8, 22259)
    >>> len(graphs), sum(len(arcs) for _, arcs in graphs)
    (22259, 112802)
    """
    masks = ArcMasks(tree)
    endpoints = range(len(tree.endpoint_names))
    seen: set[tuple[Arc, ...]] = set()
    result: list[tuple[str, list[Arc]]] = []

    def add(family: str, graphs: Iterable[list[Arc]]) -> None:
        for arcs in graphs:
            if tuple(arcs) not in seen:
                seen.add(tuple(arcs))
                result.append((family, arcs))

    for size in range(2, min(4, len(endpoints)) + 1):
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
            found = sorted(set(masks.canonical([masks.mask(arcs) for arcs in graphs])))
            add(family, map(masks.unmask, found))
    add("exhaustive", _small_graphs(masks, 4))
    if count < len(result):
        kept = np.unique(np.linspace(0, len(result) - 1, count).astype(int))
        return [result[i] for i in kept]
    missing = count - len(result)
    size = 5
    while size < len(masks.arcs) // 2 and count_graphs(tree, size) < 2 * missing:
        size += 1
    add("random", _draw(tree, missing, set(seen), random.Random(seed), size, size))
    return result


def _small_graphs(masks: ArcMasks, largest: int) -> Iterable[list[Arc]]:
    """Yield all graphs of up to `largest` communications, grown one arc at a time."""
    level = [0]
    for _ in range(largest):
        grown = {mask | 1 << bit for mask in level for bit in range(len(masks.arcs)) if not mask >> bit & 1}
        level = sorted(set(masks.canonical(sorted(grown))))
        yield from map(masks.unmask, level)


def stress_set(tree: PcieTree, count: int = 2000, *, seed: int = VALIDATION_SEED + 1) -> list[tuple[str, list[Arc]]]:
    """Return random graphs of 6 to 16 communications, which the validation set lacks.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    count : int, default 2000
        Number of graphs.
    seed : int, default 20161114
        Seed of the sampling.

    Returns
    -------
    list of (str, list of (int, int))
        Family and arcs of each graph.
    """
    return [("random", arcs) for arcs in random_graphs(tree, count, seed=seed, smallest=6, largest=16)]
