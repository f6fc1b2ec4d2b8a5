"""GPUs of one host that run collective operations: ranks, NCCL's view of them, and the rates of their copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from fabricast.collectives.view import nccl_system
from fabricast.core.errors import InputError, PeerLinkError, unknown_name
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.machine.machine import Machine
from fabricast.machine.measurements import rates_of
from fabricast.machine.staging import StagedRates
from fabricast.nccl.settings import NcclSettings
from fabricast.nccl.system import NcclSystem, PathType
from fabricast.pcie.machines.engine_model import EngineModel
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.models.parameters import machine_parameters
from fabricast.pcie.topology.memory import nearest_memory, socket_of
from fabricast.pcie.topology.tree import PcieTree

#: Latency in s of copies between GPUs if none was measured: medians of given machines, with and without PCIe Gen5.
_DEFAULT_LATENCY_S = {False: 1.35e-6, True: 0.45e-6}
#: Raw rate of PCIe Gen5 x8 and Gen4 x16 in bytes/s; links of faster machines are Gen5 or newer.
_GEN5_BYTES_PER_S = 40e9
#: Measured bidirectional rates above twice the one-way rate by more than this share contradict it.
_CONTRADICTS = 0.1


def has_gen5_links(tree: PcieTree) -> bool:
    """Return whether links of capacity 1 are PCIe Gen5 or newer; False if their rate is unknown."""
    return (tree.link_bytes_per_s or 0.0) > _GEN5_BYTES_PER_S


@dataclass(frozen=True)
class Communicator:
    """Ranks of one host."""

    machine: Machine
    ranks: tuple[str, ...]  # Endpoint of each rank
    settings: NcclSettings  # Settings of NCCL
    warnings: tuple[CodedWarning, ...] = ()  # Assumptions about the machine and the settings

    @cached_property
    def model(self) -> EngineModel:
        """Recommended PCIe model of the machine."""
        return EngineModel(self.machine.tree, self.machine.rates, program="independent")

    @property
    def tree(self) -> PcieTree:
        """Topology with host memory as endpoints."""
        return self.model.tree

    @cached_property
    def has_bridges(self) -> bool:
        """Whether bridges join some of the GPUs."""
        return bool(_linked_pairs(self.tree, self.ranks))

    def is_bridged(self, source: int, target: int) -> bool:
        """Return whether a bridge joins two ranks, and no setting keeps NCCL from it."""
        level = self.settings.p2p_level
        is_permitted = not self.settings.disabled_by and (level is None or level >= PathType.NVL)
        return is_permitted and _is_linked(self.tree, (self.ranks[source], self.ranks[target]))

    @cached_property
    def nccl(self) -> NcclSystem:
        """The machine as NCCL sees it."""
        return nccl_system(self.tree, self.ranks, self.settings)

    @cached_property
    def memory(self) -> tuple[str, ...]:
        """Host memory nearest to each rank."""
        nearest, names = nearest_memory(self.tree), self.tree.endpoint_names
        return tuple(names[nearest[self.tree.endpoint_number[rank]]] for rank in self.ranks)

    @property
    def is_gen5(self) -> bool:
        """Whether the links of GPUs are PCIe Gen5 or newer."""
        rate = self.tree.link_bytes_per_s or 0.0
        return bool(rate * min(self.tree.vertex(rank).capacity for rank in self.ranks) > _GEN5_BYTES_PER_S)

    @cached_property
    def knows_host_memory(self) -> bool:
        """Whether the rates of all copies of host memory in a ring are known: near, and of other sockets."""
        measured = self.machine.rates.measured_classes
        if not self.machine.has_host_rates or measured is None:
            return self.machine.has_host_rates
        sockets = {socket_of(self.tree, rank) for rank in self.ranks}
        return len(sockets) == 1 or bool({"remote_in", "remote_out"} & measured)

    @cached_property
    def model_of_host_copies(self) -> EngineModel:
        """PCIe model of steps with host memory; if rates are unknown, links and near host memory limit them."""
        if self.knows_host_memory or self.machine.rates.measured_classes is None:
            return self.model
        rates = self.machine.rates
        one_way = rates.one_way_bytes_per_s
        if any(one.code is WarningCode.SLOWER_THAN_STAGED for one in self.machine.measured.warnings):
            # Both halves of a staged copy are at least as fast as the whole.
            one_way = max(one_way, float(np.median(list(rates_of(self.machine.measured.staged).values()))))
        known = (one_way, rates.host_in_bytes_per_s, rates.host_out_bytes_per_s)
        rate = min(one for one in known if one is not None)
        return EngineModel(self.tree, machine_parameters(self.tree, bandwidth_bytes_per_s=rate), program="independent")

    @cached_property
    def slow_shares(self) -> NDArray[np.float64]:
        """Rate of staged copies between two ranks relative to that of most pairs, where it is much lower.

        Shapes: result (ranks, ranks); 1 for other pairs, without measured pairs, and if rates of host memory are known.
        """
        share = np.ones((len(self.ranks), len(self.ranks)))
        if self.knows_host_memory:
            return share
        staged, rank = StagedRates(self.machine), {name: number for number, name in enumerate(self.ranks)}
        for one, other in staged.slow_pairs:
            if one in rank and other in rank:
                share[rank[one], rank[other]] = staged.share_of_usual(one, other)
                # A pair that was measured in one direction, or in both at once, is slow in both.
                share[rank[other], rank[one]] = staged.share_of_usual(other, one)
        return share

    def latency_of(self, source: int, target: int) -> float:
        """Return the latency of a copy between two ranks in s."""
        pair = self.ranks[source], self.ranks[target]
        found = self.machine.latency_s.get(pair, self.machine.latency_s.get(pair[::-1]))
        if found is None:
            measured = list(self.machine.latency_s.values())
            return float(np.median(measured)) if measured else _DEFAULT_LATENCY_S[self.is_gen5]
        return found


def communicator(
    machine: Machine,
    *,
    ranks: Sequence[str] | None = None,
    settings: NcclSettings | None = None,
    warnings: Sequence[CodedWarning] = (),
) -> Communicator:
    """Return the ranks of a machine; by default all GPUs."""
    tree = machine.tree
    names = _ranks(tree, ranks)
    linked = _linked_pairs(tree, names)
    if not rings_pass_pcie(tree, names):
        source, target = linked[0]
        raise PeerLinkError(
            f"GPUs {source} and {target} of '{tree.name}' are connected by {tree.peer_link(source, target)}: forecasts "
            "of collective operations are for GPUs that are connected only by PCIe"
        )
    if linked:
        text = (
            "rings of more than two GPUs also pass PCIe, which limits them: rings are those that NCCL "
            "finds without bridges"
        )
        warnings = [*warnings, CodedWarning(WarningCode.NCCL_SETTING_ASSUMED, text)]
    own = [*machine.warnings, *_contradictions(machine.graphs, machine.both_ways_bytes_per_s)]
    if not machine.latency_s:
        default = _DEFAULT_LATENCY_S[has_gen5_links(tree)]
        text = (
            f"no latency of direct copies between GPUs was measured: {default * 1e6:g} us is assumed, the median of "
            "other machines; forecasts below 1 MiB depend on it; measure it with p2pBandwidthLatencyTest"
        )
        own.append(CodedWarning(WarningCode.LATENCY_ASSUMED, text))
    settings = NcclSettings() if settings is None else settings
    return Communicator(machine, names, settings, tuple(dict.fromkeys([*own, *warnings])))


def rings_pass_pcie(tree: PcieTree, names: Sequence[str]) -> bool:
    """Return whether a ring of GPUs passes PCIe: without direct links, or with bridges that join only pairs of them.

    >>> from fabricast.pcie.topology.builtin import load_tree
    >>> rings_pass_pcie(load_tree("storm8"), "0123"), rings_pass_pcie(load_tree("hgx_h100"), "0123")
    (True, False)
    """
    partners = Counter(source for source, _ in _linked_pairs(tree, names))
    return max(partners.values(), default=0) < (1 if len(names) == 2 else 2)


def _linked_pairs(tree: PcieTree, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of GPUs with a direct link, in both directions."""
    return [pair for pair in permutations(names, 2) if _is_linked(tree, pair)]


def _is_linked(tree: PcieTree, pair: tuple[str, str]) -> bool:
    """Return whether two different GPUs have a direct link."""
    return pair[0] != pair[1] and tree.peer_link(*pair) is not None


def _ranks(tree: PcieTree, ranks: Sequence[str] | None) -> tuple[str, ...]:
    """Return the endpoint of each rank."""
    known = tree.accelerator_names
    names = tuple(known if ranks is None else ranks)
    for name in names:
        if name not in known:
            raise unknown_name("rank", name, known[:16])
        if names.count(name) > 1:
            raise InputError(f"contains '{name}' twice, expected one rank per GPU", argument="ranks")
    if not 2 <= len(names) <= 16:
        text = f"{len(names)} {'GPU' if len(names) == 1 else 'GPUs'}, expected 2 to 16 of one host"
        if ranks is None:
            raise InputError(f"topology '{tree.name}' has {text}")
        raise InputError(f"has {text}", argument="ranks")
    return names


def _contradictions(graphs: Sequence[MeasuredGraph], both_ways: Mapping[tuple[str, str], float]) -> list[CodedWarning]:
    """Return a warning if a bidirectional pair is more than twice as fast as a single copy."""
    beyond = [
        (both_ways[graph.flows[0]] / graph.total_bytes_per_s, graph.flows[0], graph.total_bytes_per_s)
        for graph in graphs
        if len(graph.flows) == 1 and graph.flows[0] in both_ways
    ]
    beyond = [found for found in beyond if found[0] > 1 + _CONTRADICTS]
    if not beyond:
        return []
    _, (source, target), one_way = max(beyond)
    return [
        CodedWarning(
            WarningCode.CALIBRATION_CONTRADICTED,
            f"{len(beyond)} pairs are faster in both directions at once than twice in one direction, for example "
            f"{source}>{target}: {2 * both_ways[source, target] / 1e9:.4g} GB/s both ways, {one_way / 1e9:.4g} GB/s "
            "one way; the one-way rate is used; measure both with the same program",
        )
    ]
