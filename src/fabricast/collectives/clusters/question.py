"""Cluster of a question: a node, with what the user and a log state about nodes, cards, network and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fabricast.collectives.clusters.cluster import NETWORKS, Cluster, with_cards
from fabricast.collectives.reference import network_of
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.facts import Fact
from fabricast.nccl.records import NcclLog
from fabricast.nccl.settings import with_environment
from fabricast.nccl.system import parse_version

__all__ = ["ClusterOptions", "cluster_of"]


@dataclass(frozen=True)
class ClusterOptions:
    """Statements of a user about a cluster; see `fabricast.cluster_collective`."""

    nodes: int | None = None
    nic: str | None = None
    network: str | None = None
    gpus: int | None = None
    oversubscription: float = 1.0
    gpus_per_process: int = 1
    gpudirect: bool = True
    nvls: bool = True
    nccl_version: str | None = None
    env: Mapping[str, str] | None = None


def cluster_of(node: Cluster, options: ClusterOptions, table: Fact | None, run: NcclLog | None) -> Cluster:
    """Return the cluster of equal nodes; options precede the statements of logs.

    Parameters
    ----------
    node : Cluster
        One node.
    options : ClusterOptions
        Statements of the user.
    table : Fact, optional
        Measured table, which lists hosts.
    run : NcclLog, optional
        Statements of NCCL.
    """
    count = options.nodes if options.nodes is not None else _nodes_of(table, run)
    cluster = replace(
        node, nodes=count, oversubscription=float(options.oversubscription), process_gpus=options.gpus_per_process
    )
    if options.nic is not None:
        cluster = with_cards(cluster, options.nic)
    if options.gpus is not None:
        cluster = _with_gpus(cluster, options.gpus)
    named = options.network if options.network is not None else "" if run is None else run.network
    if named:
        cluster = replace(cluster, network=_network(named))
    settings = cluster.settings
    version = None if run is None else run.version
    if options.nccl_version is not None:
        version = parse_version(options.nccl_version)
    if version is not None:
        settings = replace(settings, version=version)
    environment = {**({} if run is None else run.environment), **(options.env or {})}
    settings = with_environment(settings, environment)
    has_nvls = options.nvls and environment.get("NCCL_NVLS_ENABLE", "1") != "0"
    return replace(cluster, settings=settings, has_nvls=has_nvls, has_gpudirect=options.gpudirect).checked()


def _nodes_of(table: Fact | None, run: NcclLog | None) -> int:
    """Return the number of nodes that a log states; 1 without one."""
    return max(1 if table is None else int(table.value.hosts), 1 if run is None else run.nodes)


def _with_gpus(cluster: Cluster, gpus: int) -> Cluster:
    """Return a cluster of which each node uses fewer GPUs, with the cards next to them."""
    if not 1 <= gpus <= cluster.gpus:
        raise InputError(f"is {gpus}, expected 1 to {cluster.gpus} of {cluster.name}", argument="gpus")
    cards = max(1, cluster.cards * gpus // cluster.gpus) if cluster.cards else 0
    return replace(cluster, gpus=gpus, cards=cards)


def _network(text: str) -> str:
    found = text if text in NETWORKS else network_of(text) or network_of(f"net/{text}")
    if not found:
        raise unknown_name("network", text, NETWORKS)
    return found
