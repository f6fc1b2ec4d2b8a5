"""Limits of concurrent copies that neither a probe nor the topology determines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fabricast.pcie.graphs.rates import Estimate, Limit, Rates
from fabricast.pcie.machines.exclusion import Exclusion, Reason
from fabricast.pcie.machines.limits import (
    THROTTLED,
    by_links,
    inter_socket_limits,
    inter_socket_link_count,
    inter_socket_routes,
    memory_limit,
    root_complex_limits,
    with_inter_socket_capacity,
)
from fabricast.pcie.topology.memory import UNLIMITED, ends_of, is_host, is_inter_socket, memory_of_flows
from fabricast.pcie.topology.paths import copy_class_of, narrowest_link
from fabricast.pcie.topology.tree import PcieTree


def unknown_limits(rates: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> list[Exclusion]:
    """Return the limits of some copies that neither a probe nor the topology determines."""
    missing = []
    if not _inter_socket_known(rates, tree, flows):
        text = "no probe measured the capacity of the link between root complexes for these copies"
        missing.append(Exclusion(Reason.NO_INTER_SOCKET_PROBE, text))
    if memory := _unknown_memory(rates, tree, flows):
        missing.append(Exclusion(Reason.NO_MEMORY_PROBE, f"no probe measured {memory}"))
    elif _root_complex_unknown(rates, tree, flows):
        text = "no probe measured the bidirectional capacity of the root complex"
        missing.append(Exclusion(Reason.NO_ROOT_COMPLEX_PROBE, text))
    return missing


def _inter_socket_known(rates: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> bool:
    """Return whether the capacity of inter-socket links is known for some copies."""
    needed = inter_socket_limits(tree, flows)
    crossing = _between_roots(tree, flows)
    if len(needed) > 1:
        # Copies between GPUs and copies of memory were not measured together.
        return False
    for limit, ways in needed.items():
        if not _each_direction_known(rates, tree, limit, crossing):
            return False
        estimate = rates.estimates.get(limit)
        reached_with = np.inf if estimate is None or estimate.is_lower_bound else estimate.copies
        if _at_once(tree, crossing) / inter_socket_link_count(limit, ways) >= reached_with:
            return True
        single_known = all(_single_copy_known(rates, tree, flow) for flow in crossing)
        if len(ways) == 1 or (rates.measured_classes is not None and not single_known):
            return single_known
        most = (rates.lower_bound(limit) or 0.0) * inter_socket_link_count(limit, ways)
        return rates.limit(limit) is not None or by_links(tree, crossing, rates) <= most * (1 + THROTTLED)
    return True


def _each_direction_known(rates: Rates, tree: PcieTree, limit: Limit, flows: Sequence[tuple[str, str]]) -> bool:
    """Return whether a bidirectional limit also determines the rate per direction."""
    if not limit.is_bidirectional or limit.one_way in rates.estimates:
        return True
    estimate = rates.estimates.get(limit)
    total = np.inf if estimate is None else estimate.bytes_per_s
    directions: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for flow, way in zip(flows, inter_socket_routes(tree, flows), strict=True):
        directions.setdefault(way, []).append(flow)
    if len({len(group) for group in directions.values()}) == 1:
        return True
    return all(by_links(tree, group, rates) <= total / 2 * (1 + THROTTLED) for group in directions.values())


def _single_copy_known(rates: Rates, tree: PcieTree, flow: tuple[str, str]) -> bool:
    """Return whether the rate of a single copy to another root complex is known."""
    if rates.measured_classes is None:
        return not is_host(tree, [flow])
    source, target = (tree.endpoint_number[end] for end in ends_of(tree, flow))
    path_class = copy_class_of(tree, source, target)
    width = rates.calibrated_widths.get(path_class, np.inf)
    return path_class in rates.measured_classes and narrowest_link(tree, [(source, target)]) <= width


def with_inter_socket_worst_case(rates: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> Rates | None:
    """Return rates with inter-socket links at the rate of a single copy.

    The result is None if no single copy was measured, or if copies between GPUs and copies of memory share these
    links.
    """
    worst: dict[Limit, Estimate] = {}
    needed = inter_socket_limits(tree, flows)
    if len(needed) > 1:
        return None
    for limit in needed:
        crossing = _between_roots(tree, flows)
        if rates.measured_classes is None or not all(_single_copy_known(rates, tree, flow) for flow in crossing):
            return None
        numbers = [tuple(tree.endpoint_number[end] for end in ends_of(tree, flow)) for flow in crossing]
        of_copies = [rates.of_class(copy_class_of(tree, *pair)) or rates.one_way_bytes_per_s for pair in numbers]
        for name in {limit, limit.one_way}:
            if rates.limit(name) is None:
                rate = max(min(of_copies), rates.lower_bound(name) or 0.0)
                worst[name] = Estimate(rate, "rate of a single copy (worst case)")
    return replace(rates, estimates={**rates.estimates, **worst})


def _unknown_memory(rates: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> str:
    """Describe the unknown host-memory limit of some copies; empty if all are known."""
    for memory, reads in memory_of_flows(tree, flows).items():
        specified = tree.vertex(memory).capacity < UNLIMITED
        if len(reads) == 1 or specified:
            continue
        of_memory = [flow for flow in flows if memory in ends_of(tree, flow)]
        is_one_gpu = len({end for flow in of_memory for end in ends_of(tree, flow)} - {memory}) == 1
        is_both_ways = len(set(reads)) == 2
        if is_one_gpu and not is_both_ways:
            # The link of the GPU limits its copies together as it limits one of them.
            continue
        all_cross = len(_between_roots(tree, of_memory)) == len(of_memory)
        if all_cross and _inter_socket_known(rates, tree, of_memory):
            # The link between sockets limits such copies more than memory does.
            continue
        limit = Limit.HOST_BOTH_WAYS if is_one_gpu else memory_limit(tree, memory, reads)
        if rates.limit(limit) is not None:
            if _each_gpu_known(rates, tree, of_memory, limit):
                continue
            return "the bidirectional host-memory rate of one GPU"
        most = rates.lower_bound(limit)
        direction = "bidirectional copies" if is_both_ways else "several GPUs"
        if most is None:
            return f"the capacity of host memory for {direction}"
        if by_links(tree, of_memory, rates) > most * (1 + THROTTLED):
            return (
                f"the capacity of host memory for {direction} beyond {most / 1e9:.4g} GB/s, where only links "
                "limited the copies"
            )
    return ""


def _root_complex_unknown(rates: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> bool:
    """Return whether an unknown bidirectional root-complex limit affects some copies."""
    for limit, numbers in root_complex_limits(tree, flows).values():
        if limit is not Limit.ROOT_COMPLEX_BOTH_WAYS or rates.limit(limit) is not None:
            continue
        least, bound = rates.limit(Limit.ROOT_COMPLEX) or np.inf, rates.lower_bound(limit)
        if rates.slow_bidirectional:
            least = min(least, np.inf if bound is None else bound * (1 + THROTTLED))
        elif bound is not None:
            continue
        if least < np.inf and by_links(tree, [flows[number] for number in numbers], rates) > least:
            return True
    return False


def with_inter_socket_limit(rates: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> PcieTree:
    """Return the tree with the measured capacity of the links between root complexes."""
    limit = next((limit for limit in inter_socket_limits(tree, flows) if limit in rates.estimates), None)
    if limit is None:
        return tree
    rate = rates.estimates[limit].bytes_per_s
    if limit.is_bidirectional:
        return with_inter_socket_capacity(tree, rate / 2 / rates.two_way_bytes_per_s)
    return with_inter_socket_capacity(tree, rate / rates.one_way_bytes_per_s)


def _each_gpu_known(rates: Rates, tree: PcieTree, flows: Sequence[tuple[str, str]], limit: Limit) -> bool:
    """Return whether the bidirectional memory rate of each GPU is known or irrelevant.

    It is irrelevant if the copies are numerous enough to reach the limit of host memory.
    """
    ends = [ends_of(tree, flow) for flow in flows]
    both = {source for source, _ in ends} & {target for _, target in ends}
    gpus = [end for end in both if not tree.vertex(end).host_memory]
    return Limit.HOST_BOTH_WAYS in rates.estimates or not gpus or len(flows) >= rates.estimates[limit].copies


def _at_once(tree: PcieTree, flows: Sequence[tuple[str, str]]) -> int:
    """Return the number of simultaneous copies if GPUs send and receive one at a time."""
    ends = [ends_of(tree, flow) for flow in flows]
    sides = [{end for end in side if not tree.vertex(end).host_memory} for side in zip(*ends, strict=True)]
    return min(len(flows), *(len(gpus) if len(gpus) else len(flows) for gpus in sides))


def _between_roots(tree: PcieTree, flows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [flow for flow in flows if is_inter_socket(tree, flow) and tree.peer_link(*flow) is None]
