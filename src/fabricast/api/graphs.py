"""Topologies and congestion graphs as inputs of predictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Number, Real
from pathlib import Path

import numpy as np
import pandas as pd

from fabricast.api.machine_inputs import MachineLike, tree_of
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.quantities import check_count, check_seed, to_bytes
from fabricast.inputs.copy_lists import pairs_of
from fabricast.inputs.files import exists
from fabricast.pcie.graphs.collectives import card_pairs, collective_pairs
from fabricast.pcie.graphs.congestion_graphs import MOST_COPIES, CongestionGraphs, from_pairs, joined
from fabricast.pcie.graphs.files import read_graphs as read_graph_file
from fabricast.pcie.graphs.patterns import halo_pattern
from fabricast.pcie.graphs.sets import random_graphs as random_pairs
from fabricast.pcie.topology.memory import HOST, nearest_memory, with_host_memory
from fabricast.pcie.topology.tree import PcieTree

#: Graphs, a file, a data frame with its columns, several graphs, or the pairs of one graph as list or text.
GraphsLike = (
    CongestionGraphs | str | Path | pd.DataFrame | Iterable[tuple[int | str, int | str]] | Iterable[CongestionGraphs]
)
#: Size of each copy without another statement.
DEFAULT_SIZE = "300 MiB"
#: Largest number of random graphs.
_MOST_GRAPHS = 1_000_000
#: Endpoint numbers are below this; topologies are far smaller.
_MOST_ENDPOINTS = 1 << 20


@with_checked_types
def graph(
    pairs: str | Iterable[tuple[int | str, int | str]],
    *,
    size: float | str | Sequence[float | str] = DEFAULT_SIZE,
    start_s: float | Sequence[float] = 0.0,
    name: str = "graph",
    tree: PcieTree | None = None,
) -> CongestionGraphs:
    """Return a congestion graph of copies between pairs of endpoints.

    Parameters
    ----------
    pairs : iterable of (int or str, int or str), or str
        Source and target of each copy: indices into `PcieTree.endpoint_names`, or names of endpoints of `tree`; or a
        text such as ``"0>1 2>1"``.
    size : float, str or sequence, default '300 MiB'
        Size of each copy in bytes, or text with a unit; a sequence has one size per copy.
    start_s : float or sequence of float, default 0
        Start time of each copy in s.
    name : str, default 'graph'
        Name of the graph.
    tree : PcieTree, optional
        Topology that defines the names. Without it, names such as ``"gpu3"`` or ``"3"`` are numbers. With it, ``"H"``
        is the host memory nearest to the other endpoint.

    Returns
    -------
    CongestionGraphs
        One graph.

    Raises
    ------
    InputError
        If there are no copies, an endpoint is unknown, source and target are the same, or a size or start time is out
        of range.

    Examples
    --------
    >>> len(graph([(0, 1), (1, 4)]).source), graph("0>1 1>4").target.tolist()
    (2, [1, 4])
    >>> graph([("gpu0", "gpu1")], size=["64 MiB"], start_s=[0.001]).target.tolist()
    [1]
    """
    numbered = _numbered([*(pairs_of(pairs) if isinstance(pairs, str) else pairs)], tree)
    sizes = [size] if isinstance(size, str | float | int | Number) else list(size)
    starts = [start_s] if isinstance(start_s, float | int | Number) else list(start_s)
    for argument, values in (("size", sizes), ("start_s", starts)):
        if len(values) not in (1, len(numbered)):
            raise InputError(f"has {len(values)} elements, expected one or {len(numbered)}", argument=argument)
    size_bytes = np.array([to_bytes(one) for one in sizes], dtype=np.float64)
    one = from_pairs([numbered], size_bytes=1.0, names=[name])
    return replace(
        one,
        size_bytes=np.broadcast_to(size_bytes, len(numbered)).copy(),
        start_s=np.broadcast_to(
            np.array([_seconds(start) for start in starts], dtype=np.float64), len(numbered)
        ).copy(),
    )


def _seconds(start: object) -> float:
    if isinstance(start, bool) or not isinstance(start, Real):
        raise InputError(f"contains {start!r}, expected seconds", argument="start_s")
    return float(start)


def _numbered(pairs: list[tuple[int | str, int | str]], tree: PcieTree | None) -> list[tuple[int, int]]:
    """Return the endpoint numbers of pairs of numbers or names; host memory has names only."""
    numbered = []
    count = None if tree is None else len(tree.endpoint_names)
    tree = None if tree is None else with_host_memory(tree)
    for pair in pairs:
        if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise InputError(f"contains {pair!r}, expected pairs of source and target", argument="pairs")
        for end in pair:
            if count is not None and isinstance(end, int | np.integer) and end >= count:
                raise InputError(
                    f"contains {end}, expected endpoint numbers from 0 to {count - 1}, or names; '{HOST}' is host "
                    "memory",
                    argument="pairs",
                )
        if tree is not None and HOST in pair and HOST not in tree.endpoint_number:
            pair = _with_nearest_memory(tree, pair)
        source, target = (_number_of(end, tree) for end in pair)
        if source == target:
            raise InputError(f"contains {pair[0]}>{pair[1]}, expected two different endpoints", argument="pairs")
        numbered.append((source, target))
    if not numbered:
        raise InputError("is empty, expected one or more pairs of endpoints", argument="pairs")
    return numbered


def _with_nearest_memory(tree: PcieTree, pair: tuple[int | str, int | str]) -> tuple[int | str, int | str]:
    """Replace `HOST` by the number of the host memory nearest to the other endpoint."""
    source, target = pair
    if source == target:
        raise InputError(f"contains {source}>{target}, expected a GPU at one end", argument="pairs")
    other = _number_of(target if source == HOST else source, tree)
    memory = int(nearest_memory(tree)[other])
    return (memory, other) if source == HOST else (other, memory)


def _number_of(end: int | str, tree: PcieTree | None) -> int:
    """Return the number of an endpoint."""
    if isinstance(end, str):
        number = end.lower().removeprefix("gpu")
        if tree is not None:
            for name in (end, number):
                if name in tree.endpoint_number:
                    return tree.endpoint_number[name]
            raise unknown_name("endpoint", end, tree.endpoint_names[:16])
        if not number.isascii() or not number.isdigit():
            raise InputError(f"contains '{end}', expected a number; names need the argument tree", argument="pairs")
        end = int(number)
    if isinstance(end, bool) or not isinstance(end, int | np.integer) or not 0 <= end < _MOST_ENDPOINTS:
        raise InputError(f"contains {end!r}, expected endpoint numbers from 0, or names", argument="pairs")
    return int(end)


def _ranks(tree: PcieTree, least: int = 2) -> list[int]:
    """Return the endpoint number of each rank. Network cards do not run ranks."""
    ranks = [tree.endpoint_number[name] for name in tree.accelerator_names]
    if len(ranks) < least:
        counted = "1 accelerator" if len(ranks) == 1 else f"{len(ranks)} accelerators"
        raise InputError(f"topology '{tree.name}' has {counted}, expected {least} or more for this pattern")
    return ranks


@with_checked_types
def all_to_all(tree: MachineLike, *, size: float | str = DEFAULT_SIZE) -> CongestionGraphs:
    """Return the congestion graph in which every accelerator sends to all others.

    Parameters
    ----------
    tree : PcieTree, Machine, str or Path
        Topology, machine, name of a built-in topology, or file.
    size : float or str, default '300 MiB'
        Size of each copy in bytes, or text with a unit.

    Returns
    -------
    CongestionGraphs
        One graph. All copies start at time 0.

    Examples
    --------
    >>> import fabricast as fc
    >>> all_to_all(fc.load_topology("storm8")).source.size
    56
    """
    tree = tree_of(tree)
    ranks = _ranks(tree)
    # Rank k sends to k + 1 first, so that the copies of the first round have different targets.
    rounds = range(1, len(ranks))
    pairs = [(source, ranks[(place + step) % len(ranks)]) for step in rounds for place, source in enumerate(ranks)]
    return graph(pairs, size=size, name="all_to_all")


@with_checked_types
def collective_step(tree: MachineLike, name: str, *, size: float | str = DEFAULT_SIZE) -> CongestionGraphs:
    """Return the congestion graphs of a collective operation, one per step.

    Steps depend on each other, so each step is a separate graph. The steps of a ring algorithm are equal: its graph is
    returned once.

    Parameters
    ----------
    tree : PcieTree, Machine, str or Path
        Topology, machine, name of a built-in topology, or file. Rank k runs on accelerator k.
    name : {'ring', 'tree', 'pairwise', 'halving'}
        ``ring``: ring algorithm for all-reduce, reduce-scatter or all-gather. ``tree``: reduction and broadcast over
        a binary tree. ``pairwise``: pairwise all-to-all. ``halving``: reduce-scatter by recursive halving.
    size : float or str, default '300 MiB'
        Size of each copy in bytes, or text with a unit.

    Returns
    -------
    CongestionGraphs
        One graph per step. Each graph starts at time 0.

    Raises
    ------
    InputError
        If the name is unknown or the algorithm does not support the number of accelerators.

    Examples
    --------
    >>> import fabricast as fc
    >>> len(collective_step(fc.load_topology("storm8"), "pairwise"))
    7
    """
    tree = tree_of(tree)
    ranks = _ranks(tree)
    steps = [[(ranks[source], ranks[target]) for source, target in step] for step in collective_pairs(name, len(ranks))]
    return from_pairs(steps, size_bytes=to_bytes(size), names=[f"{name}.{k}" for k in range(1, len(steps) + 1)])


@with_checked_types
def network_card_copies(
    tree: MachineLike, *, from_cards: bool = False, size: float | str = DEFAULT_SIZE
) -> CongestionGraphs:
    """Return a graph of copies between accelerators and their nearest network cards.

    All accelerators send at the same time, each to its nearest card. With `from_cards` they receive.

    Parameters
    ----------
    tree : PcieTree, Machine, str or Path
        Topology, name or file, with network cards (``fabricast topology import --network-cards``).
    from_cards : bool, default False
        Whether the network cards send.
    size : float or str, default '300 MiB'
        Size of each copy in bytes, or text with a unit.

    Returns
    -------
    CongestionGraphs
        One graph. Accelerators are distributed evenly over equally near cards, in the order of both.

    Raises
    ------
    InputError
        If the topology has no network card.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("flat4x2", (2, 2))
    >>> cards = tuple(replace(v, network_card=v.name in ("1", "3")) for v in tree.vertices)
    >>> copies = network_card_copies(replace(tree, vertices=cards))
    >>> list(zip(copies.source.tolist(), copies.target.tolist()))
    [(0, 1), (2, 3)]
    """
    tree = tree_of(tree)
    pairs = card_pairs(tree)
    return graph(
        [(card, gpu) for gpu, card in pairs] if from_cards else pairs,
        size=size,
        name="from_network_cards" if from_cards else "to_network_cards",
    )


@with_checked_types
def host_copies(tree: MachineLike, *, to_host: bool = False, size: float | str = DEFAULT_SIZE) -> CongestionGraphs:
    """Return a graph of copies between accelerators and their nearest host memory.

    All accelerators read from host memory at the same time. With `to_host` they write.

    Parameters
    ----------
    tree : PcieTree, Machine, str or Path
        Topology, machine, name of a built-in topology, or file.
    to_host : bool, default False
        Whether accelerators write to host memory.
    size : float or str, default '300 MiB'
        Size of each copy in bytes, or text with a unit.

    Returns
    -------
    CongestionGraphs
        One graph for models with engines. Host memory is numbered after all endpoints of the topology.

    Examples
    --------
    >>> import fabricast as fc
    >>> tree = fc.load_topology("flat4x2")
    >>> copies = host_copies(tree)
    >>> copies.source.tolist(), copies.target.tolist()
    ([8, 8, 8, 8, 8, 8, 8, 8], [0, 1, 2, 3, 4, 5, 6, 7])
    """
    tree = tree_of(tree)
    memory_of_endpoint = nearest_memory(with_host_memory(tree)).tolist()
    pairs = [(memory_of_endpoint[rank], rank) for rank in _ranks(tree, least=1)]
    return graph(
        [(rank, memory) for memory, rank in pairs] if to_host else pairs,
        size=size,
        name="all_to_host" if to_host else "host_to_all",
    )


@with_checked_types
def halo_exchange(tree: MachineLike, grid: Sequence[int], *, size: float | str = DEFAULT_SIZE) -> CongestionGraphs:
    """Return the congestion graph of a halo exchange on a process grid.

    Every process sends to all of its neighbours at the same time.

    Parameters
    ----------
    tree : PcieTree, Machine, str or Path
        Topology, machine, name of a built-in topology, or file.
    grid : sequence of int
        Number of processes along each axis, first axis fastest. Process k runs on accelerator k.
    size : float or str, default '300 MiB'
        Size of each copy in bytes, or text with a unit.

    Returns
    -------
    CongestionGraphs
        One graph. All copies start at time 0.

    Raises
    ------
    InputError
        If the grid does not fit the number of accelerators.

    Examples
    --------
    >>> import fabricast as fc
    >>> halo_exchange(fc.load_topology("storm8"), (4, 2)).source.size
    20
    """
    tree = tree_of(tree)
    size_bytes = to_bytes(size)
    ranks = _ranks(tree)
    pattern = halo_pattern(tuple(grid), len(ranks), size_bytes=size_bytes)
    pairs = [(ranks[source], ranks[target]) for source, target in pattern.pairs]
    return from_pairs([pairs], size_bytes=size_bytes, names=[pattern.name])


@with_checked_types
def read_graphs(path: str | Path, tree: PcieTree, *, size: float | str = DEFAULT_SIZE) -> CongestionGraphs:
    """Read congestion graphs from a CSV or Parquet file.

    Parameters
    ----------
    path : str or Path
        CSV or Parquet with the columns graph, source, target and, optionally, size_bytes and start_s.
    tree : PcieTree
        Topology that defines the endpoint names in the file.
    size : float or str, default '300 MiB'
        Size of each copy, in bytes or as text with a unit, if the file has no column size_bytes.

    Returns
    -------
    CongestionGraphs
        Graphs in the order of the file.

    Raises
    ------
    InputError
        For the first invalid line.
    """
    return read_graph_file(path, tree, size_bytes=to_bytes(size), programs=True)


@with_checked_types
def random_graphs(
    tree: MachineLike,
    count: int,
    *,
    smallest: int = 5,
    largest: int = 5,
    size: float | str = DEFAULT_SIZE,
    seed: int = 20161113,
) -> CongestionGraphs:
    """Return distinct random congestion graphs.

    Each graph has a random number of copies between random pairs of endpoints, each pair at most once.

    Parameters
    ----------
    tree : PcieTree, Machine, str or Path
        Topology, machine, name of a built-in topology, or file.
    count : int
        Number of graphs; fewer are returned if the topology has fewer.
    smallest, largest : int, default 5
        Least and largest number of copies of a graph.
    size : float or str, default '300 MiB'
        Size of each copy in bytes, or text with a unit.
    seed : int, default 20161113
        Seed of the generator.

    Returns
    -------
    CongestionGraphs
        Graphs ``random.1``, ``random.2`` and so on. All copies start at time 0.

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> import fabricast as fc
    >>> graphs = random_graphs(fc.load_topology("storm8"), 100, smallest=6, largest=16)
    >>> len(graphs)
    100
    """
    tree = tree_of(tree)
    check_count("count", count, _MOST_GRAPHS)
    check_count("largest", largest, MOST_COPIES)
    check_count("smallest", smallest, largest)
    check_seed(seed)
    drawn = random_pairs(tree, count, seed=seed, smallest=smallest, largest=largest)
    names = [f"random.{number}" for number in range(1, len(drawn) + 1)]
    return from_pairs(drawn, size_bytes=to_bytes(size), names=names)


def check_endpoints(tree: PcieTree, graphs: CongestionGraphs, argument: str = "graphs") -> None:
    """Check that a topology has all endpoints of the graphs."""
    ends = np.maximum(graphs.source, graphs.target)
    count = len(tree.endpoint_names)
    beyond = np.flatnonzero(ends >= count)
    if beyond.size:
        number = int(ends[beyond[0]])
        is_memory = number < len(with_host_memory(tree).endpoint_names)
        memory = ", which is host memory (only models with engines of 'predict' support it)" if is_memory else ""
        raise InputError(
            f"contains endpoint number {number}{memory}, expected 0 to {count - 1} of '{tree.name}'", argument=argument
        )


def graphs_of(tree: PcieTree, graphs: GraphsLike, size: float | str) -> CongestionGraphs:
    """Return congestion graphs from graphs, a file, or the pairs of one graph.

    >>> import fabricast as fc
    >>> tree = fc.load_topology("storm8")
    >>> graphs_of(tree, [(0, 1), ("2", "3")], "1 MiB").source.tolist(), graphs_of(tree, "4>1", "1 MiB").source.tolist()
    ([0, 2], [4])
    """
    is_chosen = to_bytes(size) != to_bytes(DEFAULT_SIZE)
    if isinstance(graphs, CongestionGraphs):
        if is_chosen:
            text = "is for pairs without sizes, and these graphs have sizes: state it where they are made"
            raise InputError(text, argument="size")
        return graphs
    if isinstance(graphs, str) and ">" in graphs and not exists(graphs):
        graphs = pairs_of(graphs)
    if isinstance(graphs, str | Path):
        return read_graphs(graphs, with_host_memory(tree), size=size)
    if isinstance(graphs, pd.DataFrame):
        return _of_frame(tree, graphs, size)
    pairs: list[tuple[int | str, int | str]] = []
    parts: list[CongestionGraphs] = []
    for one in graphs:
        if isinstance(one, CongestionGraphs):
            parts.append(one)
        else:
            pairs.append(one)
    return _together(parts) if parts and not pairs else graph(pairs, size=size, tree=tree)


def _together(parts: list[CongestionGraphs]) -> CongestionGraphs:
    """Return several sets as one, whose graphs have different names."""
    whole = joined(parts)
    if len(set(whole.names)) < len(whole):
        whole = replace(whole, names=tuple(f"{name}.{number}" for number, name in enumerate(whole.names, start=1)))
    return whole


def _of_frame(tree: PcieTree, frame: pd.DataFrame, size: float | str) -> CongestionGraphs:
    """Return the graphs of a data frame with the columns of a file."""
    known, missing = {"graph", "source", "target", "size_bytes", "start_s"}, {"graph", "source", "target"} - set(frame)
    if missing or set(frame) - known:
        raise InputError(
            f"has the columns {', '.join(map(str, frame.columns))}, expected graph, source, target and, optionally, "
            "size_bytes and start_s",
            argument="graphs",
        )
    parts = []
    for name, rows in frame.groupby("graph", sort=False):
        sizes = rows["size_bytes"].tolist() if "size_bytes" in rows else size
        starts = rows["start_s"].tolist() if "start_s" in rows else 0.0
        pairs = list(zip(rows["source"].tolist(), rows["target"].tolist(), strict=True))
        parts.append(graph(pairs, size=sizes, start_s=starts, name=str(name), tree=tree))
    if not parts:
        raise InputError("has no row", argument="graphs")
    return joined(parts)
