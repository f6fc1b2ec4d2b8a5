"""A machine that runs collective operations: topology, ranks, measured rates and latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from fabricast.collectives.settings import NcclSettings
from fabricast.collectives.view import nccl_system
from fabricast.core.errors import InputError, PeerLinkError, unknown_name
from fabricast.core.warnings import Warning, WarningCode
from fabricast.nccl.system import NcclSystem
from fabricast.pcie.machines.calibrate import calibrate_machine
from fabricast.pcie.machines.calibration import Calibration
from fabricast.pcie.machines.engine_model import EngineModel
from fabricast.pcie.measurements.files import copies_of_machine
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.measurements.pair_tables import pair_latencies
from fabricast.pcie.models.parameters import machine_parameters
from fabricast.pcie.topology.memory import HOST, is_host, nearest_memory, socket_of, with_host_memory
from fabricast.pcie.topology.tree import PcieTree, single_copy_rate_of

__all__ = ["CollectiveMachine", "collective_machine", "has_gen5_links"]

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
class CollectiveMachine:
    """Ranks of one host with the rates and latencies of their copies.

    Parameters
    ----------
    tree : PcieTree
        Topology with host memory as endpoints.
    ranks : tuple of str
        Endpoint of each rank.
    settings : NcclSettings
        Settings of NCCL.
    model : EngineModel
        Recommended PCIe model, calibrated for this machine.
    both_ways_bytes_per_s : mapping of (str, str) to float
        Measured rate of each copy of bidirectional pairs, in bytes/s.
    latency_s : mapping of (str, str) to float
        Measured latency of copies between GPUs in s; empty if none was measured.
    has_host_rates : bool
        Whether copies of host memory were measured.
    warnings : tuple of Warning
        Assumptions about the machine.
    """

    tree: PcieTree
    ranks: tuple[str, ...]
    settings: NcclSettings
    model: EngineModel
    both_ways_bytes_per_s: Mapping[tuple[str, str], float]
    latency_s: Mapping[tuple[str, str], float]
    has_host_rates: bool
    warnings: tuple[Warning, ...]

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
        measured = self.model.calibration.measured_classes
        if not self.has_host_rates or measured is None:
            return self.has_host_rates
        sockets = {socket_of(self.tree, rank) for rank in self.ranks}
        return len(sockets) == 1 or bool({"remote_in", "remote_out"} & measured)

    @cached_property
    def model_of_host_copies(self) -> EngineModel:
        """PCIe model of steps with host memory; if rates are unknown, links and near host memory limit them."""
        if self.knows_host_memory or self.model.calibration.measured_classes is None:
            return self.model
        rates = self.model.calibration.rates
        known = (rates.one_way_bytes_per_s, rates.host_in_bytes_per_s, rates.host_out_bytes_per_s)
        rate = min(one for one in known if one is not None)
        return EngineModel(self.tree, machine_parameters(self.tree, bandwidth_bytes_per_s=rate), program="independent")

    def latency_of(self, source: int, target: int) -> float:
        """Return the latency of a copy between two ranks in s."""
        pair = self.ranks[source], self.ranks[target]
        found = self.latency_s.get(pair, self.latency_s.get(pair[::-1]))
        if found is None:
            measured = list(self.latency_s.values())
            return float(np.median(measured)) if measured else _DEFAULT_LATENCY_S[self.is_gen5]
        return found


def collective_machine(
    tree: PcieTree,
    *,
    ranks: Sequence[str] | None = None,
    settings: NcclSettings | None = None,
    measurements: Path | str | None = None,
    system: str | None = None,
) -> CollectiveMachine:
    """Return a machine with rates from measured copies, or from its link rates."""
    settings = NcclSettings() if settings is None else settings
    names = _ranks(tree, ranks)
    linked = [pair for pair in ((a, b) for a in names for b in names) if _is_linked(tree, pair)]
    if linked:
        source, target = linked[0]
        raise PeerLinkError(
            f"GPUs {source} and {target} of '{tree.name}' are connected by {tree.peer_link(source, target)}: forecasts "
            "of collective operations are for GPUs that are connected only by PCIe"
        )
    warnings: list[Warning] = []
    both_ways: dict[tuple[str, str], float] = {}
    latency_s: dict[tuple[str, str], float] = {}
    has_host_rates = False
    rates: Calibration | None = None
    if measurements is not None:
        copies = copies_of_machine(tree, measurements, system=system)
        with_memory = with_host_memory(tree)
        rates = calibrate_machine(with_memory, copies.graphs, one_way_bytes_per_s=single_copy_rate_of(tree))
        warnings += copies.warnings
        both_ways = _both_ways(copies.graphs)
        warnings += _contradictions(copies.graphs, both_ways)
        has_host_rates = any(is_host(with_memory, graph.flows) for graph in copies.graphs)
        latency_s = pair_latencies(tree, measurements, system=system)
    model = EngineModel(tree, machine_parameters(tree) if rates is None else rates, program="independent")
    if not latency_s:
        default = _DEFAULT_LATENCY_S[has_gen5_links(tree)]
        warnings.append(
            Warning(
                WarningCode.LATENCY_ASSUMED,
                f"no latency of copies between GPUs was measured: {default * 1e6:g} us is assumed, the median of other "
                "machines; forecasts below 1 MiB depend on it; measure it with p2pBandwidthLatencyTest",
            )
        )
    return CollectiveMachine(model.tree, names, settings, model, both_ways, latency_s, has_host_rates, tuple(warnings))


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


def _both_ways(graphs: Sequence[MeasuredGraph]) -> dict[tuple[str, str], float]:
    """Return the measured rate of each copy of bidirectional pairs of GPUs in bytes/s."""
    rates: dict[tuple[str, str], float] = {}
    for graph in graphs:
        flows = graph.flows
        if len(flows) == 2 and flows[0] == flows[1][::-1] and HOST not in flows[0]:
            rates.update(dict.fromkeys(flows, graph.total_bytes_per_s / 2))
    return rates


def _contradictions(graphs: Sequence[MeasuredGraph], both_ways: Mapping[tuple[str, str], float]) -> list[Warning]:
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
        Warning(
            WarningCode.CALIBRATION_CONTRADICTED,
            f"{len(beyond)} pairs are faster in both directions at once than twice in one direction, for example "
            f"{source}>{target}: {2 * both_ways[source, target] / 1e9:.4g} GB/s both ways, {one_way / 1e9:.4g} GB/s "
            "one way; the one-way rate is used; measure both with the same program",
        )
    ]
