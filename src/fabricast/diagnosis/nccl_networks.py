"""Networks between the nodes of a run of NCCL: TCP, GPUDirect RDMA and network cards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from fabricast.collectives.clusters.stated_cards import port_rates_of_files
from fabricast.core.facts import Fact, Facts
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.diagnosis.nccl_hosts import LINK_LOCAL, MOST_LISTED, is_of_one_host, uses_local_interface
from fabricast.diagnosis.weights import ACCESS, MINOR
from fabricast.nccl.records import NcclLog

#: Providers of libfabric with remote access to memory.
_RDMA_PROVIDERS = ("efa", "cxi", "verbs", "psm", "opx")
#: Cause of network cards that are not used.
UNUSED_CARDS = "unused_network_cards"
#: Version of NCCL that finds the module nvidia_peermem by each of its names.
_FINDS_PEERMEM = (2, 23, 4)


#: Rate in Gbit/s, link layer and model of the card of a port; virtual functions have a model of their own.
_Kind = tuple[float, str, str]


class GoodCards(NamedTuple):
    """Active ports of a host of one kind, their rate, and that of the slowest port in use."""

    ports: int
    gbit_s: float
    used_gbit_s: float


def between_nodes(
    log: NcclLog, place: Callable[..., str], gpudirect: str, *, is_one_host: bool, cards: GoodCards | None = None
) -> Iterator[Finding]:
    """Yield networks between nodes that are slower than InfiniBand or RoCE with GPUDirect."""
    network = [via for via in log.transports.values() if via.startswith("NET")]
    # Without the number of nodes, a hop over the network shows that there are several.
    if is_of_one_host(log) or is_one_host:
        return
    if not network and "no GDR" in log.lines and "GDR" not in log.lines:
        yield Finding(
            "no_gpudirect",
            "NCCL states that GPUDirect RDMA is disabled for its cards: between nodes, data pass through host memory",
            gpudirect,
            ACCESS,
            origin=place("no GDR"),
        )
    is_chosen = log.environment.get("NCCL_NET", "").lower() == "socket" and log.network in ("", "Socket")
    if is_chosen and not network:
        text = "NCCL_NET=Socket is set: data between nodes pass through TCP, without InfiniBand or RoCE"
        yield Finding("tcp_between_nodes", text, _sockets_remedy(log), ACCESS, origin=place("NCCL_NET"))
        return
    if not (network or (log.network and log.nodes > 1)):
        return
    if uses_local_interface(log) and LINK_LOCAL not in log.local_interface:
        return
    if (network and all("Socket" in via for via in network)) or (not network and log.network == "Socket"):
        text, remedy = "the hops between nodes use TCP sockets (NET/Socket)", _sockets_remedy(log)
        if log.nodes == 1 and len(log.hosts) <= 1 and log.environment.get("NCCL_SHM_DISABLE") == "1":
            text = "hops use TCP sockets (NET/Socket): within a host since NCCL_SHM_DISABLE=1 is set, or between nodes"
            remedy = f"within a host, unset NCCL_SHM_DISABLE; {remedy}"
        origin = place("NCCL_IB_DISABLE", "no verbs", "NET")
        yield Finding("tcp_between_nodes", text, remedy, ACCESS, origin=origin)
    unused = list(_unused_cards(log, place, cards))
    yield from unused
    yield from _mixed_cards(log, place)
    shared = _shared_cards(log)
    # With fewer cards than GPUs, some share one.
    if shared and not unused:
        card, ranks, line = shared
        yield Finding(
            "shared_network_card",
            f"ranks {', '.join(map(str, ranks))} of one node send over the same network card (NET/{card}), other cards "
            "are used by one rank",
            "check the topology (two GPUs below one card, or a virtual switch that hides the order of the cards); "
            "NCCL_TOPO_FILE with a corrected file, or NCCL_IB_HCA",
            ACCESS,
            origin=place("NET") if line is None else f"{place('NET').rpartition(':')[0]}:{line}",
        )
    if log.provider and not any(name in log.provider.lower() for name in _RDMA_PROVIDERS):
        yield Finding(
            "libfabric_provider",
            f"libfabric uses the provider {log.provider}, not EFA: data pass through TCP and host memory",
            "FI_PROVIDER=efa; check the EFA devices of the container, the EFA installer and the security group",
            ACCESS + 0.1,
            origin=place("provider"),
        )
        return
    over_cards = [via for via in network if "Socket" not in via]
    # Both ends of a hop state it: without NVLink, only those that receive use GPUDirect by default.
    is_without = "GDR hop" not in log.lines and not any("GDR" in via for via in over_cards)
    if over_cards and "Libfabric" in over_cards[0] and is_without:
        text = f"no hop between nodes uses GPUDirect RDMA (via {over_cards[0]}): data pass through host memory"
        remedy = "a libfabric with CUDA ('fi_info -p efa -c FI_HMEM'), on a type of instance that has GPUDirect RDMA"
        yield Finding("no_gpudirect", text, remedy, ACCESS, origin=place("NET"))
    elif over_cards and is_without:
        yield Finding(
            "no_gpudirect",
            f"no hop between nodes uses GPUDirect RDMA (via {over_cards[0]}): data pass through host memory",
            gpudirect,
            ACCESS,
            origin=place("NET"),
        )
    else:
        yield from _partly_without_gpudirect(log, place, gpudirect)


def _partly_without_gpudirect(log: NcclLog, place: Callable[..., str], gpudirect: str) -> Iterator[Finding]:
    """Yield the cards of few hops between nodes that do not use GPUDirect RDMA, unlike most others."""
    hops = {hop: via for hop, via in log.transports.items() if via.startswith("NET/IB/")}
    without = {hop: via for hop, via in hops.items() if "GDR" not in via}
    if not without or 2 * len(without) >= len(hops):
        return
    cards = sorted({"/".join(via.split("/")[:3]).partition("(")[0] for via in without.values()})
    ranks = sorted({source for source, _ in without})
    line = next((log.sends[hop] for hop in without if hop in log.sends), None)
    who = f"rank {ranks[0]} sends" if len(ranks) == 1 else f"ranks {listed(list(map(str, ranks)), MOST_LISTED)} send"
    yield Finding(
        "some_without_gpudirect",
        f"{who} without GPUDirect RDMA over {listed(cards, MOST_LISTED)}, {len(hops) - len(without)} other hops "
        "between nodes use it: their data pass through host memory",
        gpudirect,
        ACCESS,
        origin=place("NET") if line is None else f"{place('NET').rpartition(':')[0]}:{line}",
    )


def _sockets_remedy(log: NcclLog) -> str:
    """Return what permits InfiniBand or RoCE: first without a setting that excludes it."""
    if log.environment.get("NCCL_NET", "").lower() == "socket":
        return "unset NCCL_NET, if the nodes have InfiniBand or RoCE cards"
    if log.environment.get("NCCL_IB_DISABLE") == "1":
        return "unset NCCL_IB_DISABLE, if the nodes have InfiniBand or RoCE cards"
    return (
        "where the nodes have InfiniBand or RoCE cards: install rdma-core, pass /dev/infiniband to the container; on "
        "AWS the OFI plugin"
    )


def gpudirect_remedy(log: NcclLog, *, is_loaded: bool) -> str:
    """Return what permits GPUDirect RDMA: first without a setting that excludes it, then its module unless loaded."""
    level = log.environment.get("NCCL_NET_GDR_LEVEL", "").upper()
    if level and level not in ("SYS", "5", "PHB", "4"):
        return f"unset NCCL_NET_GDR_LEVEL, which is {level} and excludes more distant cards"
    # NVIDIA/nccl#1676: the module has another name since drivers of 2022.
    of_module = "" if is_loaded else "load nvidia-peermem (or use DMA-BUF); "
    if log.version is not None and log.version < _FINDS_PEERMEM:
        update = f"update NCCL: versions before {'.'.join(map(str, _FINDS_PEERMEM))} may miss it"
        of_module += f"nvidia-peermem is loaded: {update}; " if is_loaded else f"if it is loaded, {update}; "
    elif is_loaded and log.version is None:
        of_module = "update NCCL, whose old versions miss nvidia-peermem, or use DMA-BUF (open kernel modules); "
    more = "" if level in ("SYS", "5") else "; NCCL_NET_GDR_LEVEL=SYS permits it for distant cards"
    return f"{of_module}check ACS between GPU and card{more}"


def good_cards(log: NcclLog, facts: Facts) -> GoodCards | None:
    """Return the most active ports of a host of the run, of one kind, that are as fast as those it uses."""
    used = {name for host in log.hosts.values() for name in host.card_names}
    of_host: dict[tuple[str, str], dict[str, _Kind]] = {}
    for fact in port_rates_of_files(facts):
        if not fact.host or fact.host in log.hosts:
            card = fact.subject[0].split()[0]
            of_host.setdefault((fact.place.path, fact.host), {})[card] = _kind_of(fact)
    found = []
    for ports in of_host.values():
        slowest = min((ports[name] for name in used & ports.keys()), default=None)
        kinds = Counter(kind for kind in ports.values() if slowest is not None and _is_as_good(kind, slowest))
        found += [GoodCards(count, kind[0], slowest[0]) for kind, count in kinds.items() if slowest is not None]
    return max(found, key=lambda one: (one.ports, one.gbit_s), default=None)


def _kind_of(fact: Fact) -> _Kind:
    """Return the kind of a port."""
    layer, model = (*fact.subject[1:3], "", "")[:2]
    return float(fact.value), layer, model


def _is_as_good(kind: _Kind, used: _Kind) -> bool:
    """Return whether a port is of the same rate, layer and model of card as a used one, or faster."""
    return kind == used or kind[0] > used[0]


def _unused_cards(log: NcclLog, place: Callable[..., str], cards: GoodCards | None) -> Iterator[Finding]:
    """Yield fewer network cards than GPUs of a node in use, where a setting leaves others out or files state them."""
    per_node = (log.ranks or 0) // max(log.nodes, 1)
    selected = log.environment.get("NCCL_IB_HCA", "")
    if log.nodes < 2 or log.cards is None or log.cards >= per_node:
        return
    is_slow = cards is not None and cards.gbit_s > cards.used_gbit_s
    rate = f" ({cards.used_gbit_s:g} Gbit/s)" if cards is not None and is_slow else ""
    few = f"{log.cards} network card{'s' if log.cards > 1 else ''}{rate} for the {per_node} GPUs of a node"
    text = f"NCCL_IB_HCA={selected} leaves {few}" if selected else f"NCCL uses {few}"
    if cards is not None and cards.ports >= per_node:
        of_rate = f"{cards.gbit_s:g} Gbit/s" if is_slow else "their rate"
        yield Finding(
            UNUSED_CARDS,
            f"{text}, which has {cards.ports} active ports of {of_rate}{_about_names(log, selected)}",
            "unset NCCL_IB_HCA, or list all cards of this network"
            if selected
            else "let the container have all devices of /dev/infiniband; look for NCCL_IB_HCA in the job and in "
            "/etc/nccl.conf, and list all cards of this network there",
            ACCESS + 0.1,
            origin=place("cards"),
        )
    elif selected:
        yield Finding(
            "few_network_cards",
            f"{text}{_about_names(log, selected)}",
            "if the node has more cards of this network, unset NCCL_IB_HCA or list all of them",
            ACCESS,
            origin=place("cards"),
        )


def _about_names(log: NcclLog, selected: str) -> str:
    """Return what a selection of cards says about single names: that no card has it, or that it is a prefix."""
    if not selected:
        return ""
    names = [name.partition(":")[0] for name in selected.lstrip("^=").split(",")]
    used = {name for host in log.hosts.values() for name in host.card_names}
    unknown = [name for name in names if not any(one.startswith(name) for one in used)]
    if unknown and used and not selected.startswith("^"):
        return f"; none of its cards is {listed(unknown, MOST_LISTED)}"
    if "=" in selected:
        return ""
    if selected.startswith("^"):
        # The cards that it leaves out are not printed; a node has rarely more than 19.
        wide = next((name for name in names if re.search(r"\D1$", name)), "")
        return f"; names are prefixes: {wide} would also exclude {wide}0, '^={wide}' is exact" if wide else ""
    others = sorted(used - set(names))
    longer = next(((name, one) for name in names if name in used for one in others if one.startswith(name)), None)
    return "" if longer is None else f"; names are prefixes: {longer[0]} matches {longer[1]}, '={longer[0]}' is exact"


def _mixed_cards(log: NcclLog, place: Callable[..., str]) -> Iterator[Finding]:
    """Yield cards of InfiniBand among those of RoCE, or the reverse: they may be of separate networks."""
    odd = next((host.odd_cards for host in log.hosts.values() if host.odd_cards), ())
    if odd:
        names = ", ".join(odd[:MOST_LISTED])
        text = f"NCCL uses InfiniBand and RoCE together (the fewer are {names}), which may be separate networks"
        yield Finding(
            "mixed_cards", text, f"NCCL_IB_HCA=^{','.join(odd)} leaves them out", MINOR, origin=place("cards")
        )


def only_card(log: NcclLog) -> str:
    """Return a text if all GPUs of each node send over one network card; empty otherwise."""
    users = _users_of_cards(log)
    nodes = {node for node, _ in users}
    if not users or len(users) > len(nodes) or min(len(ranks) for ranks in users.values()) < 2:
        return ""
    return (
        f"all {(log.ranks or 0) // max(log.nodes, 1)} GPUs of a node send over one network card: its rate (Gbit/s "
        "divided by 8) is the ceiling of large sizes, two thirds of it if the card is not below the switch of the "
        "GPUs; compare the last rows, as 'Avg bus bandwidth' is the mean over all sizes"
    )


def _users_of_cards(log: NcclLog) -> dict[tuple[int, str], set[int]]:
    """Return the ranks that send to other nodes, by node and network card."""
    per_node = (log.ranks or 0) // max(log.nodes, 1)
    users: dict[tuple[int, str], set[int]] = {}
    for (source, target), via in log.transports.items():
        if via.startswith("NET/IB/") and per_node and source // per_node != target // per_node:
            # "NET/IB/4(12)/GDRDMA" is card 4, to which rank 12 forwards.
            users.setdefault((source // per_node, via.split("/")[2].partition("(")[0]), set()).add(source)
    return users


def _shared_cards(log: NcclLog) -> tuple[str, list[int], int | None] | None:
    """Return the card that several ranks of a node use while others of it are used by fewer, and a line of them."""
    users = _users_of_cards(log)
    counts = {key: len(ranks) for key, ranks in users.items()}
    fewest = {node: min(count for key, count in counts.items() if key[0] == node) for node, _ in counts}
    uneven = {key: count for key, count in counts.items() if count > fewest[key[0]]}
    if not uneven:
        return None
    most = max(uneven, key=lambda key: uneven[key])
    lines = [line for (source, _), line in log.sends.items() if source in users[most]]
    return f"IB/{most[1]}", sorted(users[most]), min(lines, default=None)
