"""Shared limits of concurrent copies: host memory, GPUs, root complexes and sockets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabricast.pcie.engines.links import SharedLimit
from fabricast.pcie.graphs.rates import Limit, Rates
from fabricast.pcie.machines.limits import (
    INTER_SOCKET_LIMITS,
    host_link_capacity,
    inter_socket_limits,
    inter_socket_routes,
    memory_limit,
    root_complex_limits,
    with_inter_socket_capacity,
)
from fabricast.pcie.topology.memory import UNLIMITED, ends_of, is_host, memory_of_flows
from fabricast.pcie.topology.tree import PcieTree


def limits_of(
    calibration: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]]
) -> tuple[PcieTree, tuple[SharedLimit, ...]]:
    """Return the measured shared limits of some copies, and the tree to use with them.

    If an inter-socket limit is measured, it replaces the capacity that the tree assumes for these links.

    >>> from fabricast.pcie.graphs.rates import Estimate, Limit, Rates
    >>> from fabricast.pcie.topology.memory import with_host_memory
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> known = Rates(50e9, 50e9, estimates={Limit.MEMORY_READ: Estimate(80e9, "")})
    >>> tree = with_host_memory(regular_tree("flat4x2", (2, 4)))
    >>> _, (limit,) = limits_of(known, tree, [("H", "0"), ("H", "4")])
    >>> limit == SharedLimit(80e9, (0, 1), name="memory of H@RC", serves_separately=True)
    True
    """
    limits = [
        *_of_memory(calibration, tree, flows),
        *_of_gpus(calibration, tree, flows),
        *_of_root_complex(calibration, tree, flows),
    ]
    if any(limit in calibration.estimates for limit in inter_socket_limits(tree, flows)):
        for stem, of_memory in INTER_SOCKET_LIMITS.items():
            limits += _of_root_link(calibration, tree, flows, stem, of_memory=of_memory)
        tree = with_inter_socket_capacity(tree, UNLIMITED)
    return tree, tuple(limits)


def _of_memory(calibration: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> Iterator[SharedLimit]:
    ends = [ends_of(tree, flow) for flow in flows]
    for memory in memory_of_flows(tree, flows):
        reads = tuple(number for number, (source, _) in enumerate(ends) if source == memory)
        writes = tuple(number for number, (_, target) in enumerate(ends) if target == memory)
        for copies, reading in ((reads, True), (writes, False)):
            limit = calibration.limit(memory_limit(tree, memory, [reading]))
            if len(copies) > 1 and limit is not None:
                yield SharedLimit(limit, copies, name=f"memory of {memory}", serves_separately=True)
        limit = calibration.limit(memory_limit(tree, memory, [True, False]))
        if reads and writes and limit is not None:
            yield SharedLimit(limit, reads, writes, f"memory of {memory}", serves_separately=True)


def _of_gpus(calibration: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> Iterator[SharedLimit]:
    limit = calibration.limit(Limit.HOST_BOTH_WAYS)
    if limit is None:
        return
    ends = [ends_of(tree, flow) for flow in flows]
    for gpu in dict.fromkeys(name for pair in ends for name in pair if not tree.vertex(name).host_memory):
        in_ = tuple(n for n, (s, t) in enumerate(ends) if t == gpu and tree.vertex(s).host_memory)
        out = tuple(n for n, (s, t) in enumerate(ends) if s == gpu and tree.vertex(t).host_memory)
        if in_ and out:
            capacity = host_link_capacity(tree, flows[in_[0]])
            yield SharedLimit(limit * capacity, in_, out, f"host copies of {gpu} in both directions")


def _of_root_complex(calibration: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> Iterator[SharedLimit]:
    for root, (limit, numbers) in root_complex_limits(tree, flows).items():
        if (total := calibration.limit(limit)) is not None:
            yield SharedLimit(total, tuple(numbers), name=f"root complex {root}")


def _of_root_link(
    calibration: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]], stem: Limit, *, of_memory: bool
) -> Iterator[SharedLimit]:
    ways = [
        (number, way)
        for number, flow in enumerate(flows)
        if is_host(tree, [flow]) is of_memory
        for way in inter_socket_routes(tree, [flow])
    ]
    one_way, both_ways = (calibration.limit(limit) for limit in (stem, Limit(f"{stem}_both_ways")))
    for root in dict.fromkeys(end for _, way in ways for end in way):
        out = tuple(number for number, (source, _) in ways if source == root)
        in_ = tuple(number for number, (_, target) in ways if target == root)
        if one_way is not None:
            name = f"link between sockets at {root}"
            yield from (SharedLimit(one_way, copies, name=name) for copies in (out, in_) if copies)
        if both_ways is not None and out and in_:
            yield SharedLimit(both_ways, out, in_, f"link between sockets at {root}")
