"""Rates of a machine, where each comes from, and what they tell and do not tell of some copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fabricast.pcie.engines.forecast import total_rate
from fabricast.pcie.engines.links import LinkRates
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.machines.limits import (
    memory_limit,
    root_complex_limits,
    root_link_count,
    root_link_limits,
    ways_between_roots,
    with_root_link_capacity,
)
from fabricast.pcie.models.parameters import MachineParameters
from fabricast.pcie.topology.memory import (
    UNLIMITED,
    ends_of,
    is_between_roots,
    is_host,
    memory_of_flows,
)
from fabricast.pcie.topology.parts import PeerLink
from fabricast.pcie.topology.paths import Way, narrowest_link, way_of
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["DUPLEX_COST", "HELD_BACK", "Calibration", "by_links", "uncalibrated"]

#: What a byte of the other direction costs where no two-way pair was measured: median of three machines with PCIe 5.0
#: switches (config/published/pcie_concurrent_copies.csv).
DUPLEX_COST = 0.03
#: Copies that are slower than their links by this share are held back by something else.
HELD_BACK = 0.05


@dataclass(frozen=True)
class Calibration:
    """Rates of a machine, and where each of them comes from.

    Parameters
    ----------
    rates : LinkRates
        One way, two ways, across the root complex.
    limits : dict of str to float
        In bytes/s, those that probes tell: ``memory_read``, ``memory_write`` and ``memory_both_ways``, what the memory
        of a root complex serves to, takes from and carries for all its GPUs; the same with ``_of_a_node``, of one of
        several NUMA nodes below a root complex; ``host_both_ways``, what one GPU reads and writes there at once;
        ``root_complex``, what copies between GPUs reach together across a root complex; ``root_complex_link`` and
        ``remote_memory``, what copies between GPUs, and copies of memory, carry from one root complex to another; the
        last three also with ``_both_ways``.
    source : dict of str to str
        Origin of each by name.
    used : frozenset of str
        Graphs that were used, which are not judged.
    direct_links : tuple of PeerLink, default ()
        Direct links between GPUs with what copies alone reached over them, else with what the topology tells.
    at_least : dict of str to float
        In bytes/s, what copies of a probe reached that links alone held back: the limit is this or more.
    measured_ways : frozenset of str, optional
        Kinds of ways of which a copy alone or an opposite pair was measured; None if there are no measurements.
    reached_with : dict of str to float
        With how many copies each limit was reached, which more of them reach too.
    told_widths : dict of str to float
        Up to which narrowest link, as a share of a link of capacity 1, a kind of way is told; others are in full.
    slow_opposite : bool, default False
        Whether opposite pairs across a root complex get far less than copies alone.
    tells_links : bool, default True
        Whether anything tells what a link carries; if not, `rates` has what copies through the root complex reach,
        between GPUs or of memory.
    """

    rates: LinkRates
    limits: dict[str, float]
    source: dict[str, str]
    used: frozenset[str]
    direct_links: tuple[PeerLink, ...] = ()
    tells_links: bool = True
    at_least: dict[str, float] = field(default_factory=dict)
    measured_ways: frozenset[Way] | None = None
    reached_with: dict[str, float] = field(default_factory=dict)
    told_widths: dict[Way, float] = field(default_factory=dict)
    slow_opposite: bool = False

    @property
    def values(self) -> dict[str, float | None]:
        """Every rate in bytes/s by the name that `source` has for it."""
        rates, direct = self.rates, [link.bytes_per_s for link in self.direct_links if link.bytes_per_s is not None]
        return {
            **({"direct_link": float(np.median(direct))} if direct else {}),
            "one_way": rates.one_way_bytes_per_s, "two_way": rates.two_way_bytes_per_s,
            "crossing": rates.crossing_bytes_per_s, "between_roots": rates.between_roots_bytes_per_s,
            "host_in": rates.host_in_bytes_per_s, "host_out": rates.host_out_bytes_per_s,
            "remote_in": rates.remote_in_bytes_per_s, "remote_out": rates.remote_out_bytes_per_s,
            **self.limits, **self.at_least,
        }  # fmt: skip

    def tells_root_link(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> bool:
        """Whether measurements tell what the link between root complexes carries for some copies."""
        needed = root_link_limits(tree, flows)
        own = _between_roots(tree, flows)
        if len(needed) > 1:
            # Nobody measured copies between GPUs and copies of memory together.
            return False
        for name, ways in needed.items():
            if not self._tells_each_direction(tree, name, own):
                return False
            if _at_once(tree, own) / root_link_count(name, ways) >= self.reached_with.get(name, np.inf):
                return True
            alone = all(self._tells_alone(tree, flow) for flow in own)
            if len(ways) == 1 or (self.measured_ways is not None and not alone):
                return alone
            most = self.at_least.get(name, 0.0) * root_link_count(name, ways)
            return name in self.limits or by_links(tree, own, self.rates) <= most * (1 + HELD_BACK)
        return True

    def _tells_each_direction(self, tree: PcieTree, name: str, flows: Sequence[tuple[str, str]]) -> bool:
        """Whether each direction of copies both ways gets what it got when both were as many, or is told by itself."""
        stem = name.removesuffix("_both_ways")
        if stem == name or stem in self.limits or stem in self.at_least:
            return True
        known = self.limits.get(name, self.at_least.get(name, np.inf))
        directions: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for flow, way in zip(flows, ways_between_roots(tree, flows), strict=True):
            directions.setdefault(way, []).append(flow)
        if len({len(own) for own in directions.values()}) == 1:
            return True
        return all(by_links(tree, own, self.rates) <= known / 2 * (1 + HELD_BACK) for own in directions.values())

    def _tells_alone(self, tree: PcieTree, flow: tuple[str, str]) -> bool:
        """Whether the rate of a copy alone to another root complex is known."""
        if self.measured_ways is None:
            return not is_host(tree, [flow])
        source, target = (tree.endpoint_number[end] for end in ends_of(tree, flow))
        way = way_of(tree, source, target)
        return way in self.measured_ways and narrowest_link(tree, [(source, target)]) <= self.told_widths.get(
            way, np.inf
        )

    def least_of_root_link(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> Calibration | None:
        """Return these parameters with the least that links between root complexes carry: one copy of those measured.

        None where none was measured alone, or copies between GPUs and copies of memory share them.
        """
        least: dict[str, float] = {}
        needed = root_link_limits(tree, flows)
        if len(needed) > 1:
            return None
        for name in needed:
            own = _between_roots(tree, flows)
            if self.measured_ways is None or not all(self._tells_alone(tree, flow) for flow in own):
                return None
            numbers = [tuple(tree.endpoint_number[end] for end in ends_of(tree, flow)) for flow in own]
            rates = [self.rates.of_way(way_of(tree, *pair)) or self.rates.one_way_bytes_per_s for pair in numbers]
            stem = name.removesuffix("_both_ways")
            for limit in {name, stem}:
                least[limit] = max(min(rates), self.at_least.get(limit, 0.0))
        return replace(self, limits={**least, **self.limits})

    def untold_memory(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> str:
        """Return what no probe and no topology tells of the memory that some copies use; nothing if all is told."""
        for memory, reads in memory_of_flows(tree, flows).items():
            told = tree.vertex(memory).capacity < UNLIMITED
            if len(reads) == 1 or told:
                continue
            own = [flow for flow in flows if memory in ends_of(tree, flow)]
            if len(_between_roots(tree, own)) == len(own) and self.tells_root_link(tree, own):
                # What carries such copies to another socket, memory serves.
                continue
            ways = "both ways" if len(set(reads)) == 2 else "for several GPUs"
            one_gpu = self._is_one_gpu_both_ways(tree, flows, memory, reads)
            name = "host_both_ways" if one_gpu else memory_limit(tree, memory, reads)
            most = self.at_least.get(name)
            if name in self.limits:
                if self._tells_each_gpu(tree, own, name):
                    continue
                return "what one GPU reads and writes of memory at once"
            if most is None:
                return f"what memory carries {ways}"
            if by_links(tree, own, self.rates) > most * (1 + HELD_BACK):
                return f"what memory carries {ways} beyond {most / 1e9:.4g} GB/s, to which only links held copies back"
        return ""

    def untold_root_complex(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> str:
        """Return what no probe tells of a root complex that is known to hold copies back one way; nothing if all."""
        for name, numbers in root_complex_limits(tree, flows).values():
            if name != "root_complex_both_ways" or name in self.limits:
                continue
            least = self.limits.get("root_complex", np.inf)
            if self.slow_opposite:
                least = min(least, self.at_least.get(name, np.inf) * (1 + HELD_BACK))
            elif name in self.at_least:
                continue
            if by_links(tree, [flows[number] for number in numbers], self.rates) > least:
                return "what the root complex carries both ways"
        return ""

    def with_root_link_limit(self, tree: PcieTree, flows: Sequence[tuple[str, str]]) -> PcieTree:
        """Return the tree with what a probe tells of the link between root complexes as its capacity."""
        known = {**self.at_least, **self.limits}
        name = next((name for name in root_link_limits(tree, flows) if name in known), None)
        if name is None:
            return tree
        if name.endswith("both_ways"):
            return with_root_link_capacity(tree, known[name] / 2 / self.rates.two_way_bytes_per_s)
        return with_root_link_capacity(tree, known[name] / self.rates.one_way_bytes_per_s)

    def _tells_each_gpu(self, tree: PcieTree, flows: Sequence[tuple[str, str]], name: str) -> bool:
        """Whether what a GPU reads and writes of memory at once is told, or decides less than memory does."""
        ends = [ends_of(tree, flow) for flow in flows]
        both = {source for source, _ in ends} & {target for _, target in ends}
        gpus = [end for end in both if not tree.vertex(end).host_memory]
        known = "host_both_ways" in self.limits or "host_both_ways" in self.at_least
        return known or not gpus or len(flows) >= self.reached_with.get(name, np.inf)

    @staticmethod
    def _is_one_gpu_both_ways(
        tree: PcieTree, flows: Sequence[tuple[str, str]], memory: str, reads: Sequence[bool]
    ) -> bool:
        if len(reads) != 2 or len(set(reads)) != 2:
            return False
        ends = [set(ends_of(tree, flow)) for flow in flows]
        return len({other for own in ends if memory in own for other in own - {memory}}) == 1


def _at_once(tree: PcieTree, flows: Sequence[tuple[str, str]]) -> int:
    """Return how many copies run at once at most, where a GPU sends and receives one at a time."""
    ends = [ends_of(tree, flow) for flow in flows]
    sides = [{end for end in side if not tree.vertex(end).host_memory} for side in zip(*ends, strict=True)]
    return min(len(flows), *(len(gpus) if len(gpus) else len(flows) for gpus in sides))


def _between_roots(tree: PcieTree, flows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [flow for flow in flows if is_between_roots(tree, flow) and tree.peer_link(*flow) is None]


def by_links(tree: PcieTree, flows: Sequence[tuple[str, str]], rates: LinkRates, *, rates_summed: bool = True) -> float:
    """Return what some copies reach together if links alone hold them back, in bytes/s.

    Either the sum of what each reaches until its own end, or all bytes until the last end.
    """
    pairs = [(tree.endpoint_number[s], tree.endpoint_number[t]) for s, t in (ends_of(tree, flow) for flow in flows)]
    found = total_rate(with_root_link_capacity(tree, UNLIMITED), pairs, PROGRAMS["independent"], rates)
    return float(found.flow_bytes_per_s.sum()) if rates_summed else found.bytes_per_s


def uncalibrated(machine: MachineParameters) -> Calibration:
    """Return the rates of a machine of which no copies together were measured.

    Parameters
    ----------
    machine : MachineParameters
        Bandwidth of a copy alone, and what bytes behind the root complex cost.

    Examples
    --------
    >>> from fabricast.pcie.models.parameters import machine_parameters
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> machine = machine_parameters(regular_tree("flat4x2", (2, 4)), bandwidth_bytes_per_s=51.5e9)
    >>> round(uncalibrated(machine).rates.two_way_bytes_per_s / 1e9, 1)
    50.0
    """
    rate = machine.bandwidth_bytes_per_s
    crossing = rate / machine.crossing_cost if machine.crossing_cost > 1 else None
    known = {row.name: row.source for row in machine.rows}
    source = {"one_way": known["bandwidth"], "two_way": "duplex cost of other machines; no opposite pair was measured"}
    if crossing is not None:
        source["crossing"] = f"crossing cost {machine.crossing_cost:g}: {known['crossing_cost']}"
    return Calibration(LinkRates(rate, rate / (1 + DUPLEX_COST), crossing), {}, source, frozenset())
