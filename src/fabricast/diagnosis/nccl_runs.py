"""Runs of NCCL: transports, direct copies and its search, as its log states them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.diagnosis.nccl_hosts import LINK_LOCAL, is_of_one_host, unequal_hosts, uses_local_interface
from fabricast.diagnosis.nccl_networks import between_nodes, good_cards, gpudirect_remedy
from fabricast.diagnosis.stated_causes import CAUSES
from fabricast.diagnosis.weights import ACCESS, FIRST, MINOR
from fabricast.nccl.records import NcclLog


def log_findings(facts: Facts) -> Iterator[Finding]:
    """Yield what NCCL states about hosts, direct copies and its search."""
    yield from unequal_hosts(facts)
    tables = facts.values(Quantity.COLLECTIVE)
    for fact in whole_runs(facts):
        is_of_tables = bool(tables) and all(table.hosts == 1 for table in tables)
        is_one_host = (is_of_one_host(fact.value) or is_of_tables) and not any(table.hosts > 1 for table in tables)
        yield from _of_run(fact, facts, is_one_host=is_one_host)
        if fact.value.ranks == 1 and fact.value.nodes > 1:
            yield _single_ranks(fact)
        is_unreached = any("onnect" in one for one in facts.values(Quantity.NCCL_PROBLEM))
        # Hosts of one link can reach each other at addresses of this link.
        if uses_local_interface(fact.value) and (is_unreached or LINK_LOCAL not in fact.value.local_interface):
            yield _local_interface(fact, is_unreached=is_unreached)


def _single_ranks(fact: Fact) -> Finding:
    """Return the finding that the processes of several hosts do not know each other."""
    text = f"each process has rank 0 of 1 rank on {fact.value.nodes} hosts: every process runs by itself"
    weight, remedy = CAUSES["no_mpi"]
    return Finding("no_mpi", text, remedy, weight, origin=str(fact.place))


def _local_interface(fact: Fact, *, is_unreached: bool) -> Finding:
    """Return the finding that a run of several hosts uses the interface of one host, which may be why it fails."""
    hosts = f"{fact.value.nodes} hosts" if fact.value.nodes > 1 else "several hosts"
    return Finding(
        "local_interface",
        f"NCCL uses in a run of {hosts} the interface {fact.value.local_interface}",
        "NCCL_SOCKET_IFNAME=^lo,docker0, or with the name of the interface between the hosts",
        FIRST - 0.005 if is_unreached else ACCESS + 0.2,
        origin=f"{fact.place.path}:{fact.value.lines['local interface']}",
    )


def whole_runs(facts: Facts) -> list[Fact]:
    """Return the runs of NCCL; logs with few hops each, of single ranks or hosts, are one run with all their hops."""
    parts: dict[object, list[Fact]] = {}
    for number, fact in enumerate(facts.of(Quantity.NCCL_RUN)):
        log: NcclLog = fact.value
        is_part = log.ranks is not None and len(log.hosts) == 1 and 0 < len(log.transports) < log.ranks / 2
        parts.setdefault((log.ranks, log.nodes, log.version) if is_part else number, []).append(fact)
    runs = []
    for same in parts.values():
        transports = {hop: via for fact in same for hop, via in fact.value.transports.items()}
        # Both ends of a hop state it; logs that state it more often are of several runs.
        if len(same) > 1 and sum(len(fact.value.transports) for fact in same) <= 2 * len(transports):
            runs.append(replace(same[0], value=replace(same[0].value, transports=transports)))
        else:
            runs += same
    return runs


#: Settings after which the ranks of a host use the network.
_NETWORK_BY = ("NCCL_SHM_DISABLE",)
_P2P_SETTINGS = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL")


def _of_run(fact: Fact, facts: Facts, *, is_one_host: bool) -> Iterator[Finding]:
    log: NcclLog = fact.value
    has_tables = bool(facts.values(Quantity.COLLECTIVE))
    modules = facts.values(Quantity.PEER_MODULE)
    gpudirect = gpudirect_remedy(log, is_loaded=bool(modules) and all(modules))

    def place(*words: str) -> str:
        line = next((log.lines[word] for word in words if word in log.lines), fact.place.line)
        return f"{fact.place.path}:{line}"

    # Ranks beyond the largest communicator are of a log that holds several.
    over_network = [
        pair
        for pair, via in log.transports.items()
        if via.startswith("NET") and (log.ranks is None or max(pair) < log.ranks)
    ]
    if over_network and is_one_host:
        one, other = over_network[0]
        disabled = [f"{name}=1" for name in _NETWORK_BY if log.environment.get(name) == "1"]
        yield Finding(
            "network_in_host",
            f"NCCL uses the network for {len(over_network)} hops within one host (for example {one} to {other})"
            + (f", because {' and '.join(disabled)} is set" if disabled else ""),
            f"unset {' '.join(name.partition('=')[0] for name in disabled)}"
            if disabled
            else "permit shared memory: in a container --ipc=host or a larger --shm-size",
            FIRST - 2,
            origin=place(*(name.partition("=")[0] for name in disabled), "NET"),
        )
    cards = good_cards(log, facts)
    yield from between_nodes(log, place, gpudirect, is_one_host=is_one_host, cards=cards)
    if log.disabled_pairs:
        _, one, other = min(log.disabled_pairs)
        count = len(log.disabled_pairs)
        yield Finding(
            "no_peer_access",
            f"NCCL states that direct copies are disabled between GPUs {one} and {other}"
            + (
                f", and between {count - 1} other pairs"
                if count > 2
                else ", and between one other pair"
                if count == 2
                else ""
            )
            + ": data pass through host memory",
            "check driver, IOMMU and ACS; 'nvidia-smi topo -p2p r' names the reason",
            ACCESS,
            origin=place("disabled"),
        )
    elif len(log.uses_p2p) > 1 and not any(log.uses_p2p.values()) and not has_tables:
        # With a table, the forecast states the cause and the time that it costs.
        settings = [f"{name}={log.environment[name]}" for name in _P2P_SETTINGS if name in log.environment]
        remedy = (
            "'nvidia-smi topo -p2p r' states which pairs have peer access; for other cards, check driver, IOMMU and ACS"
        )
        yield Finding(
            "no_direct_copies",
            f"NCCL uses host memory (SHM) for all {len(log.uses_p2p)} hops of its log: no copy between GPUs is direct"
            + ("" if settings else ", which is normal for GeForce cards with NVIDIA's driver"),
            f"remove {' and '.join(settings)}" if settings else remedy,
            ACCESS if settings else MINOR,
            origin=place("SHM"),
        )
