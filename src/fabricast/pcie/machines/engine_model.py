"""Models ports_and_engines and endpoint_engines: completion times with a copy engine per GPU."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError, PeerLinkError
from fabricast.core.warnings import Warning, WarningCode
from fabricast.pcie.engines.batch import graph_times
from fabricast.pcie.engines.forecast import Sharing, copy_times, isolated_rate
from fabricast.pcie.engines.links import SharedLimit
from fabricast.pcie.graphs.congestion_graphs import MOST_COPIES, CongestionGraphs
from fabricast.pcie.graphs.programs import PROGRAMS, CopyProgram, program_of
from fabricast.pcie.graphs.rates import CopyTimes
from fabricast.pcie.machines.calibration import Calibration, uncalibrated
from fabricast.pcie.machines.exclusion import Reason
from fabricast.pcie.machines.expected_errors import HOST_MEMORY, INTER_SOCKET_LINK
from fabricast.pcie.machines.group_rates import slow_link_warnings
from fabricast.pcie.machines.limits import with_inter_socket_capacity
from fabricast.pcie.machines.measured_rates import MeasuredRates
from fabricast.pcie.machines.shared_limits import limits_of
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.models.parameters import MachineParameters
from fabricast.pcie.models.removals import MOST_IN_GRAPH, MOST_OF_RANDOM
from fabricast.pcie.topology.memory import UNLIMITED, with_host_memory
from fabricast.pcie.topology.parts import direct_rates
from fabricast.pcie.topology.paths import PathClass, path_class_of
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["ENDPOINT_ENGINES", "ENGINE_MODELS", "PORTS_AND_ENGINES", "USES", "EngineModel"]

PORTS_AND_ENGINES, ENDPOINT_ENGINES = "ports_and_engines", "endpoint_engines"
#: Titles of the models by name.
ENGINE_MODELS = {
    PORTS_AND_ENGINES: "ports with back-pressure, copy engines, program order",
    ENDPOINT_ENGINES: "copy engines with max-min sharing, program order",
}
#: When to use a model; other models are readings of the SC16 paper.
USES = {
    PORTS_AND_ENGINES: "recommended for forecasts of a machine (the default)",
    ENDPOINT_ENGINES: "to see what port arbitration changes",
    "congestion_factor": "the model of the SC16 paper, to reproduce its study",
    "back_pressure": "fast forecasts of many graphs whose GPUs have one copy each",
    "max_min": "baseline: fair sharing of links",
    "busiest_link": "baseline: equal sharing of the busiest link",
    "no_contention": "baseline: no sharing",
}
_SHARING: dict[str, Sharing] = {PORTS_AND_ENGINES: "ports", ENDPOINT_ENGINES: "max_min"}
#: Program of graphs that specify none.
_PROGRAM = "listed_order"
#: Ratio of the latest to the earliest completion above which a warning is issued.
_SENSITIVE = 1.01
#: Warnings about assumptions, by code.
_ASSUMPTIONS = {
    WarningCode.PATH_CLASS_UNMEASURED: "no single copy on some of these paths was measured: the rate of other copies "
    "is assumed",
    WarningCode.DEFAULT_PROGRAM: "no program is specified: copies from one GPU are assumed to run one after the other, "
    "in the order of their rows",
    WarningCode.RANDOM_ORDER: "the order of copies is random and affects the result: elapsed_s is the mean, earliest_s "
    "to latest_s the range over draws",
    WarningCode.INTER_SOCKET_RANGE: "the capacity of the link between root complexes is unknown: the time assumes "
    "one link of the tree; the range extends from a link that limits no copy to one with the rate of a single copy",
    WarningCode.INTER_SOCKET_UNMEASURED: "no single copy between these sockets was measured: latest_s is unknown; "
    "measure one ('fabricast probes')",
    WarningCode.MEMORY_CAPACITY_UNKNOWN: "no probe measured the capacity of host memory for several copies: it is "
    "assumed not to be a bottleneck, so elapsed_s is a lower bound; measure it ('fabricast probes')",
    WarningCode.DIRECT_LINK_RATE_NOMINAL: "copies use NVLink, NVSwitch or xGMI at the rate in the topology, headers "
    "included: elapsed_s is a lower bound",
}
#: Assumptions about limits that no probe measured.
_UNPROBED = {HOST_MEMORY: WarningCode.MEMORY_CAPACITY_UNKNOWN, INTER_SOCKET_LINK: WarningCode.INTER_SOCKET_RANGE}


def _quantity(name: str, value: float | None) -> str:
    """Return a parameter with its unit."""
    return f"{value:.4g}" if name in ("tau", "crossing_cost") else f"{(value or 0.0) / 1e9:.4g} GB/s"


def _is_repeated(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each value occurs several times."""
    _, of_value, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray(counts[of_value] > 1)


class EngineModel:
    """Predict copy times on one machine and collect warnings about assumptions.

    Parameters
    ----------
    tree : PcieTree
        Topology of the machine; endpoints of host memory are added after all others.
    rates : Calibration or MachineParameters
        Calibration with measured copies, or parameters of a machine without them.
    program : str, optional
        Program of graphs that specify none; by default listed_order.
    pcie_only : bool, default False
        Whether copies between endpoints with direct links use the PCIe tree.
    seed : int, default 0
        Seed of programs with a random order.
    model : {'ports_and_engines', 'endpoint_engines'}, default 'ports_and_engines'
        Rule by which running copies share links: arbitration at ports with back-pressure, or max-min fairness.
    measured : sequence of MeasuredGraph, default ()
        Measured graphs of the machine; forecasts of the same copies that contradict them have a warning.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.models.parameters import machine_parameters
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("flat4x2", (2, 4))
    >>> model = EngineModel(tree, machine_parameters(tree, bandwidth_bytes_per_s=50e9), program="independent")
    >>> model.times(from_pairs([[(0, 1), (2, 1)]], size_bytes=50e9)).end_s.tolist()
    [2.0, 2.0]
    """

    def __init__(
        self,
        tree: PcieTree,
        rates: Calibration | MachineParameters,
        *,
        program: str | None = None,
        pcie_only: bool = False,
        seed: int = 0,
        model: str = PORTS_AND_ENGINES,
        measured: Sequence[MeasuredGraph] = (),
    ) -> None:
        self._sharing = _SHARING[model]
        if not isinstance(rates, Calibration):
            rates = uncalibrated(rates, ports=model == PORTS_AND_ENGINES)
        self.calibration = rates
        links = self.calibration.direct_links or tree.peer_links
        self.tree = replace(with_host_memory(tree), peer_links=() if pcie_only else links)
        unused = [pair for link in tree.peer_links for pair in itertools.permutations(link.endpoints, 2)]
        self.measured = MeasuredRates(self.tree, measured, self.calibration, self._sharing, unused if pcie_only else ())
        self._program = program_of(_PROGRAM if program is None else program)
        self._is_default = program is None
        self._seed = seed
        kinds = {vertex.kind for vertex in self.tree.vertices}
        self._links_only = self._sharing == "ports" and "system" not in kinds and not self.tree.peer_links
        self._of_memory = [self.tree.vertex(end).host_memory for end in self.tree.endpoint_names]
        self._direct = direct_rates(links)
        self._trees: dict[tuple[float, ...], PcieTree] = {}
        self._alone: dict[tuple[int, int], float] = {}
        self._counts: Counter[WarningCode] = Counter()
        self._examples: dict[WarningCode, str] = {}
        self._last: dict[WarningCode, str] = {}

    def times(
        self,
        graphs: CongestionGraphs,
        *,
        explain: bool = False,
        warn: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> CopyTimes:
        """Return the completion times of the copies of some graphs."""
        before = self._counts.copy(), dict(self._examples), dict(self._last)
        found = self._times(graphs, explain, progress)
        if not warn:
            self._counts, self._examples, self._last = before
        elif self.measured.has_graphs:
            for number in range(len(graphs)):
                part = slice(int(graphs.offset[number]), int(graphs.offset[number + 1]))
                sizes, starts = graphs.size_bytes[part], graphs.start_s[part]
                is_alike = np.ptp(sizes) == 0 and np.ptp(starts) == 0
                total = float(sizes.sum() / (found.end_s[part].max() - starts[0])) if is_alike else None
                self.measured.compare(graphs.pairs(number), total, self._program_of(graphs, number).name)
        return found

    def _times(self, graphs: CongestionGraphs, explain: bool, progress: Callable[[int], None] | None) -> CopyTimes:
        program = self._common_program(graphs)
        if program is not None:
            return graph_times(self.tree, graphs, program, self.calibration.rates, explain=explain)
        completions = []
        for number in range(len(graphs)):
            completions.append(self._of_graph(graphs, number, explain))
            if progress is not None:
                progress(1)
        return CopyTimes(
            np.concatenate([of_graph.end_s for of_graph in completions]),
            np.concatenate([of_graph.earliest_s for of_graph in completions]),
            np.concatenate([of_graph.latest_s for of_graph in completions]),
            tuple(itertools.chain.from_iterable(of_graph.bottleneck for of_graph in completions)),
            tuple(itertools.chain.from_iterable(of_graph.caused_by for of_graph in completions)),
        )

    def _common_program(self, graphs: CongestionGraphs) -> CopyProgram | None:
        """Return the deterministic program of all graphs, if only the links of the tree limit their copies."""
        calibration = self.calibration
        is_plain = self._links_only and calibration.measured_classes is None and not calibration.estimates
        ends = np.maximum(graphs.source, graphs.target).max(initial=0)
        if not is_plain or self._of_memory[int(ends)] or set(graphs.programs) - {self._program.name, ""}:
            return None
        if self._program.is_random or not len(graphs):
            return None
        self._count_default_program(graphs)
        return self._program

    def _count_default_program(self, graphs: CongestionGraphs) -> None:
        """Count the graphs without a program in which a GPU sends several copies."""
        if not self._is_default:
            return
        senders = graphs.graph_of_communication * len(self.tree.endpoint_names) + graphs.source
        numbers = np.unique(graphs.graph_of_communication[_is_repeated(senders)])
        if graphs.programs:
            numbers = np.array([number for number in numbers.tolist() if not graphs.programs[number]], dtype=np.int64)
        if numbers.size:
            self._counts[WarningCode.DEFAULT_PROGRAM] += numbers.size
            self._examples.setdefault(WarningCode.DEFAULT_PROGRAM, graphs.names[int(numbers[0])])

    def isolated_s(self, graphs: CongestionGraphs) -> NDArray[np.float64]:
        """Return the isolated time of each copy in s."""
        pairs = list(zip(graphs.source.tolist(), graphs.target.tolist(), strict=True))
        for pair in set(pairs) - self._alone.keys():
            self._alone[pair] = isolated_rate(self.tree, pair, self.calibration.rates, over_peer_links=True)
        rate = np.array([self._alone[pair] for pair in pairs], dtype=np.float64)
        alone: NDArray[np.float64] = graphs.size_bytes / rate
        return alone

    @property
    def unprobed(self) -> list[str]:
        """Limits that no probe measured and graphs so far depend on: `HOST_MEMORY`, `INTER_SOCKET_LINK`."""
        return [limit for limit, code in _UNPROBED.items() if self._counts[code]]

    def writes(self, graphs: CongestionGraphs) -> NDArray[np.int64]:
        """Return the numbers of the graphs whose copies are writes by their sources."""
        are_writes = [self._program_of(graphs, number).executor != "target" for number in range(len(graphs))]
        return np.flatnonzero(are_writes)

    def warnings(self) -> list[Warning]:
        """Return the sources of the rates and the assumptions about all graphs so far."""
        values = self.calibration.values
        lines = self.measured.warnings() + slow_link_warnings(self.calibration.rates)
        lines += [
            Warning(WarningCode.CALIBRATED_RATE, f"{name.replace('_', ' ')} {_quantity(name, values[name])}: {source}")
            for name, source in self.calibration.sources.items()
        ]
        for code, text in _ASSUMPTIONS.items():
            count = self._counts[code]
            if count:
                subject = f"{count} graphs, for example " if count > 1 else "graph "
                lines.append(Warning(code, f"{subject}'{self._examples[code]}': {text}"))
        return lines

    def most_explained(self, graphs: CongestionGraphs) -> NDArray[np.int64]:
        """Return the number of copies of each graph up to which limiting copies are determined, shape (graphs,)."""
        return np.where(self._are_random(graphs), MOST_OF_RANDOM, MOST_IN_GRAPH)

    def explained_slowly(self, graphs: CongestionGraphs) -> int:
        """Return the number of copies whose removal is evaluated with many draws of a random order."""
        copies = np.diff(graphs.offset)
        return int(copies[self._are_random(graphs) & (copies <= MOST_OF_RANDOM)].sum())

    def _are_random(self, graphs: CongestionGraphs) -> NDArray[np.bool_]:
        return np.array([self._program_of(graphs, number).is_random for number in range(len(graphs))], dtype=bool)

    def _program_of(self, graphs: CongestionGraphs, number: int) -> CopyProgram:
        name = graphs.programs[number] if graphs.programs else ""
        return PROGRAMS[name] if name else self._program

    def _of_graph(self, graphs: CongestionGraphs, number: int, explain: bool) -> CopyTimes:
        tree, name = self.tree, graphs.names[number]
        part = slice(int(graphs.offset[number]), int(graphs.offset[number + 1]))
        pairs = graphs.pairs(number)
        flows = [(tree.endpoint_names[source], tree.endpoint_names[target]) for source, target in pairs]
        self._check(name, flows)
        program = self._program_of(graphs, number)
        if self._is_default and not (graphs.programs and graphs.programs[number]):
            senders = [source for source, target in pairs if not self._of_memory[source] | self._of_memory[target]]
            if len(set(senders)) < len(senders):
                self._count(WarningCode.DEFAULT_PROGRAM, name)
        limited, limits = limits_of(self.calibration, tree, flows)

        def times(carrier: PcieTree, limits: Sequence[SharedLimit] = limits, explain: bool = False) -> CopyTimes:
            return copy_times(
                self._same(carrier),
                pairs,
                program,
                self.calibration.rates,
                size_bytes=graphs.size_bytes[part],
                start_s=graphs.start_s[part],
                over_peer_links=True,
                limits=limits,
                seed=self._seed,
                explain=explain,
                sharing=self._sharing,
            )

        completion = times(limited, explain=explain)
        unknown = {exclusion.code for exclusion in self.calibration.unknown(tree, flows)}
        if Reason.NO_MEMORY_PROBE in unknown:
            self._count(WarningCode.MEMORY_CAPACITY_UNKNOWN, name)
        if (completion.latest_s > completion.earliest_s * _SENSITIVE).any():
            self._count(WarningCode.RANDOM_ORDER, name)
        if Reason.NO_INTER_SOCKET_PROBE not in unknown:
            return completion
        self._count(WarningCode.INTER_SOCKET_RANGE, name)
        wide = times(with_inter_socket_capacity(limited, UNLIMITED))
        completion = replace(completion, earliest_s=np.minimum(completion.earliest_s, wide.earliest_s))
        if self.calibration.measured_classes is None:
            return completion
        worst = self.calibration.with_inter_socket_worst_case(tree, flows)
        if worst is None:
            self._count(WarningCode.INTER_SOCKET_UNMEASURED, name)
            return completion
        narrow = times(*limits_of(worst, tree, flows))
        return replace(completion, latest_s=np.maximum(completion.latest_s, narrow.latest_s))

    def _check(self, name: str, flows: list[tuple[str, str]]) -> None:
        tree = self.tree
        if len(flows) > MOST_COPIES:
            raise InputError(f"graph '{name}' has {len(flows):,} copies, expected at most {MOST_COPIES:,}")
        for source, target in flows if tree.peer_links else ():
            kind = tree.peer_link(source, target)
            if kind is not None and (source, target) not in self._direct:
                raise PeerLinkError(
                    f"graph '{name}' copies {source} to {target}, over {kind}, whose rate is missing in the topology "
                    "(bytes_per_s of peer_links); set pcie_only to route such copies over PCIe"
                )
            if kind is not None and not self.calibration.direct_links_measured:
                self._count(WarningCode.DIRECT_LINK_RATE_NOMINAL, name)
        measured = self.calibration.measured_classes
        if measured is not None and not self._ways(flows) <= measured:
            self._count(WarningCode.PATH_CLASS_UNMEASURED, name)

    def _ways(self, flows: list[tuple[str, str]]) -> set[PathClass]:
        """Return the path classes of the copies that use the tree."""
        tree = self.tree
        on_tree = [flow for flow in flows if tree.peer_link(*flow) is None]
        return {path_class_of(tree, *(tree.endpoint_number[end] for end in flow)) for flow in on_tree}

    def _count(self, code: WarningCode, name: str) -> None:
        # Each graph counts once, even if several of its copies cause the warning.
        if self._last.get(code) != name:
            self._counts[code] += 1
        self._examples.setdefault(code, name)
        self._last[code] = name

    def _same(self, tree: PcieTree) -> PcieTree:
        """Return the first tree with equal capacities, to reuse its computed routes."""
        return self._trees.setdefault(tuple(vertex.capacity for vertex in tree.vertices), tree)
