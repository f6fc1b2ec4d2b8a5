"""A machine: its topology, rates, limits, measurements and settings, each number with its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.pair_rates import PublicShare
from fabricast.machine.measurements import Measurements, rates_of
from fabricast.machine.options import MachineOptions
from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.machines.calibrate import calibrate_machine, uncalibrated
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.models.parameters import MachineParameters, default_share_of, machine_parameters
from fabricast.pcie.topology.memory import is_host, with_host_memory
from fabricast.pcie.topology.tree import PcieTree

_Pair = tuple[str, str]
#: Relative difference above which an option contradicts a measurement.
_CONTRADICTS = 0.15
_PUBLIC_SHARE = "median share of the links on public machines"


@dataclass(frozen=True, repr=False)
class Machine:
    """All facts about one machine, in one place.

    Parameters
    ----------
    tree : PcieTree
        Topology with direct links, network cards, pairs without peer access, and warnings about assumptions.
    measured : Measurements
        Measured copies.
    models : mapping of str to str
        Product name of GPUs by endpoint.
    options : MachineOptions
        What the user states.
    facts : Facts
        Facts of all files.

    Examples
    --------
    >>> import fabricast as fc
    >>> machine = fc.load_machine(["storm8"])
    >>> machine.tree.name, machine.parameters.tau
    ('storm8', 0.1735)
    """

    tree: PcieTree
    measured: Measurements = field(default_factory=Measurements)
    models: Mapping[str, str] = field(default_factory=dict)
    options: MachineOptions = field(default_factory=MachineOptions)
    facts: Facts = field(default_factory=Facts)

    @cached_property
    def with_memory(self) -> PcieTree:
        """Topology with host memory as endpoints, after all others."""
        return with_host_memory(self.tree)

    @property
    def graphs(self) -> list[MeasuredGraph]:
        """Measured graphs of all files."""
        return self.measured.graphs

    @property
    def is_measured(self) -> bool:
        """Whether direct copies were measured, so that they calibrate the rates."""
        return bool(self.measured.graphs)

    @property
    def warnings(self) -> tuple[CodedWarning, ...]:
        """Assumptions about the machine, and contradictions of its files and options."""
        return tuple(dict.fromkeys([*self.tree.warnings, *self.measured.warnings, *self._against_options()]))

    @cached_property
    def rates(self) -> Rates:
        """Rates and limits: those of options, before those that the measured copies of all files calibrate."""
        if not self.is_measured:
            return uncalibrated(self.parameters)
        options, rates = self.options, self.calibration
        if options.bandwidth_bytes_per_s is not None or options.parameters is not None:
            stated = self.parameters.bandwidth_bytes_per_s
            both = rates.two_way_bytes_per_s * stated / rates.one_way_bytes_per_s
            sources = {**rates.rate_sources, "one_way": self.parameters.rows[0].source}
            rates = replace(rates, one_way_bytes_per_s=stated, two_way_bytes_per_s=both, rate_sources=sources)
        if (options.tau, options.crossing_cost, options.parameters) != (None, None, None):
            crossing = rates.one_way_bytes_per_s / self.parameters.crossing_cost
            rates = replace(rates, tau=self.parameters.tau, crossing_bytes_per_s=crossing)
        return rates

    def _against_options(self) -> Iterator[CodedWarning]:
        """Yield a warning if the bandwidth by option is not the measured one."""
        stated = self.options.bandwidth_bytes_per_s
        if stated is None or not self.is_measured:
            return
        measured = self.calibration.one_way_bytes_per_s
        if abs(stated / measured - 1) > _CONTRADICTS:
            text = (
                f"the bandwidth of a single copy is {stated / 1e9:.4g} GB/s by option, but {measured / 1e9:.4g} GB/s "
                f"({self.calibration.sources['one_way']}): the option is used"
            )
            yield CodedWarning(WarningCode.MEASUREMENT_CONTRADICTED, text)

    @cached_property
    def calibration(self) -> Rates:
        """Rates calibrated by measured copies; a rate of a single copy by option is used if none was measured."""
        option = self.options.bandwidth_bytes_per_s
        return calibrate_machine(
            self.with_memory,
            self.graphs,
            one_way_bytes_per_s=self._default_bytes_per_s if option is None else option,
            one_way_source=_PUBLIC_SHARE if option is None else "option --bandwidth",
        )

    @property
    def _default_bytes_per_s(self) -> float | None:
        """Rate of an isolated copy without a measurement: of the topology, or the median share of its links."""
        stated, link = self.tree.bandwidth_bytes_per_s, self.tree.link_bytes_per_s
        return stated if stated is not None or link is None else link * default_share_of(self.tree).median

    @property
    def default_share(self) -> PublicShare | None:
        """Share of the links that single copies reach on public machines, if it determines the rates."""
        options = self.options
        if self.is_measured or self.tree.link_bytes_per_s is None:
            return None
        is_stated = options.bandwidth_bytes_per_s is not None or options.parameters is not None
        if self.tree.builtin:
            # Publications state the rates of some built-in topologies.
            is_stated |= not any(row.name == "bandwidth" and row.is_default for row in self.parameters.rows)
        # A payload that lspci states scales the default.
        is_stated |= self.tree.bandwidth_bytes_per_s is not None and not self.facts.values(Quantity.PAYLOAD)
        return None if is_stated else default_share_of(self.tree)

    def __repr__(self) -> str:
        models = ", ".join(dict.fromkeys(self.models.values())) or "GPUs"
        measured = len(self.graphs) + len(self.measured.staged)
        return (
            f"Machine '{self.tree.name}': {len(self.tree.accelerator_names)} x {models}, {measured} measured copies, "
            f"{len(self.warnings)} warnings"
        )

    @cached_property
    def parameters(self) -> MachineParameters:
        """Parameters of the models of the SC16 paper with their sources."""
        return machine_parameters(
            self.tree,
            bandwidth_bytes_per_s=self.options.bandwidth_bytes_per_s,
            tau=self.options.tau,
            crossing_cost=self.options.crossing_cost,
            parameters_file=self.options.parameters,
        )

    @property
    def staged_bytes_per_s(self) -> dict[_Pair, float]:
        """Measured rates of single copies through host memory in bytes/s."""
        return rates_of(self.measured.staged)

    @property
    def staged_both_ways_bytes_per_s(self) -> dict[_Pair, float]:
        """Measured rates of both copies of a pair through host memory together in bytes/s."""
        return rates_of(self.measured.staged_both_ways)

    @property
    def latency_s(self) -> dict[_Pair, float]:
        """Measured latency of copies between GPUs in s."""
        return rates_of(self.measured.latency)

    @cached_property
    def both_ways_bytes_per_s(self) -> dict[_Pair, float]:
        """Measured rate of each copy of bidirectional pairs of GPUs in bytes/s."""
        rates: dict[_Pair, float] = {}
        gpus = set(self.tree.accelerator_names)
        for graph in self.graphs:
            flows = graph.flows
            if graph.is_both_ways and set(flows[0]) <= gpus:
                rates.update(dict.fromkeys(flows, graph.total_bytes_per_s / 2))
        return rates

    @cached_property
    def has_host_rates(self) -> bool:
        """Whether copies of host memory were measured."""
        return any(is_host(self.with_memory, graph.flows) for graph in self.graphs)

    @cached_property
    def has_direct_copies(self) -> bool:
        """Whether a file states that a pair has peer access, or copies of a pair were measured that may have it."""
        gpus = set(self.tree.accelerator_names)
        is_granted = any(not fact.value for fact in self.facts.of(Quantity.PEER_ACCESS))
        if is_granted and len(set(self.tree.staged_pairs)) < len(gpus) * (len(gpus) - 1):
            return True
        is_assumed = any(one.code is WarningCode.PEER_ACCESS_ASSUMED for one in self.tree.warnings)
        staged = set() if is_assumed else set(self.tree.staged_pairs)
        return any(set(flow) <= gpus and flow not in staged for graph in self.graphs for flow in graph.flows)

    @property
    def tables(self) -> list[Fact]:
        """Tables of nccl-tests."""
        return list(self.facts.of(Quantity.COLLECTIVE))

    @property
    def nccl_runs(self) -> list[Fact]:
        """Statements of NCCL."""
        return list(self.facts.of(Quantity.NCCL_RUN))

    @property
    def capability(self) -> float | None:
        """Compute capability that a file states, if it is the same for all GPUs."""
        stated = set(self.facts.values(Quantity.GPU_CAPABILITY))
        return stated.pop() if len(stated) == 1 else None

    @property
    def cpu(self) -> str | None:
        """Processor that the user states, or whose family all files state."""
        stated = set(self.facts.values(Quantity.PROCESSOR))
        return self.options.cpu or (stated.pop() if len(stated) == 1 else None)

    @property
    def gpu(self) -> str | None:
        """Product name of the GPUs, if all that are known have one."""
        names = list(dict.fromkeys(self.models.values()))
        return names[0] if len(names) == 1 else None
