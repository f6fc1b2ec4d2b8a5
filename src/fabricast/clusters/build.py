"""Construction of a cluster for copies from what files and the user state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabricast.clusters.machine import ClusterMachine, NodeMachine
from fabricast.clusters.node_trees import card_names, with_cards_placed
from fabricast.collectives.clusters.cluster import (
    ETHERNET,
    SLINGSHOT,
    VERBS,
    Cluster,
    cards_of,
    is_builtin_node,
    merged,
    node_of,
    with_cards,
)
from fabricast.collectives.clusters.constants import known_constants
from fabricast.collectives.reference import network_of
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.cluster_files import ClusterStatement, NodeKind
from fabricast.inputs.files import exists
from fabricast.machine.build import MACHINE_CONTENTS, load_facts, machine_from, machine_of_tree
from fabricast.machine.machine import Machine
from fabricast.machine.options import MachineOptions
from fabricast.networks.descriptions import is_slurm_file, switch_network
from fabricast.networks.launcher_files import read_hosts
from fabricast.networks.network import SwitchNetwork
from fabricast.pcie.topology.builtin import node_tree

#: Kind of network of a statement without one.
_DEFAULT_NETWORK = VERBS


def build_cluster(
    statement: ClusterStatement, files: Sequence[str] = (), options: MachineOptions | None = None
) -> ClusterMachine:
    """Return the cluster that a statement describes."""
    options = MachineOptions() if options is None else options
    network = _network_kind(statement)
    if len(statement.kinds) > 1 and files:
        raise InputError("are of one kind of nodes, but the cluster has several", argument="files")
    known = known_constants()
    slingshot, verbs = (known["slingshot_share"],) * 2, (known["verbs_share"], known["card_pair_share"])
    shares = slingshot if network == SLINGSHOT else verbs
    needs_cards = statement.nodes > 1
    kinds = [_node(kind, statement, shares, files, options, needs_cards=needs_cards) for kind in statement.kinds]
    of_kind = np.repeat(np.arange(len(kinds)), [kind.count for kind in statement.kinds]).astype(np.int64)
    switches, hosts = _switches(statement, max(kind.card_bytes_per_s for kind in kinds) / shares[0])
    assumptions = _assumptions(statement, kinds, switches)
    warnings = [one for kind in kinds for one in kind.machine.warnings]
    warnings += _notes(statement, network, assumptions)
    return ClusterMachine(
        statement.name,
        tuple(kinds),
        of_kind,
        switches,
        hosts,
        1.0 if statement.oversubscription is None else statement.oversubscription,
        statement.gpudirect is not False,
        None if statement.latency_us is None else statement.latency_us * 1e-6,
        None if statement.process_gbyte_s is None else statement.process_gbyte_s * 1e9,
        network,
        _words(statement, kinds, network, switches),
        statement,
        tuple(dict.fromkeys(warnings)),
    )


def _network_kind(statement: ClusterStatement) -> str:
    if statement.network is None:
        builtin = [node_of(kind.node).network for kind in statement.kinds if is_builtin_node(kind.node)]
        return next(filter(None, builtin), _DEFAULT_NETWORK)
    found = network_of(statement.network) or network_of(f"net/{statement.network}")
    if not found:
        raise unknown_name("network", statement.network, (VERBS, SLINGSHOT, "EFA", ETHERNET))
    return found


def _node(
    kind: NodeKind,
    statement: ClusterStatement,
    shares: tuple[float, float],
    files: Sequence[str],
    options: MachineOptions,
    *,
    needs_cards: bool,
) -> NodeMachine:
    """Return one kind of nodes with its network cards."""
    if is_builtin_node(kind.node):
        node = node_of(kind.node)
        node = node if kind.nic is None else with_cards(node, kind.nic)
        machine, gbit_s = _of_builtin(node, files, options), node.card_gbit_s
    else:
        options = replace(options, network_cards=True, gpu=options.gpu or statement.gpu)
        machine, gbit_s = machine_from(load_facts([kind.node, *files], *MACHINE_CONTENTS), options), 0.0
        if kind.nic is not None:
            count, gbit_s = merged(*cards_of(kind.nic), len(machine.tree.accelerator_names))
            machine = replace(machine, tree=with_cards_placed(machine.tree, count))
    if needs_cards and not (card_names(machine.tree) and gbit_s):
        found = len(card_names(machine.tree))
        cards = f"the description of {kind.node} has {found} network cards" if found else f"{kind.node} has none"
        raise InputError(f"is missing: {cards}; state them and their rate, such as {found or 8}x400", argument="nic")
    gpus = machine.tree.accelerator_names
    if statement.gpus is not None:
        if not 1 <= statement.gpus <= len(gpus):
            raise InputError(f"is {statement.gpus}, expected 1 to {len(gpus)} of {kind.node}", argument="gpus")
        gpus = gpus[: statement.gpus]
    to_one, to_many = (share * gbit_s * 1e9 / 8 for share in shares)
    return NodeMachine(machine.tree.name, machine, gpus, to_one, to_many)


def _of_builtin(node: Cluster, files: Sequence[str], options: MachineOptions) -> Machine:
    """Return the machine of a built-in node; measured copies of further files calibrate it."""
    facts = load_facts(files, *MACHINE_CONTENTS) if files else None
    return machine_of_tree(node_tree(node.name, node.cards), facts, options)


def _switches(statement: ClusterStatement, card_bytes_per_s: float) -> tuple[SwitchNetwork | None, NDArray[np.int64]]:
    """Return the network of switches and the host of each node; None if the statement has none."""
    if statement.switches is None:
        if statement.hosts is not None:
            raise InputError("is stated without switches, whose hosts it names", argument="hosts")
        return None, np.zeros(0, dtype=np.int64)
    oversubscription = 1.0 if statement.oversubscription is None else statement.oversubscription
    if oversubscription > 1 and not is_slurm_file(statement.switches):
        raise InputError("has no effect on switches whose cables are known", argument="oversubscription")
    try:
        network = switch_network(
            statement.switches, bytes_per_s=card_bytes_per_s or None, oversubscription=oversubscription
        )
    except InputError as error:
        # The function calls them a network.
        raise InputError(error.reason, path=error.path, line=error.line, argument="switches") from error
    if statement.hosts is None:
        hosts = np.arange(min(statement.nodes, len(network.hosts)), dtype=np.int64)
    else:
        names = read_hosts(statement.hosts)
        if len(set(names)) < len(names):
            raise InputError("has a host twice, expected each host once", argument="hosts")
        hosts = network.host_numbers(names)[: statement.nodes]
    if hosts.size < statement.nodes:
        raise InputError(
            f"has {hosts.size:,} hosts, expected the {statement.nodes:,} of the nodes", argument="switches"
        )
    return network, hosts


def _assumptions(
    statement: ClusterStatement, kinds: Sequence[NodeMachine], switches: SwitchNetwork | None
) -> tuple[str, ...]:
    """Return what is assumed about switches; an error if a file lists all cables, and cards lack a port."""
    if switches is None:
        return ()
    ports, most = switches.rails(np.arange(len(switches.hosts))), max(len(kind.cards) for kind in kinds)
    if most <= ports:
        return switches.assumptions
    assert statement.switches is not None
    if exists(statement.switches) and not is_slurm_file(statement.switches):
        raise InputError(
            f"has {most} cards, expected at most the {ports} ports of a host in the network", argument="nic"
        )
    planes = -(-most // ports)
    text = f"a host has {most} cards and {ports} of the network's ports: {planes} equal planes of it are assumed"
    return (*switches.assumptions, text)


def _notes(statement: ClusterStatement, network: str, assumptions: Sequence[str]) -> Iterator[CodedWarning]:
    """Yield what is assumed about cards and network."""
    if statement.nodes == 1:
        return
    if statement.network is None and not all(is_builtin_node(kind.node) for kind in statement.kinds):
        text = f"no input names the network between nodes: {network} is assumed; specify network"
        yield CodedWarning(WarningCode.NCCL_SETTING_ASSUMED, text)
    if network == ETHERNET:
        text = (
            "over TCP sockets the processors limit the rate, which this forecast does not know: times are lower bounds"
        )
        yield CodedWarning(WarningCode.NOT_VALIDATED, text)
    for text in assumptions:
        yield CodedWarning(WarningCode.TOPOLOGY_NOTE, text)
    if statement.gpudirect is False:
        text = "without GPUDirect copies pass through host memory: no public machine of this kind was compared"
        yield CodedWarning(WarningCode.NOT_VALIDATED, text)


def _words(
    statement: ClusterStatement, kinds: Sequence[NodeMachine], network: str, switches: SwitchNetwork | None
) -> str:
    parts = []
    for kind, node in zip(statement.kinds, kinds, strict=True):
        cards = f", {len(node.cards)} cards" if statement.nodes > 1 else ""
        parts.append(f"{kind.count} x {node.name} ({len(node.gpus)} GPUs{cards})")
    text = ", ".join(parts)
    if statement.nodes == 1:
        return text
    above = switches.title if switches is not None else "a network that limits no copy"
    if switches is None and (statement.oversubscription or 1.0) > 1:
        above = f"a network oversubscribed by {statement.oversubscription:g}"
    return f"{text}; {network}, {above}"
