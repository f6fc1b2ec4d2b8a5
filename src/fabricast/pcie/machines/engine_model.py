"""Models ports_and_engines and endpoint_engines: completion times with a copy engine per GPU."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

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
from fabricast.pcie.machines.calibrate import calibrate_machine
from fabricast.pcie.machines.calibration import Calibration, uncalibrated
from fabricast.pcie.machines.exclusion import Reason
from fabricast.pcie.machines.expected_errors import HOST_MEMORY, INTER_SOCKET_LINK
from fabricast.pcie.machines.group_rates import slow_link_warnings
from fabricast.pcie.machines.limits import with_inter_socket_capacity
from fabricast.pcie.machines.shared_limits import limits_of
from fabricast.pcie.measurements.files import copies_of_machine
from fabricast.pcie.models.parameters import MachineParameters
from fabricast.pcie.models.removals import MOST_IN_GRAPH, MOST_OF_RANDOM
from fabricast.pcie.topology.memory import UNLIMITED, with_host_memory
from fabricast.pcie.topology.parts import direct_rates
from fabricast.pcie.topology.paths import PathClass, path_class_of
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["ENDPOINT_ENGINES", "ENGINE_MODELS", "PORTS_AND_ENGINES", "USES", "EngineModel", "measured_calibration"]

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
#: Relative difference above which a forecast contradicts a measured rate.
_CONTRADICTS = 0.15
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
_UNPROBED = {
    HOST_MEMORY: WarningCode.MEMORY_CAPACITY_UNKNOWN, INTER_SOCKET_LINK: WarningCode.INTER_SOCKET_RANGE,
}  # fmt: skip


class MeasuredCalibration(NamedTuple):
    """Calibration of a machine, warnings about its measurements, and the measured rate of isolated copies.

    Copies that were measured only in bidirectional pairs have the rate of each copy of the pair, without duplex cost.
    """

    calibration: Calibration
    warnings: tuple[Warning, ...]
    isolated_bytes_per_s: Mapping[tuple[str, str], float]


def measured_calibration(
    tree: PcieTree, path: Path | str, *, system: str | None, one_way_bytes_per_s: float | None
) -> MeasuredCalibration:
    """Return the calibration of a machine from a file of measured copies, with warnings.

    Parameters
    ----------
    tree : PcieTree
        Topology of the machine.
    path : Path or str
        File that `fabricast.pcie.measurements.files.read_measured_copies` reads.
    system : str or None
        Read only rows of this system.
    one_way_bytes_per_s : float or None
        Rate of a single copy in bytes/s if none was measured.

    Raises
    ------
    InputError
        If the file is invalid, or the rate of a single copy cannot be determined.
    """
    copies = copies_of_machine(tree, path, system=system)
    calibration = calibrate_machine(with_host_memory(tree), copies.graphs, one_way_bytes_per_s=one_way_bytes_per_s)
    duplex = 1 + calibration.rates.duplex_cost
    isolated: dict[tuple[str, str], float] = {}
    for graph in sorted(copies.graphs, key=lambda graph: -len(graph.flows)):
        flows, rate = graph.flows, graph.total_bytes_per_s / len(graph.flows)
        if len(flows) == 2 and flows[0] == flows[1][::-1]:
            isolated |= dict.fromkeys(flows, rate * duplex)
        elif len(flows) == 1:
            isolated[flows[0]] = rate
    return MeasuredCalibration(calibration, copies.warnings, isolated)


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
    measured : mapping of (str, str) to float, optional
        Measured rates of isolated copies in bytes/s; forecasts that contradict them have a warning.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_arcs
    >>> from fabricast.pcie.models.parameters import machine_parameters
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("flat4x2", (2, 4))
    >>> model = EngineModel(tree, machine_parameters(tree, bandwidth_bytes_per_s=50e9), program="independent")
    >>> model.times(from_arcs([[(0, 1), (2, 1)]], size_bytes=50e9)).end_s.tolist()
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
        measured: Mapping[tuple[str, str], float] | None = None,
    ) -> None:
        self._measured, self._compared = dict(measured or {}), set[tuple[str, str]]()
        self._contradicted: dict[tuple[str, str], tuple[float, float]] = {}
        self._sharing = _SHARING[model]
        if not isinstance(rates, Calibration):
            rates = uncalibrated(rates, ports=model == PORTS_AND_ENGINES)
        self.calibration = rates
        links = self.calibration.direct_links or tree.peer_links
        self.tree = replace(with_host_memory(tree), peer_links=() if pcie_only else links)
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

    def times(self, graphs: CongestionGraphs, *, explain: bool = False, warn: bool = True) -> CopyTimes:
        """Return the completion times of the copies of some graphs.

        Parameters
        ----------
        graphs : CongestionGraphs
            The graphs; copies are issued in their order.
        explain : bool, default False
            Whether to determine the bottleneck of each copy.
        warn : bool, default True
            Whether the graphs count in warnings; graphs that are evaluated again without some copies do not.

        Returns
        -------
        CopyTimes
            Completion times from time 0 with their range over draws of the order. If the capacity of an inter-socket
            link is unknown, the range includes the times with an unlimited link and, with measured copies, those with
            a link at the rate of a single copy.

        Raises
        ------
        PeerLinkError
            If a copy uses a direct link of unknown rate.
        InputError
            If a graph has too many copies.
        """
        if not warn:
            before = self._counts.copy(), dict(self._examples), dict(self._last)
            found = self.times(graphs, explain=explain)
            self._counts, self._examples, self._last = before
            return found
        program = self._common_program(graphs)
        if program is not None:
            return graph_times(self.tree, graphs, program, self.calibration.rates, explain=explain)
        completions = [self._of_graph(graphs, number, explain) for number in range(len(graphs))]
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
        lines = self._contradictions() + slow_link_warnings(self.calibration.rates)
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
        is_random = [self._program_of(graphs, number).is_random for number in range(len(graphs))]
        return np.where(np.array(is_random, dtype=bool), MOST_OF_RANDOM, MOST_IN_GRAPH)

    def _program_of(self, graphs: CongestionGraphs, number: int) -> CopyProgram:
        name = graphs.programs[number] if graphs.programs else ""
        return PROGRAMS[name] if name else self._program

    def _of_graph(self, graphs: CongestionGraphs, number: int, explain: bool) -> CopyTimes:
        tree, name = self.tree, graphs.names[number]
        part = slice(int(graphs.offset[number]), int(graphs.offset[number + 1]))
        pairs = graphs.arcs(number)
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
                self._same(carrier), pairs, program, self.calibration.rates, size_bytes=graphs.size_bytes[part],
                start_s=graphs.start_s[part], over_peer_links=True, limits=limits, seed=self._seed, explain=explain,
                sharing=self._sharing,
            )  # fmt: skip

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

    def _compare(self, flows: list[tuple[str, str]]) -> None:
        """Compare the forecasts of isolated copies with their measured rates."""
        for flow in flows:
            if flow in self._measured and flow not in self._compared:
                pair = self.tree.endpoint_number[flow[0]], self.tree.endpoint_number[flow[1]]
                self.compare(flow, isolated_rate(self.tree, pair, self.calibration.rates, over_peer_links=True))

    def compare(self, flow: tuple[str, str], forecast_bytes_per_s: float) -> None:
        """Compare the forecast of an isolated copy with its measured rate, if any; `warnings` has contradictions."""
        self._compared.add(flow)
        measured = self._measured.get(flow)
        if measured is not None and abs(forecast_bytes_per_s / measured - 1) > _CONTRADICTS:
            self._contradicted[flow] = forecast_bytes_per_s, measured

    def _contradictions(self) -> list[Warning]:
        if not self._contradicted:
            return []
        found = sorted(self._contradicted.items(), key=lambda item: -abs(np.log(item[1][0] / item[1][1])))
        (source, target), (forecast, measured) = found[0]
        ends = Counter(end for (one, other), _ in found for end in (one, other))
        # Of GPUs in equally many of these copies, the one with the lowest measured rates is the cause.
        gpu = min(ends, key=lambda end: (-ends[end], self._median_rate(end)))
        count, all_of = ends[gpu], len(found)
        common = f"; all {all_of} such copies use GPU {gpu}: check the width of its link (LnkSta of 'lspci -vv')"
        others = f" and {all_of - 1} further copies differ by more than {_CONTRADICTS:.0%}" if all_of > 1 else ""
        return [
            Warning(
                WarningCode.MEASUREMENT_CONTRADICTED,
                f"the forecast assumes {forecast / 1e9:.4g} GB/s for an isolated copy {source}>{target}, but the "
                f"measurements have {measured / 1e9:.4g} GB/s{others}"
                f"{common if count == all_of > 1 else '; check the topology'}",
            )
        ]

    def _median_rate(self, end: str) -> float:
        """Return the median measured rate of isolated copies of an endpoint."""
        return float(np.median([rate for flow, rate in self._measured.items() if end in flow]))

    def _check(self, name: str, flows: list[tuple[str, str]]) -> None:
        tree = self.tree
        self._compare(flows)
        if len(flows) > MOST_COPIES:
            raise InputError(f"graph '{name}' has {len(flows):,} copies, expected at most {MOST_COPIES:,}")
        for source, target in flows if tree.peer_links else ():
            kind = tree.peer_link(source, target)
            if kind is not None and (source, target) not in self._direct:
                raise PeerLinkError(
                    f"graph '{name}' copies {source} to {target}, over {kind}, whose rate is missing in the topology "
                    "(bytes_per_s of peer_links)"
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
