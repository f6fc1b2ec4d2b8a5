"""A PCIe tree as NCCL sees it."""

from __future__ import annotations

from collections.abc import Sequence

from fabricast.core.errors import InputError, UnknownSpeedError
from fabricast.nccl.settings import NcclSettings
from fabricast.nccl.system import NcclSystem, link_gb_per_s
from fabricast.pcie.topology.memory import socket_of
from fabricast.pcie.topology.tree import PcieTree


def nccl_system(tree: PcieTree, ranks: Sequence[str], settings: NcclSettings) -> NcclSystem:
    """Return the machine as NCCL sees it.

    Virtual switches, each with one upstream port, are separate switches.

    >>> from dataclasses import replace
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = replace(regular_tree("flat4x2", (2, 4)), link_bytes_per_s=31.5e9)
    >>> system = nccl_system(tree, tree.accelerator_names, NcclSettings())
    >>> system.path(0, 1).type.name, system.direct_type(0, 4).name
    ('PIX', 'PHB')
    """
    if tree.link_bytes_per_s is None:
        raise UnknownSpeedError(
            f"topology '{tree.name}' has no link rate, which NCCL's choices depend on; set link_bytes_per_s"
        )
    raw = tree.link_bytes_per_s
    numbers: dict[tuple[str, int], int] = {}
    above: list[int] = []
    rates: list[float] = []

    def number_of(switch: str, endpoint: str) -> int:
        """Return the number of the virtual switch of an endpoint, and register the switches above it."""
        key = (switch, tree.port(switch, endpoint))
        if key not in numbers:
            parent = tree.vertex(switch).parent
            is_below_switch = parent is not None and tree.vertex(parent).kind == "switch"
            number = numbers[key] = len(above)
            above.append(-1)
            rates.append(link_gb_per_s(tree.vertex(switch).capacity * raw))
            if is_below_switch:
                assert parent is not None
                above[number] = number_of(parent, endpoint)
        return numbers[key]

    parents = []
    for name in ranks:
        chain, vertex = [], tree.vertex(name).parent
        while vertex is not None and tree.vertex(vertex).kind == "switch":
            chain.append(number_of(vertex, name))
            vertex = tree.vertex(vertex).parent
        parents.append(tuple(chain))
    if settings.numa_nodes is not None and len(settings.numa_nodes) != len(ranks):
        raise InputError(
            f"has {len(settings.numa_nodes)} NUMA nodes, expected one for each of {len(ranks)} ranks", argument="numa"
        )
    return NcclSystem(
        tuple(parents),
        tuple(above),
        tuple(link_gb_per_s(tree.vertex(name).capacity * raw) for name in ranks),
        tuple(rates),
        settings.numa_nodes or _default_numa_nodes(tree, ranks),
        settings.cpu,
        settings.capability,
        settings.version,
        settings.p2p_level,
        settings.has_peer_access,
    )


def _default_numa_nodes(tree: PcieTree, ranks: Sequence[str]) -> tuple[int, ...]:
    """Return one NUMA node per socket, for topologies that do not name the NUMA nodes of GPUs."""
    sockets = [socket_of(tree, name) for name in ranks]
    order = list(dict.fromkeys(sockets))
    return tuple(order.index(socket) for socket in sockets)
