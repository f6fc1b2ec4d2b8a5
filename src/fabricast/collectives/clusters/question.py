"""Cluster of a question: a node, with what the user and a log state about nodes, cards, network and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fabricast.collectives.clusters.cluster import BRIDGES, ETHERNET, NETWORKS, VERBS, Cluster, with_cards
from fabricast.collectives.reference import network_of
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.facts import Fact
from fabricast.nccl.records import NcclLog
from fabricast.nccl.settings import with_environment
from fabricast.nccl.system import PathType, parse_version

#: Most GPUs of one host; nodes with more are NVLink domains of several hosts.
_MOST_OF_HOST = 16


@dataclass(frozen=True)
class ClusterOptions:
    """Statements of a user about a cluster; see `fabricast.cluster_collective`."""

    nodes: int | None = None
    nic: str | None = None
    network: str | None = None
    gpus: int | None = None
    oversubscription: float | None = None
    gpus_per_process: int | None = None
    gpudirect: bool | None = None
    nvls: bool | None = None
    nccl_version: str | None = None
    env: Mapping[str, str] | None = None


def cluster_of(node: Cluster, options: ClusterOptions, table: Fact | None, run: NcclLog | None) -> Cluster:
    """Return the cluster of equal nodes; options precede the statements of logs."""
    gpus = options.gpus if options.gpus is not None else node.gpus
    count = options.nodes if options.nodes is not None else _nodes_of(node, table, run)
    if node.gpus > _MOST_OF_HOST and count > 1 and count * gpus <= node.gpus:
        raise InputError(
            f"is {count} hosts of {gpus} GPUs in one NVLink domain of {node.gpus}, which is one node: specify nodes 1 "
            f"and gpus {count * gpus}",
            argument="nodes",
        )
    _refuse_network_of_one_node(options, count)
    cluster = replace(
        _with_gpus(node, gpus),
        nodes=count,
        oversubscription=1.0 if options.oversubscription is None else float(options.oversubscription),
        process_gpus=1 if options.gpus_per_process is None else options.gpus_per_process,
    )
    if options.nic is not None:
        of_node = with_cards(node, options.nic)
        # Of all cards of a node, some of its GPUs use those next to them; other numbers are of the cards in use.
        is_whole = of_node.cards == node.cards and node.attach <= PathType.PXB
        cards = cluster.cards if is_whole else of_node.cards
        cluster = replace(cluster, cards=cards, card_gbit_s=of_node.card_gbit_s)
    elif run is not None and run.usual_cards is not None and count > 1:
        # Hosts list cards of storage, too: more of them than the node has say nothing.
        cluster = replace(cluster, cards=min(cluster.cards, run.usual_cards))
    environment = {**({} if run is None else run.environment), **(options.env or {})}
    cluster = _with_network(cluster, options.network, run, environment, has_own_cards=options.nic is not None)
    settings = cluster.settings
    version = None if run is None else run.version
    if version is None and table is not None:
        version = table.value.library
    if options.nccl_version is not None:
        version = parse_version(options.nccl_version)
    if version is not None:
        settings = replace(settings, version=version)
    nvls = environment.pop("NCCL_NVLS_ENABLE", "1")
    if nvls not in ("0", "1", "2"):
        raise InputError(f"sets NCCL_NVLS_ENABLE to '{nvls}', expected 0, 1 or 2", argument="env")
    settings = with_environment(settings, environment)
    if settings.disabled_by or (settings.p2p_level is not None and settings.p2p_level < PathType.NVB):
        raise InputError("disables copies over NVLink: NCCL through host memory is not emulated", argument="env")
    has_gpudirect = options.gpudirect is not False and not lacks_gpudirect(run)
    has_nvls = options.nvls is not False and nvls != "0"
    return replace(cluster, settings=settings, has_nvls=has_nvls, has_gpudirect=has_gpudirect).checked()


def _refuse_network_of_one_node(options: ClusterOptions, nodes: int) -> None:
    """Raise an error about an option of the network if there is one node, unless the user stated it.

    A loop over numbers of nodes has the same options for one: it uses no network.
    """
    if options.nodes == 1:
        return
    for name in ("nic", "network"):
        if nodes == 1 and getattr(options, name) is not None:
            raise InputError("is of the network between nodes, but there is one node: specify nodes", argument=name)
    if nodes == 1 and options.oversubscription not in (None, 1):
        raise InputError("is of several nodes, but there is one: specify nodes", argument="oversubscription")


def _with_network(
    cluster: Cluster, named: str | None, run: NcclLog | None, environment: Mapping[str, str], *, has_own_cards: bool
) -> Cluster:
    """Return a cluster with its kind of network: of the user, of settings, of a log, of the node, or assumed."""
    if cluster.nodes == 1:
        return cluster
    if named is not None:
        return replace(cluster, network=_network(named))
    uses_sockets = environment.get("NCCL_IB_DISABLE") == "1" or environment.get("NCCL_NET", "").lower() == "socket"
    if uses_sockets:
        return replace(cluster, network=ETHERNET)
    if run is not None and (stated := network_of(f"net/{run.network}")):
        return replace(cluster, network=stated)
    # Cards of the user may be of another network than those that the node is delivered with.
    is_usual = bool(cluster.network) and (cluster.network == VERBS or not has_own_cards)
    return replace(cluster, network=cluster.network or VERBS, is_network_assumed=not is_usual)


def lacks_gpudirect(run: NcclLog | None) -> bool:
    """Return whether a log has hops over cards between nodes, none of them with GPUDirect."""
    if run is None:
        return False
    over_cards = [via for via in run.transports.values() if via.startswith("NET/IB")]
    if not over_cards:
        return "no GDR" in run.lines and "GDR" not in run.lines
    return not any("GDR" in via for via in over_cards)


def _nodes_of(node: Cluster, table: Fact | None, run: NcclLog | None) -> int:
    """Return the number of nodes that a log states; 1 without one. Hosts of one NVLink domain are one node."""
    hosts = max(1 if table is None else int(table.value.hosts), 1 if run is None else run.nodes)
    if node.gpus > _MOST_OF_HOST and table is not None and table.value.ranks is not None:
        return max(1, -(-int(table.value.ranks) // node.gpus))
    return hosts


def _with_gpus(cluster: Cluster, gpus: int) -> Cluster:
    """Return a cluster whose nodes use fewer GPUs and the same share of their cards."""
    if not 1 <= gpus <= cluster.gpus:
        raise InputError(f"is {gpus}, expected 1 to {cluster.gpus} of {cluster.name}", argument="gpus")
    cards = max(1, cluster.cards * gpus // cluster.gpus) if cluster.cards else 0
    # Two GPUs of bridged pairs are those of one bridge.
    fabric = "mesh" if cluster.fabric == BRIDGES and gpus == 2 else cluster.fabric
    links = cluster.links
    if cluster.fabric == "mesh" and gpus > 1:
        # Links to GPUs that are not used carry nothing.
        links = links * (gpus - 1) // (cluster.gpus - 1)
    return replace(cluster, gpus=gpus, cards=cards, fabric=fabric, links=links)


def _network(text: str) -> str:
    found = text if text in NETWORKS else network_of(text) or network_of(f"net/{text}")
    if not found:
        raise unknown_name("network", text, NETWORKS)
    return found
