"""Congestion graphs: families, exhaustive and random sets, canonical forms, user CSV."""

from __future__ import annotations

import io
import itertools
import random
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.csv_files import MOST_ROWS, CsvRow, read_csv
from fabricast.errors import InputError
from fabricast.files import read_text
from fabricast.pcie.tree import PcieTree

__all__ = [
    "CongestionGraphs",
    "all_to_all",
    "canonical_form",
    "canonical_forms",
    "count_graphs",
    "exhaustive_graphs",
    "from_arcs",
    "gather",
    "random_graphs",
    "read_ends",
    "read_graphs",
    "scatter",
    "stress_set",
    "subset_orbits",
    "validation_set",
]

Arc = tuple[int, int]
#: The seed that studies/pcie.md fixes for the validation set: the month of SC16.
VALIDATION_SEED = 20161113
#: What a communication can be: beyond this, times lose their meaning or their digits.
SMALLEST_BYTES, LARGEST_BYTES = 1e-3, 1e15
LATEST_START_S = 1e6


@dataclass(frozen=True)
class CongestionGraphs:
    """A set of congestion graphs on one topology, as arrays.

    Parameters
    ----------
    names : tuple of str
        Name of each graph.
    families : tuple of str
        Family of each graph.
    offset : ndarray of int64, shape (graphs + 1,)
        Where each graph starts in the arrays of communications.
    source, target : ndarray of int64, shape (communications,)
        Endpoint numbers.
    size_bytes, start_s : ndarray of float64, shape (communications,)
        Size and start of each communication.
    """

    names: tuple[str, ...]
    families: tuple[str, ...]
    offset: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    size_bytes: NDArray[np.float64]
    start_s: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def graph_of_communication(self) -> NDArray[np.int64]:
        """Number of the graph that each communication belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.offset))

    @property
    def number_in_graph(self) -> NDArray[np.int64]:
        """Number of each communication within its graph, from 0."""
        lengths = np.diff(self.offset)
        return np.arange(self.source.size) - np.repeat(self.offset[:-1], lengths)

    def rows_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the communications of some graphs, in the order in which the graphs are named."""
        lengths = np.diff(self.offset)[numbers]
        begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        rows: NDArray[np.int64] = np.arange(lengths.sum()) + np.repeat(self.offset[:-1][numbers] - begins, lengths)
        return rows

    def chosen(self, numbers: NDArray[np.int64]) -> CongestionGraphs:
        """Return some of the graphs, in the order in which they are named."""
        rows = self.rows_of(numbers)
        return CongestionGraphs(
            names=tuple(self.names[number] for number in numbers),
            families=tuple(self.families[number] for number in numbers),
            offset=np.concatenate([[0], np.cumsum(np.diff(self.offset)[numbers])]).astype(np.int64),
            source=self.source[rows],
            target=self.target[rows],
            size_bytes=self.size_bytes[rows],
            start_s=self.start_s[rows],
        )

    def arcs(self, graph: int) -> list[Arc]:
        """Return the (source, target) pairs of graph number `graph`."""
        part = slice(int(self.offset[graph]), int(self.offset[graph + 1]))
        return list(zip(self.source[part].tolist(), self.target[part].tolist(), strict=True))


def from_arcs(
    graphs: Sequence[Sequence[Arc]],
    *,
    size_bytes: float,
    names: Sequence[str] | None = None,
    families: Sequence[str] | None = None,
) -> CongestionGraphs:
    """Build a set of graphs whose communications start together with equal sizes.

    Parameters
    ----------
    graphs : sequence of sequence of (int, int)
        (source, target) pairs of each graph.
    size_bytes : float
        Size of every communication.
    names, families : sequence of str, optional
        One per graph; numbers and ``"user"`` if left out.

    Returns
    -------
    CongestionGraphs
        The set.

    Examples
    --------
    >>> graphs = from_arcs([[(0, 1)], [(0, 2), (1, 2)]], size_bytes=1e6)
    >>> len(graphs), graphs.source.size
    (2, 3)
    """
    lengths = [len(arcs) for arcs in graphs]
    pairs = np.array(list(itertools.chain.from_iterable(graphs)), dtype=np.int64).reshape(-1, 2)
    return CongestionGraphs(
        names=tuple(names) if names is not None else tuple(str(i) for i in range(len(graphs))),
        families=tuple(families) if families is not None else ("user",) * len(graphs),
        offset=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        source=pairs[:, 0].copy(),
        target=pairs[:, 1].copy(),
        size_bytes=np.full(len(pairs), size_bytes, dtype=np.float64),
        start_s=np.zeros(len(pairs), dtype=np.float64),
    )


def scatter(root: int, others: Iterable[int]) -> list[Arc]:
    """Return one copy from `root` to each of `others`.

    Examples
    --------
    >>> scatter(0, [1, 2])
    [(0, 1), (0, 2)]
    """
    return [(root, other) for other in others if other != root]


def gather(root: int, others: Iterable[int]) -> list[Arc]:
    """Return one copy to `root` from each of `others`.

    Examples
    --------
    >>> gather(0, [1, 2])
    [(1, 0), (2, 0)]
    """
    return [(other, root) for other in others if other != root]


def all_to_all(members: Iterable[int]) -> list[Arc]:
    """Return one copy between each ordered pair of `members`.

    Examples
    --------
    >>> all_to_all([0, 1])
    [(0, 1), (1, 0)]
    """
    return list(itertools.permutations(members, 2))


class _ArcMasks:
    """Arc sets as bit masks of at most 64 arcs, and their canonical form."""

    def __init__(self, tree: PcieTree) -> None:
        endpoints = len(tree.endpoint_names)
        self.arcs = [(s, t) for s in range(endpoints) for t in range(endpoints) if s != t]
        if len(self.arcs) > 64:
            raise InputError(
                f"topology '{tree.name}' has {endpoints} endpoints; canonical forms are computed for at most 8"
            )
        self.bit = {arc: bit for bit, arc in enumerate(self.arcs)}
        self.images = np.array(
            [[self.bit[int(image[s]), int(image[t])] for s, t in self.arcs] for image in tree.automorphisms],
            dtype=np.int64,
        )

    def mask(self, arcs: Iterable[Arc]) -> int:
        return sum(1 << self.bit[arc] for arc in arcs)

    def unmask(self, mask: int) -> list[Arc]:
        return [arc for bit, arc in enumerate(self.arcs) if mask >> bit & 1]

    def canonical(self, masks: Sequence[int]) -> list[int]:
        from fabricast.pcie.kernels import canonical_masks

        result: list[int] = canonical_masks(np.array(masks, dtype=np.uint64), self.images).tolist()
        return result


def canonical_forms(tree: PcieTree, graphs: Sequence[Iterable[Arc]]) -> list[list[Arc]]:
    """Return the representatives of many graphs at once, as `canonical_form` does for one.

    Parameters
    ----------
    tree : PcieTree
        Topology of at most 8 endpoints.
    graphs : sequence of iterables of (int, int)
        Distinct (source, target) pairs of each graph.

    Returns
    -------
    list of list of (int, int)
        The smallest image of each.
    """
    masks = _ArcMasks(tree)
    return [masks.unmask(mask) for mask in masks.canonical([masks.mask(arcs) for arcs in graphs])]


def canonical_form(tree: PcieTree, arcs: Iterable[Arc]) -> list[Arc]:
    """Return the representative of a graph under the tree's leaf symmetries.

    Parameters
    ----------
    tree : PcieTree
        Topology of at most 8 endpoints.
    arcs : iterable of (int, int)
        Distinct (source, target) pairs.

    Returns
    -------
    list of (int, int)
        The smallest image, equal for all graphs that the tree cannot tell apart.

    Raises
    ------
    InputError
        If the topology has more than 8 endpoints.

    Examples
    --------
    >>> from fabricast.pcie.tree import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> canonical_form(storm8, [(6, 7)]) == canonical_form(storm8, [(1, 0)])
    True
    """
    return canonical_forms(tree, [arcs])[0]


def subset_orbits(tree: PcieTree, size: int) -> list[tuple[int, ...]]:
    """Return one endpoint subset of each kind that the tree can tell apart.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    size : int
        Number of endpoints in the subset.

    Returns
    -------
    list of tuple of int
        The smallest subset of each orbit of the leaf symmetries, in order.

    Examples
    --------
    >>> from fabricast.pcie.tree import regular_tree
    >>> subset_orbits(regular_tree("storm8", (2, 2, 2)), 2)
    [(0, 1), (0, 2), (0, 4)]
    """
    images = tree.automorphisms
    seen: set[tuple[int, ...]] = set()
    orbits = []
    for subset in itertools.combinations(range(len(tree.endpoint_names)), size):
        if subset not in seen:
            orbits.append(subset)
            moved = np.sort(images[:, list(subset)], axis=1)
            seen.update(map(tuple, np.unique(moved, axis=0).tolist()))
    return orbits


def count_graphs(tree: PcieTree, communications: int) -> int:
    """Return how many graphs of a size there are up to the tree's symmetry.

    Parameters
    ----------
    tree : PcieTree
        Topology of at most 8 endpoints.
    communications : int
        Number of distinct (source, target) pairs in a graph.

    Returns
    -------
    int
        Number of orbits, by Burnside's lemma over the leaf symmetries.

    Examples
    --------
    >>> from fabricast.pcie.tree import regular_tree
    >>> [count_graphs(regular_tree("storm8", (2, 2, 2)), k) for k in range(1, 7)]
    [3, 43, 406, 4187, 36772, 287470]
    """
    images = _ArcMasks(tree).images
    fixed = 0
    for cycles, symmetries in _cycle_types(images).items():
        polynomial = [1] + [0] * communications
        for length in cycles:
            for power in range(communications, length - 1, -1):
                polynomial[power] += polynomial[power - length]
        fixed += symmetries * polynomial[communications]
    return fixed // len(images)


def _cycle_types(images: NDArray[np.int64]) -> Counter[tuple[int, ...]]:
    """Count the symmetries of each cycle type."""
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
    >>> from fabricast.pcie.tree import regular_tree
    >>> len(exhaustive_graphs(regular_tree("storm8", (2, 2, 2)), (0, 1, 2, 3)))
    535
    """
    masks = _ArcMasks(tree)
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
    >>> from fabricast.pcie.tree import regular_tree
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
    masks = _ArcMasks(tree) if len(arcs) <= 64 else None
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
    >>> from fabricast.pcie.tree import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = validation_set(storm8, 22259)
    >>> len(graphs), sum(len(arcs) for _, arcs in graphs)
    (22259, 112802)
    """
    masks = _ArcMasks(tree)
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


def _small_graphs(masks: _ArcMasks, largest: int) -> Iterable[list[Arc]]:
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


_REQUIRED = ("graph", "source", "target")
_OPTIONAL = ("size_bytes", "start_s")


def read_graphs(path: Path | str, tree: PcieTree, *, size_bytes: float) -> CongestionGraphs:
    """Read congestion graphs from a CSV file.

    Parameters
    ----------
    path : Path or str
        File with the columns ``graph,source,target`` and optionally ``size_bytes,start_s``.
    tree : PcieTree
        Topology whose endpoint names the file uses.
    size_bytes : float
        Size where the file has no column ``size_bytes``.

    Returns
    -------
    CongestionGraphs
        Graphs in order of their first row; communications of a graph in file order.

    Raises
    ------
    InputError
        On the first row that is wrong, with file, line, what was found and what was expected.
    """
    text = read_text(path, strict=True)
    # A file without a flaw is read as columns; row by row only to name the first one that is wrong.
    return _read_columns(text, tree, size_bytes) or _read_rows(path, text, tree, size_bytes)


def _read_columns(text: str, tree: PcieTree, size_bytes: float) -> CongestionGraphs | None:
    """Read graphs as columns; None where anything is unusual."""
    header = text.partition("\n")[0].strip().split(",")
    if len(set(header)) != len(header) or not set(_REQUIRED) <= set(header) <= {*_REQUIRED, *_OPTIONAL} or "#" in text:
        return None
    if text.count("\n") > MOST_ROWS:
        return None
    kinds: dict[Hashable, Any] = dict.fromkeys(_REQUIRED, str) | dict.fromkeys(_OPTIONAL, np.float64)
    try:
        table = pd.read_csv(
            io.StringIO(text), dtype={name: kinds[name] for name in header}, keep_default_na=False, na_values=[],
            index_col=False, on_bad_lines="error", float_precision="round_trip",
        )  # fmt: skip
    except (ValueError, pd.errors.ParserError, pd.errors.ParserWarning):
        return None
    if table.empty or table[list(_REQUIRED)].isna().any().any():
        return None
    codes, names = pd.factorize(table["graph"])
    graph_names = [str(name) for name in names]
    if any(not name or name != name.strip() for name in graph_names):
        return None
    ends = []
    for column in ("source", "target"):
        places, texts = pd.factorize(table[column])
        numbers = [tree.endpoint_number.get(str(text).strip(), -1) for text in texts]
        if min(numbers) < 0:
            return None
        ends.append(np.array(numbers, dtype=np.int64)[places])
    source, target = ends
    size = table["size_bytes"].to_numpy() if "size_bytes" in table else np.full(len(table), float(size_bytes))
    start = table["start_s"].to_numpy() if "start_s" in table else np.zeros(len(table))
    in_range = (size >= SMALLEST_BYTES) & (size <= LARGEST_BYTES) & (start >= 0) & (start <= LATEST_START_S)
    if (source == target).any() or not in_range.all():
        return None
    # Graphs in order of their first row, communications of a graph in file order.
    order = np.argsort(codes, kind="stable")
    return CongestionGraphs(
        names=tuple(graph_names),
        families=("user",) * len(graph_names),
        offset=np.concatenate([[0], np.cumsum(np.bincount(codes))]).astype(np.int64),
        source=source[order],
        target=target[order],
        size_bytes=size[order].astype(np.float64),
        start_s=start[order].astype(np.float64),
    )


def _read_rows(path: Path | str, text: str, tree: PcieTree, size_bytes: float) -> CongestionGraphs:
    rows: dict[str, list[tuple[int, int, float, float]]] = {}
    for row in read_csv(path, _REQUIRED, _OPTIONAL, text=text):
        if not row["graph"]:
            raise row.error("graph is empty, expected a name")
        source, target, size = read_ends(row, tree, size_bytes=size_bytes)
        start = row.number("start_s", default=0.0)
        if not 0 <= start <= LATEST_START_S:
            raise row.error(
                f"start_s is {start:g}, expected 0 or more and at most {LATEST_START_S:,.0f}: times count from the "
                "start of the graph"
            )
        rows.setdefault(row["graph"], []).append((source, target, size, start))
    flat = list(itertools.chain.from_iterable(rows.values()))
    table = np.array(flat, dtype=np.float64)
    return CongestionGraphs(
        names=tuple(rows),
        families=("user",) * len(rows),
        offset=np.concatenate([[0], np.cumsum([len(part) for part in rows.values()])]).astype(np.int64),
        source=table[:, 0].astype(np.int64),
        target=table[:, 1].astype(np.int64),
        size_bytes=table[:, 2].copy(),
        start_s=table[:, 3].copy(),
    )


def read_ends(row: CsvRow, tree: PcieTree, *, size_bytes: float) -> tuple[int, int, float]:
    """Read one communication from a row with the columns source, target and, if wanted, size_bytes.

    Parameters
    ----------
    row : CsvRow
        The row.
    tree : PcieTree
        Topology whose endpoint names the file uses.
    size_bytes : float
        Size where the file has no column ``size_bytes``.

    Returns
    -------
    tuple of (int, int, float)
        Source, target and size in bytes.

    Raises
    ------
    InputError
        If an end is unknown, both are the same, or the size is out of range.
    """
    ends = []
    for column in ("source", "target"):
        number = tree.endpoint_number.get(row[column])
        if number is None:
            known = tree.endpoint_names
            shown = ", ".join(known[:16]) + (", ..." if len(known) > 16 else "")
            raise row.error(f"{column} is '{row[column]}', expected an endpoint of {tree.name}: {shown}")
        ends.append(number)
    if ends[0] == ends[1]:
        raise row.error(f"source and target are both '{row['source']}', expected two endpoints")
    size = row.number("size_bytes") if "size_bytes" in row else size_bytes
    if not SMALLEST_BYTES <= size <= LARGEST_BYTES:
        raise row.error(
            f"size_bytes is {size:g}, expected a positive number from {SMALLEST_BYTES:g} to {LARGEST_BYTES:g}"
        )
    return ends[0], ends[1], size
