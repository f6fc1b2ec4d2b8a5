"""Expected performance of collective operations on NVLink nodes and clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from fabricast.api.collectives import collective, rings_pass_pcie
from fabricast.api.machine_inputs import Files, paths_of
from fabricast.clusters.machine import ClusterMachine
from fabricast.collectives.calibration import is_calibration
from fabricast.collectives.clusters.cluster import Cluster, is_builtin_node, node_of, with_cards
from fabricast.collectives.clusters.forecast import ClusterForecast, forecast_cluster
from fabricast.collectives.clusters.of_machine import cluster_of_machine
from fabricast.collectives.clusters.question import ClusterOptions, cluster_of
from fabricast.collectives.clusters.stated_cards import cards_of_gpus, notes_of_cards, stated_cards
from fabricast.collectives.clusters.statement import ignored_keys, kinds_of, names_linked_gpus, node_of_tables
from fabricast.collectives.clusters.unequal import slowest_forecast
from fabricast.collectives.forecast import CLUSTER_SIZES
from fabricast.collectives.question import table_of
from fabricast.collectives.reference import gpu_family
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Facts, Quantity
from fabricast.core.quantities import increasing_sizes
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.machine.build import MACHINE_CONTENTS, load_facts, machine_from
from fabricast.machine.machine import Machine
from fabricast.machine.options import MachineOptions
from fabricast.pcie.topology.builtin import node_names

__all__ = ["Cluster", "ClusterForecast", "cluster_collective", "collected_rows", "node_names", "open_nodes"]


@with_checked_types
def cluster_collective(
    node: str | Path | Sequence[str | Path] | Machine | Facts | ClusterMachine | None,
    operation: str | None = None,
    *,
    nodes: int | None = None,
    nic: str | None = None,
    network: str | None = None,
    sizes: Sequence[float | str] | str | None = None,
    log: Files | None = None,
    gpus: int | None = None,
    gpu: str | None = None,
    oversubscription: float | None = None,
    gpus_per_process: int | None = None,
    gpudirect: bool | None = None,
    nvls: bool | None = None,
    nccl_version: str | None = None,
    env: Mapping[str, str] | None = None,
    table: int | None = None,
) -> ClusterForecast:
    """Forecast the times of a collective operation of NCCL on a node with direct links, or on several such nodes.

    NCCL's choice is emulated from its search and cost table. Where it is not (RCCL, TCP sockets, tuner plugins, unequal
    links), times are an interpolation between public measurements of the class, or between rows of your log. For
    all_reduce from 4 MiB on, a node with the usual settings has the median time of public nodes of its class if there
    are several.

    Parameters
    ----------
    node : str, Path, Machine, Facts, ClusterMachine, sequence of str or Path, or None
        Name of a node that is built in, such as ``"hgx_h100"``; files that describe one node and its links; or a YAML
        file with the key ``cluster``, which states nodes (also unequal ones), cards and network; or what `load_cluster`
        returned. None chooses the built-in node with the GPUs that the log names.
    operation : str, optional
        all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall or sendrecv; by default that of the log,
        otherwise all_reduce.
    nodes : int, optional
        Number of equal nodes; by default that of the log, otherwise 1.
    nic : str, optional
        Network cards of a node and Gbit/s of each, such as ``"8x400"``; by default those of a built-in node.
    network : {'InfiniBand or RoCE', 'Slingshot', 'EFA', 'Ethernet'}, optional
        Kind of network, or words that name it, such as ``"roce"``.
    sizes : sequence of float or str, or str, optional
        Sizes in bytes or as text ("8 B, 1 MiB", "1M:1G"), as nccl-tests counts them; by default 256 B to 8 GiB, or
        those of the log.
    log : str, Path or sequence of these, optional
        Logs of nccl-tests to compare, and files such as that of ``ibstat``, whose ports are the cards. With sizes, or
        of another operation, a log with a row up to 64 KiB and one from 64 MiB on calibrates the latencies and rates
        of the forecast.
    gpus : int, optional
        GPUs of each node that are used; by default all.
    gpu : str, optional
        GPU model, if no file names it.
    oversubscription : float, optional
        Ratio of the rate of the cards of a node to that of the network above them; by default 1.
    gpus_per_process : int, optional
        GPUs of each process (``-g`` of nccl-tests); by default 1.
    gpudirect, nvls : bool, optional
        By default True. Whether cards use GPUDirect RDMA, and whether NVLink SHARP is available.
    nccl_version : str, optional
        Version of NCCL; by default that of the log, otherwise 2.30.7.
    env : mapping of str to str, optional
        Environment variables of NCCL.
    table : int, optional
        Number of the table in the log, counted from 1.

    Returns
    -------
    ClusterForecast
        ``table``: one row per size with time, bandwidths, choice, what limits it, NCCL's estimate and the range.
        ``source``: emulation or interpolation. ``warnings``: expected error and assumptions.

    Raises
    ------
    InputError
        If a description is incomplete or contradicts the log, or if neither an emulation nor public rows exist.

    References
    ----------
    NVIDIA/nccl 5067397c (v2.30.7). Constants are fitted on public measurements (cluster_constants.csv).

    Examples
    --------
    >>> import fabricast as fc
    >>> forecast = fc.cluster_collective("hgx_h100", nodes=4, nic="8x400", sizes=["8 B", "4 GiB"])
    >>> forecast.table["algorithm"].tolist(), bool(300 < forecast.table["bus_gb_per_s"].iloc[-1] < 400)
    (['tree', 'ring'], True)
    """
    options = ClusterOptions(
        nodes, nic, network, gpus, oversubscription, gpus_per_process, gpudirect, nvls, nccl_version, env
    )
    kinds, facts = _read(node, paths_of(log), gpu, options)
    tables, runs = list(facts.of(Quantity.COLLECTIVE)), [fact.value for fact in facts.of(Quantity.NCCL_RUN)]
    wanted, measured = table_of(tables, operation, table)
    own = None
    is_scaled = measured is not None and nodes is not None and 1 < measured.value.hosts != nodes
    wanted_sizes = list(CLUSTER_SIZES) if sizes is None else increasing_sizes(sizes)
    if is_scaled and measured is not None and sizes is None:
        wanted_sizes = sorted({float(row.size_bytes) for row in measured.value.rows})
    if measured is None or sizes is not None or is_scaled:
        # With sizes of the user, or for another number of nodes, the log calibrates the forecast.
        own, measured = measured or next((one for one in tables if is_calibration(one)), None), None
    run = next(iter(runs), None)
    forecasts = [
        forecast_cluster(
            cluster_of(one_node, stated, own or measured, run),
            wanted,
            wanted_sizes,
            log=None if measured is None else measured.value,
            own=None if own is None else own.value,
            stated=None if run is None else run.choices_of(wanted),
        )
        for one_node, stated, _ in kinds
    ]
    found = slowest_forecast(forecasts, [count for _, _, count in kinds])
    cards = notes_of_cards(facts, found.cluster.nodes, found.cluster.gpus)
    of_cards = [CodedWarning(WarningCode.FILES_CONTRADICT, text) for text in cards]
    found = replace(found, warnings=(*of_cards, *found.warnings))
    ignored = [key for statement in facts.values(Quantity.CLUSTER) for key in ignored_keys(statement)]
    if not ignored:
        return found
    text = (
        f"no effect on collective operations: {', '.join(ignored)}; oversubscription states the network above the cards"
    )
    return replace(found, warnings=(*found.warnings, CodedWarning(WarningCode.SETTING_IGNORED, text)))


def open_nodes(files: Sequence[str], *, network_cards: bool = False, **options: Any) -> Machine | Facts:
    """Return the machine of files; their facts if they describe a cluster, or only name GPUs with direct links."""
    facts = load_facts(files, *MACHINE_CONTENTS, Content.CLUSTER)
    if facts.values(Quantity.CLUSTER) or _is_log_of_linked_gpus(facts):
        return facts
    return machine_from(facts, MachineOptions(network_cards=network_cards, **options))


def collected_rows(files: Sequence[str | Path], machine: str, setting: str = "") -> pd.DataFrame:
    """Return the times of logs of nccl-tests as rows of cluster_times.csv, which `reference` and errors use."""
    facts = load_facts([str(path) for path in files], Content.COLLECTIVES)
    names = dict.fromkeys(gpu for fact in facts.of(Quantity.COLLECTIVE) for gpu in fact.value.gpus)
    if len({gpu_family(name) for name in names}) > 1:
        raise InputError(f"name GPUs of several machines: {', '.join(names)}", argument="files")
    times = [
        (str(fact.value.operation), fact.value.hosts, fact.value.ranks, int(row.size_bytes), row.time_s * 1e6)
        for fact in facts.of(Quantity.COLLECTIVE)
        if fact.value.operation is not None and fact.value.ranks is not None
        for row in fact.value.rows
        if row.size_bytes > 0
    ]
    if not times:
        raise InputError("has no table of nccl-tests that names operation and ranks", path=Path(files[0]))
    keys = ["operation", "nodes", "ranks", "size_bytes"]
    table = pd.DataFrame(times, columns=[*keys, "time_us"])
    grouped = table.groupby(keys, sort=True)["time_us"]
    found = pd.DataFrame(
        {
            "median_us": grouped.median(),
            "shortest_us": grouped.min(),
            "longest_us": grouped.max(),
            "rows": grouped.size(),
        }
    ).reset_index()
    found.insert(0, "machine", machine)
    found.insert(4, "setting", setting)
    return found


#: Each kind of nodes, what is stated about the whole cluster, and the number of nodes of this kind.
_Kinds = list[tuple[Cluster, ClusterOptions, int]]


def _read(
    node: str | Path | Sequence[str | Path] | Machine | Facts | ClusterMachine | None,
    logs: Sequence[str],
    gpu: str | None,
    options: ClusterOptions,
) -> tuple[_Kinds, Facts]:
    """Return each kind of nodes with what is stated about the cluster, and all facts."""
    if isinstance(node, ClusterMachine):
        return kinds_of(node.statement, options, gpu), load_facts(logs, *MACHINE_CONTENTS) if logs else Facts()
    if isinstance(node, Machine):
        return [(_node_of_machine(node, node.facts, options), options, 1)], node.facts
    if node is None or (isinstance(node, str) and is_builtin_node(node)):
        facts = load_facts(logs, *MACHINE_CONTENTS) if logs else Facts()
        described = [block.place.path for block in facts.blocks_of(Content.TOPOLOGY)]
        if node is not None and described:
            raise InputError(f"is described twice: {node} and {described[0]}", argument="node")
        one = node_of_tables(facts.values(Quantity.COLLECTIVE)) if node is None else node_of(node)
        return [(_with_stated_cards(one, facts), options, 1)], facts
    facts = (
        node if isinstance(node, Facts) else load_facts([*paths_of(node), *logs], *MACHINE_CONTENTS, Content.CLUSTER)
    )
    statement = next(iter(facts.values(Quantity.CLUSTER)), None)
    if statement is not None:
        return kinds_of(statement, options, gpu), facts
    if _is_log_of_linked_gpus(facts):
        return [(_with_stated_cards(node_of_tables(facts.values(Quantity.COLLECTIVE)), facts), options, 1)], facts
    machine = machine_from(facts, MachineOptions(gpu=gpu, network_cards=True))
    return [(_node_of_machine(machine, facts, options), options, 1)], facts


def _node_of_machine(machine: Machine, facts: Facts, options: ClusterOptions) -> Cluster:
    """Return one node of a cluster as a machine describes it; rings of several nodes over PCIe have a forecast."""
    is_one_of_several = (options.nodes or 1) > 1
    node = cluster_of_machine(machine, _named_gpu(facts), is_one_of_several=is_one_of_several)
    gpus = machine.tree.accelerator_names[: options.gpus]
    if is_one_of_several and len(gpus) > 1 and rings_pass_pcie(machine.tree, gpus):
        forecast = collective(machine, "all_reduce", sizes=[CLUSTER_SIZES[-1]], ranks=gpus)
        last = forecast.table.iloc[-1]
        # A bound is the fast end of the range of the forecast.
        fastest = last["bus_gb_per_s"] * last["time_us"] / last[["earliest_us", "time_us"]].min()
        node = replace(node, pcie_ring_bytes_per_s=float(fastest) * 1e9)
    return _with_stated_cards(node, facts)


def _with_stated_cards(node: Cluster, facts: Facts) -> Cluster:
    """Return a node with the network cards whose rates 'ibstat' and similar programs print."""
    nic = stated_cards(facts)
    listed = next((run.usual_cards for run in facts.values(Quantity.NCCL_RUN)), None)
    return node if nic is None else with_cards(node, cards_of_gpus(nic, node.gpus, listed))


def _is_log_of_linked_gpus(facts: Facts) -> bool:
    """Return whether no file describes a machine, and a log names GPUs that have direct links."""
    return not facts.blocks_of(Content.TOPOLOGY) and names_linked_gpus(facts.values(Quantity.COLLECTIVE))


def _named_gpu(facts: Facts) -> str | None:
    """Return the GPU that the tables of nccl-tests name first."""
    return next((gpu for table in facts.values(Quantity.COLLECTIVE) for gpu in table.gpus), None)
