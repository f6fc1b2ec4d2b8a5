"""Topologies and congestion graphs as inputs of predictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from fabricast.api.quantities import to_bytes
from fabricast.core.errors import InputError
from fabricast.pcie.graphs.collectives import card_arcs, collective_arcs
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_arcs
from fabricast.pcie.graphs.congestion_graphs import all_to_all as all_arcs
from fabricast.pcie.graphs.files import read_graphs as read_graph_file
from fabricast.pcie.graphs.patterns import halo_pattern
from fabricast.pcie.topology.files import load_tree
from fabricast.pcie.topology.memory import nearest_memory, with_host_memory
from fabricast.pcie.topology.tree import PcieTree

__all__ = [
    "all_to_all",
    "collective",
    "graph",
    "halo_exchange",
    "host_copies",
    "load_topology",
    "network_card_copies",
    "read_graphs",
]

_SIZE = "300 MiB"


def load_topology(source: str | Path, *, include_display: bool = False) -> PcieTree:
    """Return a built-in topology, or read a topology from a file.

    Parameters
    ----------
    source : str or Path
        Built-in name such as ``"storm8"``, or a .yaml, hwloc .xml or NCCL .xml file.
    include_display : bool, default False
        Whether NVIDIA and AMD graphics cards (class 0300) are included as accelerators.

    Returns
    -------
    PcieTree
        Topology. Notebooks display it as a drawing.

    Raises
    ------
    InputError
        If the topology is unknown or the file is invalid.

    Examples
    --------
    >>> load_topology("storm8").endpoint_names
    ('0', '1', '2', '3', '4', '5', '6', '7')
    """
    return load_tree(str(source), include_display=include_display)


def graph(arcs: Iterable[tuple[int, int]], *, size: float | str = _SIZE, name: str = "graph") -> CongestionGraphs:
    """Return a congestion graph of copies between pairs of endpoints.

    Parameters
    ----------
    arcs : iterable of (int, int)
        Source and target of each copy, as indices into `PcieTree.endpoint_names`.
    size : float or str, default '300 MiB'
        Size of each copy in bytes, or text with a unit.
    name : str, default 'graph'
        Name of the graph.

    Returns
    -------
    CongestionGraphs
        One graph. All copies start at time 0.

    Raises
    ------
    InputError
        If there are no copies, an index is negative, or source and target are the same.

    Examples
    --------
    >>> len(graph([(0, 1), (1, 4)]).source)
    2
    """
    pairs = [(int(source), int(target)) for source, target in arcs]
    if not pairs or any(source < 0 or target < 0 or source == target for source, target in pairs):
        raise InputError(
            f"is {pairs[:8]}, expected one or more pairs of two different endpoint numbers from 0", argument="arcs"
        )
    return from_arcs([pairs], size_bytes=to_bytes(size), names=[name])


def _ranks(tree: PcieTree) -> list[int]:
    """Return the endpoint number of each rank. Network cards do not run ranks."""
    return [tree.endpoint_number[name] for name in tree.accelerator_names]


def all_to_all(tree: PcieTree, *, size: float | str = _SIZE) -> CongestionGraphs:
    """Return the congestion graph in which every accelerator sends to all others.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    size : float or str, default '300 MiB'
        Size of each copy in bytes, or text with a unit.

    Returns
    -------
    CongestionGraphs
        One graph. All copies start at time 0.

    Examples
    --------
    >>> all_to_all(load_topology("storm8")).source.size
    56
    """
    return graph(all_arcs(_ranks(tree)), size=size, name="all_to_all")


def collective(tree: PcieTree, name: str, *, size: float | str = _SIZE) -> CongestionGraphs:
    """Return the congestion graphs of a collective operation, one per step.

    Steps depend on each other, so each step is a separate graph. The steps of a ring algorithm are equal: its graph is
    returned once.

    Parameters
    ----------
    tree : PcieTree
        Topology. Rank k runs on accelerator k.
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
    >>> len(collective(load_topology("storm8"), "pairwise"))
    7
    """
    ranks = _ranks(tree)
    steps = [[(ranks[source], ranks[target]) for source, target in step] for step in collective_arcs(name, len(ranks))]
    return from_arcs(steps, size_bytes=to_bytes(size), names=[f"{name}.{k}" for k in range(1, len(steps) + 1)])


def network_card_copies(tree: PcieTree, *, from_cards: bool = False, size: float | str = _SIZE) -> CongestionGraphs:
    """Return a graph of copies between accelerators and their nearest network cards.

    All accelerators send at the same time, each to its nearest card. With `from_cards` they receive.

    Parameters
    ----------
    tree : PcieTree
        Topology with network cards (``fabricast topology import --network-cards``).
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
    arcs = card_arcs(tree)
    return graph(
        [(card, gpu) for gpu, card in arcs] if from_cards else arcs, size=size,
        name="from_network_cards" if from_cards else "to_network_cards",
    )  # fmt: skip


def host_copies(tree: PcieTree, *, to_host: bool = False, size: float | str = _SIZE) -> CongestionGraphs:
    """Return a graph of copies between accelerators and their nearest host memory.

    All accelerators read from host memory at the same time. With `to_host` they write.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    to_host : bool, default False
        Whether accelerators write to host memory.
    size : float or str, default '300 MiB'
        Size of each copy in bytes, or text with a unit.

    Returns
    -------
    CongestionGraphs
        One graph for the model endpoint_engines. Host memory is numbered after all endpoints of the topology.

    Examples
    --------
    >>> tree = load_topology("flat4x2")
    >>> copies = host_copies(tree)
    >>> copies.source.tolist(), copies.target.tolist()
    ([8, 8, 8, 8, 8, 8, 8, 8], [0, 1, 2, 3, 4, 5, 6, 7])
    """
    memory_of_endpoint = nearest_memory(with_host_memory(tree)).tolist()
    arcs = [(memory_of_endpoint[rank], rank) for rank in _ranks(tree)]
    return graph(
        [(rank, memory) for memory, rank in arcs] if to_host else arcs, size=size,
        name="all_to_host" if to_host else "host_to_all",
    )  # fmt: skip


def halo_exchange(tree: PcieTree, grid: Sequence[int], *, size: float | str = _SIZE) -> CongestionGraphs:
    """Return the congestion graph of a halo exchange on a process grid.

    Every process sends to all of its neighbours at the same time.

    Parameters
    ----------
    tree : PcieTree
        Topology.
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
    >>> halo_exchange(load_topology("storm8"), (4, 2)).source.size
    20
    """
    size_bytes = to_bytes(size)
    ranks = _ranks(tree)
    pattern = halo_pattern(tuple(grid), len(ranks), size_bytes=size_bytes)
    arcs = [(ranks[source], ranks[target]) for source, target in pattern.arcs]
    return from_arcs([arcs], size_bytes=size_bytes, names=[pattern.name])


def read_graphs(path: str | Path, tree: PcieTree, *, size: float | str = _SIZE) -> CongestionGraphs:
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
    return read_graph_file(path, tree, size_bytes=to_bytes(size))


def check_endpoints(tree: PcieTree, graphs: CongestionGraphs, argument: str = "graphs") -> None:
    """Check that a topology has all endpoints of the graphs.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        Graphs to check.
    argument : str, default 'graphs'
        Name of the argument, for the message.

    Raises
    ------
    InputError
        If an endpoint number is too large.
    """
    largest = int(np.maximum(graphs.source, graphs.target).max(initial=0))
    if largest >= len(tree.endpoint_names):
        raise InputError(
            f"contains endpoint number {largest}, expected 0 to {len(tree.endpoint_names) - 1} of '{tree.name}' (only "
            "model endpoint_engines supports the higher numbers of host memory)",
            argument=argument,
        )
