"""Copies between GPUs of several nodes: one forecast over node, network card and network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricast.api.graphs import DEFAULT_SIZE
from fabricast.api.machine_inputs import Files, paths_of
from fabricast.clusters.build import build_cluster
from fabricast.clusters.forecast import ClusterCopies, forecast_copies
from fabricast.clusters.machine import ClusterMachine
from fabricast.collectives.clusters.cluster import is_builtin_node
from fabricast.collectives.clusters.stated_cards import stated_cards
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Facts, Quantity
from fabricast.core.quantities import to_bytes
from fabricast.inputs.cluster_files import ClusterStatement, NodeKind
from fabricast.inputs.copy_lists import pairs_of
from fabricast.inputs.files import exists, read_text
from fabricast.machine.build import MACHINE_CONTENTS, load_facts
from fabricast.machine.options import MachineOptions
from fabricast.networks.patterns import grid_of, is_pattern, rank_pairs, states_sizes
from fabricast.pcie.topology.builtin import builtin_names, is_node
from fabricast.sources.cluster_yaml import is_cluster
from fabricast.sources.text import Text

__all__ = [
    "ClusterCopies",
    "ClusterMachine",
    "describes_cluster",
    "load_cluster",
    "names_nodes",
    "predict_cluster",
    "starts_with_node",
]

#: Part of a time that is one way, by convention of the benchmark.
_ONE_WAY = {"one_way": 1.0, "round_trip": 0.5}
#: Least and largest values of arguments.
_RANGES = {"latency_us": (1e-3, 1e6), "oversubscription": (1.0, 100.0), "process_gbyte_s": (1e-3, 1e4)}
_OF_NODE = re.compile(r"\bnode\d+\.", re.IGNORECASE)
_Copies = str | Path | Iterable[tuple[int | str, int | str]]
_Ends = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


@with_checked_types
def load_cluster(
    files: Files,
    *,
    nodes: int | None = None,
    nic: str | None = None,
    network: str | None = None,
    switches: str | Path | None = None,
    hosts: str | Path | None = None,
    oversubscription: float | None = None,
    gpus: int | None = None,
    gpu: str | None = None,
    link: str | None = None,
    gpudirect: bool | None = None,
    latency_us: float | None = None,
    process_gbyte_s: float | None = None,
) -> ClusterMachine:
    """Return a cluster: the machine of each node, its network cards, and the network between nodes.

    Parameters
    ----------
    files : str, Path or sequence of these
        A YAML file with the key ``cluster``; or the name of a built-in node such as ``"hgx_h100"``; or files that
        describe one node. Further files may have measured copies of the nodes, and output of osu_latency.
    nodes : int, optional
        Number of equal nodes.
    nic : str, optional
        Network cards of a node and Gbit/s of each, such as ``"8x400"``.
    network : str, optional
        Kind of network, such as ``"InfiniBand"``.
    switches : str or Path, optional
        Network of switches as `map_ranks` reads it, such as ``"fat_tree:2,64,32@400"``; by default a network that
        limits no copy.
    hosts : str or Path, optional
        Host of each node in the network of switches: a node list of Slurm, or a file.
    oversubscription : float, optional
        Ratio of the rate of the cards to that of the network above them, if no switches are stated.
    gpus : int, optional
        GPUs of each node that are used.
    gpu, link : str, optional
        GPU model, and link of each GPU, if no file states them.
    gpudirect : bool, optional
        Whether cards read and write the memory of GPUs; by default True. Otherwise copies pass through host memory.
    latency_us : float, optional
        Time of a small message between two nodes in us; by default that of osu_latency, or the parts of Breaking Band.
    process_gbyte_s : float, optional
        Largest rate of all copies of one GPU over the network in GB/s (the rate of a process in the max-rate model).

    Returns
    -------
    ClusterMachine
        ``words`` describe it, ``warnings`` are assumptions, ``gpus`` is the number of GPUs.

    Raises
    ------
    InputError
        If a description is incomplete, such as nodes without cards.

    Examples
    --------
    >>> import fabricast as fc
    >>> cluster = fc.load_cluster("hgx_h100", nodes=4, nic="8x400", network="InfiniBand")
    >>> cluster.gpus, cluster.kinds[0].card_of
    (32, (0, 1, 2, 3, 4, 5, 6, 7))
    """
    paths = paths_of(files)
    _check_ranges(latency_us=latency_us, oversubscription=oversubscription, process_gbyte_s=process_gbyte_s)
    stated: dict[str, Any] = {
        "network": network,
        "switches": None if switches is None else str(switches),
        "hosts": None if hosts is None else str(hosts),
        "oversubscription": oversubscription,
        "gpus": gpus,
        "gpu": gpu,
        "gpudirect": gpudirect,
        "latency_us": latency_us,
        "process_gbyte_s": process_gbyte_s,
    }
    known = {name: value for name, value in stated.items() if value is not None}
    if not paths:
        raise InputError("is empty, expected at least one file", argument="files")
    builtin = paths[:1] if is_builtin_node(paths[0]) else []
    rest = paths[len(builtin) :]
    facts = load_facts(rest, *MACHINE_CONTENTS, Content.CLUSTER, Content.MESSAGES) if rest else Facts()
    clusters = list(facts.of(Quantity.CLUSTER))
    if len(clusters) + len(builtin) > 1:
        raise InputError("describe several clusters, expected one", argument="files")
    messages = {fact.place.path for fact in facts.of(Quantity.MESSAGE_TIME)}
    of_nodes = [path for path in rest if path not in messages | {fact.place.path for fact in clusters}]
    if clusters:
        statement = clusters[0].value
    else:
        if not (builtin or of_nodes):
            raise InputError(
                "describe no node, expected a cluster file, a built-in node or files of one", argument="files"
            )
        first, *of_nodes = [*builtin, *of_nodes]
        statement = ClusterStatement(Path(first).stem, (NodeKind(first, 1),))
    if all(is_builtin_node(kind.node) for kind in statement.kinds):
        described = {block.place.path for block in facts.blocks_of(Content.TOPOLOGY)} & set(of_nodes)
        if described:
            raise InputError(f"describe a node twice: {statement.kinds[0].node} and {min(described)}", argument="files")
        if gpu is not None:
            raise InputError("has no effect on built-in nodes", argument="gpu")
    if nic is None and not clusters:
        nic = stated_cards(facts)
    statement = replace(_resized(statement, nodes, nic), **known)
    if statement.latency_us is None and messages:
        statement = replace(statement, latency_us=_smallest_message_us(facts))
    return build_cluster(statement, of_nodes, MachineOptions(gpu=gpu, link=link))


def _check_ranges(**values: float | None) -> None:
    """Raise an error about a number out of its range."""
    for name, value in values.items():
        low, high = _RANGES[name]
        if value is not None and not low <= value <= high:
            raise InputError(f"is {value:g}, expected {low:g} to {high:,g}", argument=name)


def _smallest_message_us(facts: Facts) -> float:
    """Return the one-way time of the smallest messages of one process in us: the median of the files."""
    times = [fact.value for fact in facts.of(Quantity.MESSAGE_TIME)]
    single = [time for time in times if time.processes in (None, 1) and time.convention in _ONE_WAY]
    if not single:
        raise InputError("have no one-way time of messages of one process, expected osu_latency", argument="files")
    smallest = min(time.size_bytes for time in single)
    return (
        float(np.median([time.time_s * _ONE_WAY[time.convention] for time in single if time.size_bytes == smallest]))
        * 1e6
    )


def _resized(statement: ClusterStatement, nodes: int | None, nic: str | None) -> ClusterStatement:
    """Return a statement with another number of equal nodes, and other cards."""
    kinds = statement.kinds
    if nodes is not None:
        if len(kinds) > 1:
            raise InputError("is stated for a cluster whose file lists its nodes", argument="nodes")
        if not 1 <= nodes <= 100_000:
            raise InputError(f"is {nodes}, expected 1 to 100,000", argument="nodes")
        kinds = (replace(kinds[0], count=nodes),)
    if nic is not None:
        kinds = tuple(replace(kind, nic=nic) for kind in kinds)
    return replace(statement, kinds=kinds)


def starts_with_node(files: Sequence[str]) -> bool:
    """Return whether the first name is a built-in node, and neither a file nor a built-in topology."""
    return bool(files) and is_node(files[0]) and files[0] not in builtin_names() and not exists(files[0])


def describes_cluster(files: Sequence[str]) -> bool:
    """Return whether one of several files is a cluster in YAML."""
    yaml = [path for path in files if path.lower().endswith((".yaml", ".yml")) and exists(path)]
    return any(is_cluster(Text(path, read_text(path))) for path in yaml)


def names_nodes(copies: object) -> bool:
    """Return whether copies are between GPUs such as ``node0.gpu3``.

    >>> names_nodes("node0.gpu1>node1.gpu1"), names_nodes([("0", "1")]), names_nodes([("node0.0", "node1.0")])
    (True, False, True)
    """
    if isinstance(copies, str):
        return _OF_NODE.search(copies) is not None
    return isinstance(copies, list | tuple) and any(names_nodes(one) for one in copies[:1])


@with_checked_types
def predict_cluster(
    cluster: ClusterMachine | Files,
    copies: str | Path | Iterable[tuple[int | str, int | str]],
    *,
    size: float | str | None = None,
    routing: str = "static",
    alternatives: bool = True,
) -> ClusterCopies:
    """Return the times of copies between GPUs of a cluster, what limits them, and what other choices would gain.

    A copy uses its route to the card (over the GPU nearest to the card if it is linked directly, or through host memory
    without GPUDirect), the card, the links of the network, and the same parts at the target. Rates are max-min fair,
    and small messages have the latency of the network.

    Parameters
    ----------
    cluster : ClusterMachine, str, Path or sequence of these
        Cluster as `load_cluster` returns it, or its YAML file.
    copies : str, Path or iterable of (int or str, int or str)
        Pairs such as ``("node0.gpu3", "node1.gpu3")``, ``"node0.gpu3>node1.gpu3"`` or ranks; ``halo:4x4x4x8`` (a
        periodic grid, the last side fastest), ``all_to_all:64`` or ``ring:64``; or a file of bytes between ranks, as
        `map_ranks` reads it. Ranks are consecutive on a node. All copies start together.
    size : float or str, optional
        Size of each copy of pairs and of patterns in words in bytes or as text; by default 300 MiB.
    routing : {'static', 'adaptive'}, default 'static'
        Routes by destination, or even use of all links of a leaf switch.
    alternatives : bool, default True
        Whether to try other cards, routes, and orders of hosts.

    Returns
    -------
    ClusterCopies
        ``table``: one row per copy; ``layers``: what each layer costs; ``choices``: gains of other choices; ``time_s``,
        ``bottleneck`` and ``warnings``.

    Raises
    ------
    InputError
        If a GPU is unknown, or a value is out of range.

    Examples
    --------
    >>> import fabricast as fc
    >>> cluster = fc.load_cluster("hgx_h100", nodes=2, nic="4x400", network="InfiniBand")
    >>> found = fc.predict_cluster(cluster, [("node0.gpu0", "node1.gpu0"), ("node0.gpu1", "node1.gpu1")])
    >>> found.layer, found.bottleneck
    ('card', 'node0: card nic0 sends')
    """
    machine = cluster if isinstance(cluster, ClusterMachine) else load_cluster(cluster)
    source, target, size_bytes = _ends(machine, copies, size)
    grid = grid_of(copies) if isinstance(copies, str | Path) else None
    found = forecast_copies(machine, source, target, size_bytes, routing=routing, grid=grid, alternatives=alternatives)
    title = (
        "" if grid is None else f"halo of a periodic grid of {'x'.join(map(str, grid))} ranks, the last side fastest"
    )
    return replace(found, pattern=title)


def _ends(cluster: ClusterMachine, copies: _Copies, size: float | str | None) -> _Ends:
    """Return ranks and sizes of copies."""
    size_bytes = to_bytes(DEFAULT_SIZE if size is None else size)
    if isinstance(copies, str) and ">" in copies:
        copies = pairs_of(copies)
    if isinstance(copies, str | Path):
        pairs = rank_pairs(copies)
        if not states_sizes(copies):
            return pairs.source, pairs.target, np.full(pairs.source.size, size_bytes)
        if size is not None:
            text = (
                "twice: in the pattern and by itself" if is_pattern(str(copies)) else "for a file, which has the sizes"
            )
            raise InputError(f"is stated {text}", argument="size")
        return pairs.source, pairs.target, pairs.size_bytes
    ends = []
    # "a>b" within a list is the notation of the command.
    every = [one for pair in copies for one in (pairs_of(pair) if isinstance(pair, str) and ">" in pair else [pair])]
    for pair in every:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(f"contains {pair!r}, expected pairs of source and target", argument="copies")
        ends.append([cluster.rank_of(_name(end)) for end in pair])
    if not ends:
        raise InputError("is empty, expected one or more copies", argument="copies")
    ranks = np.array(ends, dtype=np.int64)
    return ranks[:, 0], ranks[:, 1], np.full(len(ends), size_bytes)


def _name(end: object) -> str:
    """Return the name of a GPU, or a rank as text."""
    if isinstance(end, str):
        return end
    if (
        isinstance(end, int | float | np.integer | np.floating)
        and not isinstance(end, bool)
        and float(end).is_integer()
    ):
        return str(int(end))
    raise InputError(f"contains {end!r}, expected ranks, or names such as node0.gpu3", argument="copies")
