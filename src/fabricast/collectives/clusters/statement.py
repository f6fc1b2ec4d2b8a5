"""Kinds of nodes of a cluster that a file describes, and the built-in node that fits the GPUs of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from fabricast.collectives.clusters.cluster import Cluster, is_builtin_node, node_of
from fabricast.collectives.clusters.of_machine import cluster_of_machine
from fabricast.collectives.clusters.question import ClusterOptions
from fabricast.collectives.reference import gpu_family
from fabricast.core.errors import InputError
from fabricast.inputs.cluster_files import ClusterStatement, NodeKind
from fabricast.machine.build import MACHINE_CONTENTS, load_facts, machine_from
from fabricast.machine.options import MachineOptions
from fabricast.nccl.records import NcclTestsTable
from fabricast.pcie.topology.builtin import node_names

#: Statements that a file and a user can make.
_OF_BOTH = ("nodes", "network", "gpus", "oversubscription", "gpus_per_process", "gpudirect", "nvls", "nccl_version")


def kinds_of(
    statement: ClusterStatement, options: ClusterOptions, gpu: str | None = None
) -> list[tuple[Cluster, ClusterOptions, int]]:
    """Return each kind of nodes, what is stated about the whole cluster, and the number of nodes of this kind."""
    if options.nodes is not None and len(statement.kinds) > 1:
        raise InputError("is stated for a cluster whose file lists its nodes", argument="nodes")
    whole = _options_of(statement, options)
    found = []
    counts: dict[tuple[str, str | None], int] = {}
    for kind in statement.kinds:
        counts[kind.node, kind.nic] = counts.get((kind.node, kind.nic), 0) + kind.count
    for kind in (NodeKind(node, count, nic) for (node, nic), count in counts.items()):
        if is_builtin_node(kind.node):
            node = node_of(kind.node)
        else:
            facts = load_facts([kind.node], *MACHINE_CONTENTS)
            node = cluster_of_machine(machine_from(facts, MachineOptions(gpu=gpu or statement.gpu, network_cards=True)))
        found.append((node, replace(whole, nic=options.nic or kind.nic), kind.count))
    used = {min(whole.gpus or node.gpus, node.gpus) for node, _, _ in found}
    if len(used) > 1:
        text = f"is unspecified, but the nodes have {' and '.join(map(str, sorted(used)))} GPUs: specify those in use"
        raise InputError(text, argument="gpus")
    return found


def _options_of(statement: ClusterStatement, options: ClusterOptions) -> ClusterOptions:
    """Return the statements of a file; those of the user precede them."""
    of_file: dict[str, Any] = {name: getattr(statement, name) for name in _OF_BOTH}
    of_user = {one.name: getattr(options, one.name) for one in fields(options)}
    known = {name: value for name, value in of_user.items() if value is not None}
    return ClusterOptions(**{**of_file, **known, "env": {**statement.env, **(options.env or {})}})


def ignored_keys(statement: ClusterStatement) -> list[str]:
    """Return the keys of a cluster that have no effect on collective operations."""
    return [
        name for name in ("switches", "hosts", "latency_us", "process_gbyte_s") if getattr(statement, name) is not None
    ]


def names_linked_gpus(tables: Sequence[NcclTestsTable]) -> bool:
    """Return whether a table names GPUs of a built-in node, which have direct links."""
    families = {gpu_family(node_of(name).gpu) for name in node_names()}
    return any(gpu_family(gpu) in families for table in tables for gpu in table.gpus[:1])


def node_of_tables(tables: Sequence[NcclTestsTable]) -> Cluster:
    """Return the built-in node with the GPUs that tables of nccl-tests name, and as many of them on each host."""
    named = [table for table in tables if table.gpus and table.ranks]
    if not named:
        raise InputError("expected files of a machine, or the name of a node that is built in", argument="node")
    table = named[0]
    families = {gpu_family(gpu) for one in named for gpu in one.gpus}
    if len(families) > 1:
        raise InputError(f"names GPUs of several models ({', '.join(sorted(families))}), expected one", argument="log")
    count, family = len(table.gpus) // max(table.hosts, 1), gpu_family(table.gpus[0])
    fitting = [
        node
        for node in map(node_of, node_names())
        if gpu_family(node.gpu) == family and (node.gpus == count or (node.gpus > count and table.hosts <= 1))
    ]
    exact = [node for node in fitting if node.gpus == count] or fitting
    if len(exact) != 1:
        raise InputError(
            f"{count} x {table.gpus[0]} on each host is {'no' if not exact else 'not only one'} built-in node: add "
            "'nvidia-smi topo -m' or another description of the machine, or name a node"
        )
    return replace(exact[0], gpus=count, cards=max(1, exact[0].cards * count // exact[0].gpus), is_node_assumed=True)
