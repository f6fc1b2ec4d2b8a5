"""Calibrated rates and limits of a machine, their sources, and unknown limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fabricast.pcie.engines.forecast import total_rate
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.rates import LinkRates, Statistic
from fabricast.pcie.machines.exclusion import Exclusion, Reason
from fabricast.pcie.machines.group_rates import group_rate_values
from fabricast.pcie.machines.limits import (
    Limit,
    inter_socket_limits,
    inter_socket_link_count,
    inter_socket_routes,
    memory_limit,
    root_complex_limits,
    with_inter_socket_capacity,
)
from fabricast.pcie.models.parameters import MachineParameters
from fabricast.pcie.topology.memory import UNLIMITED, ends_of, is_host, is_inter_socket, memory_of_flows
from fabricast.pcie.topology.parts import PeerLink
from fabricast.pcie.topology.paths import PathClass, narrowest_link, path_class_of
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["DUPLEX_COST", "THROTTLED", "Calibration", "Estimate", "by_links", "uncalibrated"]

#: Cost of a byte of the reverse direction if no bidirectional pair was measured: median of three machines with PCIe 5.0
#: switches (config/published/pcie_concurrent_copies.csv).
DUPLEX_COST = 0.03
#: Copies that are slower than their links by this share are limited by something else.
THROTTLED = 0.05


@dataclass(frozen=True)
class Estimate:
    """A measured bandwidth limit.

    Parameters
    ----------
    bytes_per_s : float
        Limit in bytes/s.
    source : str
        Measurements that it is based on.
    is_lower_bound : bool, default False
        Whether the links limited the measured copies, so that the limit is this or more.
    copies : float, default inf
        Number of copies that reached the limit; more copies reach it too.
    """

    bytes_per_s: float
    source: str
    is_lower_bound: bool = False
    copies: float = np.inf


@dataclass(frozen=True)
class Calibration:
    """Rates and bandwidth limits of a machine with their sources.

    Parameters
    ----------
    rates : LinkRates
        Rates of single copies by path class and of bidirectional pairs.
    estimates : mapping of Limit to Estimate
        Measured limits that several copies share.
    rate_sources : mapping of str to str
        Source of each rate by name.
    used : frozenset of str
        Names of the graphs used for calibration; these are excluded from validation.
    direct_links : tuple of PeerLink, default ()
        Direct links between GPUs, with the measured rates of single copies or the rates in the topology.
    direct_links_measured : bool, default False
        Whether single copies over direct links were measured.
    links_calibrated : bool, default True
        Whether the rate of a link is known; if not, `rates` has the rate of copies through the root complex.
    measured_classes : frozenset of str, optional
        Path classes with a measured single copy or bidirectional pair; None if there are no measurements.
    calibrated_widths : mapping of str to float
        Largest link width, relative to a link of capacity 1, for which a path class is calibrated. Path classes not
        listed are calibrated for all widths.
    slow_bidirectional : bool, default False
        Whether bidirectional pairs across a root complex are much slower than single copies.
    """

    rates: LinkRates
    estimates: Mapping[Limit, Estimate]
    rate_sources: Mapping[str, str]
    used: frozenset[str] = frozenset()
    direct_links: tuple[PeerLink, ...] = ()
    direct_links_measured: bool = False
    links_calibrated: bool = True
    measured_classes: frozenset[PathClass] | None = None
    calibrated_widths: Mapping[PathClass, float] = field(default_factory=dict)
    slow_bidirectional: bool = False

    def estimate(self, limit: Limit) -> Estimate | None:
        """Return the estimate of a limit; None if no probe measured it."""
        return self.estimates.get(limit)

    def limit(self, limit: Limit) -> float | None:
        """Return a measured limit in bytes/s; None if it is unknown or a lower bound."""
        estimate = self.estimates.get(limit)
        return None if estimate is None or estimate.is_lower_bound else estimate.bytes_per_s

    def lower_bound(self, limit: Limit) -> float | None:
        """Return a lower bound in bytes/s; None if it is unknown or the limit is measured."""
        estimate = self.estimates.get(limit)
        return estimate.bytes_per_s if estimate is not None and estimate.is_lower_bound else None

    @property
    def sources(self) -> dict[str, str]:
        """Source of each rate and limit by name."""
        return {**self.rate_sources, **{str(limit): estimate.source for limit, estimate in self.estimates.items()}}

    @property
    def values(self) -> dict[str, float | None]:
        """Rates and limits in bytes/s, with the same names as in `sources`."""
        rates, direct = self.rates, [link.bytes_per_s for link in self.direct_links if link.bytes_per_s is not None]
        return {
            **({"direct_link": float(np.median(direct))} if direct else {}),
            "one_way": rates.one_way_bytes_per_s,
            "two_way": rates.two_way_bytes_per_s,
            "crossing": rates.crossing_bytes_per_s,
            "between_roots": rates.between_roots_bytes_per_s,
            "host_in": rates.host_in_bytes_per_s,
            "host_out": rates.host_out_bytes_per_s,
            "remote_in": rates.remote_in_bytes_per_s,
            "remote_out": rates.remote_out_bytes_per_s,
            "tau": rates.tau,
            "crossing_cost": rates.crossing_cost,
            **group_rate_values(rates.group_rates),
            **{str(limit): estimate.bytes_per_s for limit, estimate in self.estimates.items()},
        }

    def unknown(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> list[Exclusion]:
        """Return the limits of some copies that neither a probe nor the topology determines."""
        missing = []
        if not self._inter_socket_known(tree, flows):
            text = "no probe measured the capacity of the link between root complexes for these copies"
            missing.append(Exclusion(Reason.NO_INTER_SOCKET_PROBE, text))
        if memory := self._unknown_memory(tree, flows):
            missing.append(Exclusion(Reason.NO_MEMORY_PROBE, f"no probe measured {memory}"))
        elif self._root_complex_unknown(tree, flows):
            text = "no probe measured the bidirectional capacity of the root complex"
            missing.append(Exclusion(Reason.NO_ROOT_COMPLEX_PROBE, text))
        return missing

    def _inter_socket_known(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> bool:
        """Return whether the capacity of inter-socket links is known for some copies."""
        needed = inter_socket_limits(tree, flows)
        crossing = _between_roots(tree, flows)
        if len(needed) > 1:
            # Copies between GPUs and copies of memory were not measured together.
            return False
        for limit, ways in needed.items():
            if not self._each_direction_known(tree, limit, crossing):
                return False
            estimate = self.estimates.get(limit)
            reached_with = np.inf if estimate is None or estimate.is_lower_bound else estimate.copies
            if _at_once(tree, crossing) / inter_socket_link_count(limit, ways) >= reached_with:
                return True
            single_known = all(self._single_copy_known(tree, flow) for flow in crossing)
            if len(ways) == 1 or (self.measured_classes is not None and not single_known):
                return single_known
            most = (self.lower_bound(limit) or 0.0) * inter_socket_link_count(limit, ways)
            return self.limit(limit) is not None or by_links(tree, crossing, self.rates) <= most * (1 + THROTTLED)
        return True

    def _each_direction_known(self, tree: PcieTree, limit: Limit, flows: Sequence[tuple[str, str]]) -> bool:
        """Return whether a bidirectional limit also determines the rate per direction."""
        if not limit.is_bidirectional or limit.one_way in self.estimates:
            return True
        estimate = self.estimates.get(limit)
        total = np.inf if estimate is None else estimate.bytes_per_s
        directions: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for flow, way in zip(flows, inter_socket_routes(tree, flows), strict=True):
            directions.setdefault(way, []).append(flow)
        if len({len(group) for group in directions.values()}) == 1:
            return True
        return all(by_links(tree, group, self.rates) <= total / 2 * (1 + THROTTLED) for group in directions.values())

    def _single_copy_known(self, tree: PcieTree, flow: tuple[str, str]) -> bool:
        """Return whether the rate of a single copy to another root complex is known."""
        if self.measured_classes is None:
            return not is_host(tree, [flow])
        source, target = (tree.endpoint_number[end] for end in ends_of(tree, flow))
        path_class = path_class_of(tree, source, target)
        width = self.calibrated_widths.get(path_class, np.inf)
        return path_class in self.measured_classes and narrowest_link(tree, [(source, target)]) <= width

    def with_inter_socket_worst_case(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> Calibration | None:
        """Return a calibration with inter-socket links at the rate of a single copy.

        The result is None if no single copy was measured, or if copies between GPUs and copies of memory share these
        links.
        """
        worst: dict[Limit, Estimate] = {}
        needed = inter_socket_limits(tree, flows)
        if len(needed) > 1:
            return None
        for limit in needed:
            crossing = _between_roots(tree, flows)
            if self.measured_classes is None or not all(self._single_copy_known(tree, flow) for flow in crossing):
                return None
            numbers = [tuple(tree.endpoint_number[end] for end in ends_of(tree, flow)) for flow in crossing]
            rates = [
                self.rates.of_class(path_class_of(tree, *pair)) or self.rates.one_way_bytes_per_s for pair in numbers
            ]
            for name in {limit, limit.one_way}:
                if self.limit(name) is None:
                    rate = max(min(rates), self.lower_bound(name) or 0.0)
                    worst[name] = Estimate(rate, "rate of a single copy (worst case)")
        return replace(self, estimates={**self.estimates, **worst})

    def _unknown_memory(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> str:
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
            if all_cross and self._inter_socket_known(tree, of_memory):
                # The link between sockets limits such copies more than memory does.
                continue
            limit = Limit.HOST_BOTH_WAYS if is_one_gpu else memory_limit(tree, memory, reads)
            if self.limit(limit) is not None:
                if self._each_gpu_known(tree, of_memory, limit):
                    continue
                return "the bidirectional host-memory rate of one GPU"
            most = self.lower_bound(limit)
            direction = "bidirectional copies" if is_both_ways else "several GPUs"
            if most is None:
                return f"the capacity of host memory for {direction}"
            if by_links(tree, of_memory, self.rates) > most * (1 + THROTTLED):
                return (
                    f"the capacity of host memory for {direction} beyond {most / 1e9:.4g} GB/s, where only links "
                    "limited the copies"
                )
        return ""

    def _root_complex_unknown(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> bool:
        """Return whether an unknown bidirectional root-complex limit affects some copies."""
        for limit, numbers in root_complex_limits(tree, flows).values():
            if limit is not Limit.ROOT_COMPLEX_BOTH_WAYS or self.limit(limit) is not None:
                continue
            least, bound = self.limit(Limit.ROOT_COMPLEX) or np.inf, self.lower_bound(limit)
            if self.slow_bidirectional:
                least = min(least, np.inf if bound is None else bound * (1 + THROTTLED))
            elif bound is not None:
                continue
            if least < np.inf and by_links(tree, [flows[number] for number in numbers], self.rates) > least:
                return True
        return False

    def with_inter_socket_limit(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> PcieTree:
        """Return the tree with the measured capacity of the links between root complexes."""
        limit = next((limit for limit in inter_socket_limits(tree, flows) if limit in self.estimates), None)
        if limit is None:
            return tree
        rate = self.estimates[limit].bytes_per_s
        if limit.is_bidirectional:
            return with_inter_socket_capacity(tree, rate / 2 / self.rates.two_way_bytes_per_s)
        return with_inter_socket_capacity(tree, rate / self.rates.one_way_bytes_per_s)

    def _each_gpu_known(self, tree: PcieTree, flows: Sequence[tuple[str, str]], limit: Limit) -> bool:
        """Return whether the bidirectional memory rate of each GPU is known or irrelevant.

        It is irrelevant if the copies are numerous enough to reach the limit of host memory.
        """
        ends = [ends_of(tree, flow) for flow in flows]
        both = {source for source, _ in ends} & {target for _, target in ends}
        gpus = [end for end in both if not tree.vertex(end).host_memory]
        return Limit.HOST_BOTH_WAYS in self.estimates or not gpus or len(flows) >= self.estimates[limit].copies


def _at_once(tree: PcieTree, flows: Sequence[tuple[str, str]]) -> int:
    """Return the number of simultaneous copies if GPUs send and receive one at a time."""
    ends = [ends_of(tree, flow) for flow in flows]
    sides = [{end for end in side if not tree.vertex(end).host_memory} for side in zip(*ends, strict=True)]
    return min(len(flows), *(len(gpus) if len(gpus) else len(flows) for gpus in sides))


def _between_roots(tree: PcieTree, flows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [flow for flow in flows if is_inter_socket(tree, flow) and tree.peer_link(*flow) is None]


def by_links(
    tree: PcieTree, flows: Sequence[tuple[str, str]], rates: LinkRates, *, statistic: Statistic = "sum_of_copies"
) -> float:
    """Return the total rate of some copies in bytes/s if only links limit them.

    `statistic` is the rate that the benchmark prints.
    """
    pairs = [(tree.endpoint_number[s], tree.endpoint_number[t]) for s, t in (ends_of(tree, flow) for flow in flows)]
    wide = with_inter_socket_capacity(tree, UNLIMITED)
    return total_rate(wide, pairs, PROGRAMS["independent"], rates, statistic=statistic).bytes_per_s


def uncalibrated(machine: MachineParameters, *, ports: bool = True) -> Calibration:
    """Return the calibration of a machine without measurements of concurrent copies.

    >>> from fabricast.pcie.models.parameters import machine_parameters
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> machine = machine_parameters(regular_tree("flat4x2", (2, 4)), bandwidth_bytes_per_s=51.5e9)
    >>> round(uncalibrated(machine).rates.two_way_bytes_per_s / 1e9, 1)
    50.0
    """
    rate = machine.bandwidth_bytes_per_s
    crossing = rate / machine.crossing_cost if machine.crossing_cost > 1 and not ports else None
    parameter_sources = {row.name: row.source for row in machine.rows}
    source = {
        "one_way": parameter_sources["bandwidth"],
        "two_way": "duplex cost of other machines; no bidirectional pair was measured",
    }
    if crossing is not None:
        source["crossing"] = f"crossing cost {machine.crossing_cost:g}: {parameter_sources['crossing_cost']}"
    if ports:
        source |= {row.name: row.source for row in machine.rows if row.name != "bandwidth" and not row.is_default}
        rates = LinkRates(rate, rate / (1 + DUPLEX_COST), tau=machine.tau, crossing_cost=machine.crossing_cost)
        return Calibration(rates, {}, source)
    return Calibration(LinkRates(rate, rate / (1 + DUPLEX_COST), crossing), {}, source)
