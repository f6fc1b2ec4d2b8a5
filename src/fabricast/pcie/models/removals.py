"""Copies that limit another copy, determined by evaluating each graph again without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.topology.tree import PcieTree

#: Maximum number of copies of a graph that is evaluated again: the work grows with the cube of this number.
MOST_IN_GRAPH = 256
#: The same for programs with a random order, which are evaluated with many draws.
MOST_OF_RANDOM = 64
#: Relative change of a time that counts as a change.
_SAME = 1e-9
#: Maximum number of copies that are evaluated at once: bounds the memory.
_ROWS_AT_ONCE = 2_000_000

Times = Callable[[CongestionGraphs], NDArray[np.float64]]


@dataclass(frozen=True)
class Removals:
    """Copies that limit each copy."""

    #: Numbers, within their graph, of the copies whose removal shortens the copy, largest effect first. If no single
    #: removal shortens it, the members of `joint` limit it together.
    limited_by: tuple[tuple[int, ...], ...]
    #: Set, without dispensable members, whose removal shortens a copy that no single removal shortens; or empty.
    joint: tuple[tuple[int, ...], ...]
    #: Elapsed time of the copy without the first of `limited_by`, or without `joint`, in s; NaN if no copy limits it,
    #: shape (copies,).
    elapsed_without_s: NDArray[np.float64]


def removals(
    graphs: CongestionGraphs,
    elapsed_s: NDArray[np.float64],
    slow: NDArray[np.bool_],
    times: Times,
    tolerance: float = _SAME,
    most_copies: int | NDArray[np.int64] = MOST_IN_GRAPH,
) -> Removals:
    """Determine the copies that limit each slow copy.

    Each graph is evaluated again without each of its copies. For a slow copy that no single removal shortens, copies
    are removed together: all others first, and then each is restored if the copy stays shorter without it.

    Shapes: elapsed_s (copies,); slow (copies,).

    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.models.catalogue import MODELS
    >>> from fabricast.pcie.models.evaluation import evaluate
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree, graphs = regular_tree("four", (4,)), from_pairs([[(0, 1), (2, 1), (3, 2)]], size_bytes=1.0)
    >>> def times(graphs):
    ...     return evaluate(tree, graphs, MODELS["max_min"], bandwidth_bytes_per_s=1.0, tau=0.0).end_s
    >>> found = removals(graphs, times(graphs), np.array([True, True, False]), times)
    >>> found.limited_by, found.elapsed_without_s.tolist()
    (((1,), (0,), ()), [1.0, 1.0, nan])
    """
    copies = np.diff(graphs.offset)
    slow = slow & (copies <= most_copies)[graphs.graph_of_communication]
    limited_by: list[tuple[int, ...]] = [()] * slow.size
    joint: list[tuple[int, ...]] = [()] * slow.size
    without_s = np.full(slow.size, np.nan)
    some = np.unique(graphs.graph_of_communication[slow])
    blocks = np.cumsum(copies[some] ** 2) // _ROWS_AT_ONCE
    for block in np.unique(blocks):
        for graph, matrix in _single_removals(graphs, some[blocks == block], times):
            first = int(graphs.offset[graph])
            for copy in np.flatnonzero(slow[first : first + len(matrix)]).tolist():
                order = np.argsort(matrix[:, copy], kind="stable")
                helpful = order[matrix[order, copy] < elapsed_s[first + copy] * (1 - tolerance)]
                if helpful.size:
                    limited_by[first + copy] = tuple(helpful.tolist())
                    without_s[first + copy] = matrix[helpful[0], copy]
    for row in np.flatnonzero(slow & np.isnan(without_s)).tolist():
        joint[row], without_s[row] = _joint_removal(graphs, row, elapsed_s[row] * (1 - tolerance), times)
    return Removals(tuple(limited_by), tuple(joint), without_s)


def _single_removals(
    graphs: CongestionGraphs, numbers: NDArray[np.int64], times: Times
) -> list[tuple[int, NDArray[np.float64]]]:
    """Return for each graph the time of each copy (column) without each copy (row); infinite on the diagonal."""
    copies = np.diff(graphs.offset)[numbers]
    shorter = np.repeat(copies - 1, copies)
    removed = np.concatenate([np.arange(count) for count in copies])
    first = np.repeat(graphs.offset[numbers], copies)
    begin = np.concatenate([[0], np.cumsum(shorter)])
    place = np.arange(begin[-1]) - np.repeat(begin[:-1], shorter)
    kept = place + (place >= np.repeat(removed, shorter))
    found_s = times(_part(graphs, np.repeat(numbers, copies), np.repeat(first, shorter) + kept, begin))
    result, start = [], 0
    for graph, count in zip(numbers.tolist(), copies.tolist(), strict=True):
        matrix = np.full((count, count), np.inf)
        matrix[~np.eye(count, dtype=bool)] = found_s[start : start + count * (count - 1)]
        start += count * (count - 1)
        result.append((graph, matrix))
    return result


def _joint_removal(graphs: CongestionGraphs, row: int, below_s: float, times: Times) -> tuple[tuple[int, ...], float]:
    """Return a minimal set of copies without which a copy lasts less than `below_s`, and its time without them."""
    graph = int(np.searchsorted(graphs.offset, row, side="right")) - 1
    first, last = (int(place) for place in graphs.offset[graph : graph + 2])

    def time_without(removed: list[int]) -> float:
        kept = np.array([place for place in range(first, last) if place not in removed])
        alone = times(_part(graphs, np.array([graph]), kept, np.array([0, kept.size])))
        return float(alone[np.flatnonzero(kept == row)[0]])

    removed = [place for place in range(first, last) if place != row]
    time_s = time_without(removed) if removed else np.inf
    if not time_s < below_s:
        return (), np.nan
    # Most copies are dispensable: restore halves first, then smaller and smaller blocks, at last single copies.
    size = (len(removed) + 1) // 2
    while len(removed) > 1:
        for block in [removed[start : start + size] for start in range(0, len(removed), size)]:
            fewer = [place for place in removed if place not in block]
            fewer_s = time_without(fewer)
            if fewer_s < below_s:
                removed, time_s = fewer, fewer_s
        if size == 1:
            break
        size = (size + 1) // 2
    return tuple(place - first for place in removed), time_s


def _part(
    graphs: CongestionGraphs, numbers: NDArray[np.int64], rows: NDArray[np.int64], offset: NDArray[np.int64]
) -> CongestionGraphs:
    """Return graphs with some of the copies; `numbers` are the graphs that they come from."""
    return replace(
        graphs,
        names=tuple(graphs.names[number] for number in numbers.tolist()),
        families=("",) * numbers.size,
        offset=offset.astype(np.int64),
        source=graphs.source[rows],
        target=graphs.target[rows],
        size_bytes=graphs.size_bytes[rows],
        start_s=graphs.start_s[rows],
        programs=tuple(graphs.programs[number] for number in numbers.tolist()) if graphs.programs else (),
    )


def removal_texts(tree: PcieTree, graphs: CongestionGraphs, found: Removals) -> pd.Categorical[str]:
    """Return the copies that limit each copy as text.

    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> graphs = from_pairs([[(0, 1), (2, 1), (0, 3)]], size_bytes=1.0)
    >>> found = Removals(((), (0,), (0,)), ((1, 2), (), ()), np.ones(3))
    >>> removal_texts(regular_tree("four", (4,)), graphs, found).tolist()
    ['2>1+0>3', '0>1', '0>1']
    """
    names = tree.endpoint_names
    first = graphs.offset[graphs.graph_of_communication].tolist()
    ends = list(zip(graphs.source.tolist(), graphs.target.tolist(), strict=True))

    def texts(row: int, places: tuple[int, ...]) -> list[str]:
        pairs = (ends[first[row] + place] for place in places)
        return [f"{names[source]}>{names[target]}" for source, target in pairs]

    return pd.Categorical(
        [
            "+".join(texts(row, together)) if together else " ".join(texts(row, places))
            for row, (places, together) in enumerate(zip(found.limited_by, found.joint, strict=True))
        ]
    )
