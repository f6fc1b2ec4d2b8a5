"""Models ports_and_engines and endpoint_engines: completion times with a copy engine per GPU."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError, PeerLinkError
from fabricast.core.warnings import WarningCode
from fabricast.inputs.pair_rates import direct_link_share
from fabricast.pcie.engines.batch import graph_times, new_sets
from fabricast.pcie.engines.forecast import Sharing, copy_times, isolated_rate
from fabricast.pcie.engines.links import SharedLimit
from fabricast.pcie.graphs.congestion_graphs import MOST_COPIES, CongestionGraphs
from fabricast.pcie.graphs.programs import PROGRAMS, CopyProgram, program_of
from fabricast.pcie.graphs.rates import CopyTimes, Rates
from fabricast.pcie.machines.assumptions import Assumptions
from fabricast.pcie.machines.calibrate import uncalibrated
from fabricast.pcie.machines.exclusion import Reason
from fabricast.pcie.machines.expected_errors import HOST_MEMORY, INTER_SOCKET_LINK, SOCKET_ROUTES, unprobed_errors
from fabricast.pcie.machines.limits import inter_socket_routes, with_host_bridge_capacity, with_inter_socket_capacity
from fabricast.pcie.machines.shared_limits import limits_of
from fabricast.pcie.machines.unknown_limits import unknown_limits, with_inter_socket_worst_case
from fabricast.pcie.models.parameters import MachineParameters
from fabricast.pcie.models.removals import MOST_IN_GRAPH, MOST_OF_RANDOM
from fabricast.pcie.topology.memory import UNLIMITED, with_host_memory
from fabricast.pcie.topology.parts import PeerLink, direct_rates
from fabricast.pcie.topology.paths import CopyClass, copy_class_of
from fabricast.pcie.topology.tree import PcieTree

if TYPE_CHECKING:
    from fabricast.pcie.models.kernels.known_sets import KnownSets

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
ASSUMPTIONS = {
    WarningCode.PATH_CLASS_UNMEASURED: "no single copy on some of these paths was measured: the rate of other copies "
    "is assumed",
    WarningCode.DEFAULT_PROGRAM: "no program is specified: copies from one GPU are assumed to run one after the other, "
    "in the order of their rows",
    WarningCode.RANDOM_ORDER: "the order of copies is random and affects the result: elapsed_s is the mean, earliest_s "
    "to latest_s the range over draws",
    WarningCode.INTER_SOCKET_RANGE: "no probe measured the link between root complexes: the time assumes the "
    "capacity in the topology, by default one link; the range extends from a link that limits no copy to one with the "
    "rate of a single copy",
    WarningCode.INTER_SOCKET_UNMEASURED: "no single copy between these sockets was measured: latest_s is unknown; "
    "measure one ('fabricast probes machine.yaml --run')",
    WarningCode.INTER_SOCKET_ROUTES: "the routes of several copies between root complexes are unknown: the range is "
    "that of the same copies in the reverse direction on a public machine",
    WarningCode.MEMORY_CAPACITY_UNKNOWN: "no probe measured the capacity of host memory for several copies: it is "
    "assumed not to be a bottleneck, so elapsed_s is a lower bound; measure it ('fabricast probes machine.yaml --run')",
    WarningCode.DIRECT_LINK_RATE_NOMINAL: "direct links have the rate of the data sheet times the median share that "
    "single copies reach on public machines",
}
#: Assumptions about limits that no probe measured.
UNPROBED = {
    HOST_MEMORY: WarningCode.MEMORY_CAPACITY_UNKNOWN,
    INTER_SOCKET_LINK: WarningCode.INTER_SOCKET_RANGE,
    SOCKET_ROUTES: WarningCode.INTER_SOCKET_ROUTES,
}


def _with_public_rate(link: PeerLink) -> PeerLink:
    """Return a direct link with the rate that single copies reach on public machines."""
    if not link.bytes_per_s or link.copy_bytes_per_s is None:
        return link
    rate = link.bytes_per_s * direct_link_share(link.kind).median
    return replace(link, bytes_per_s=min(rate, link.copy_bytes_per_s))


def _have_several_routes(tree: PcieTree, flows: Sequence[tuple[str, str]]) -> bool:
    """Return whether several copies between GPUs have the same source and target socket."""
    ways = inter_socket_routes(tree, flows, of_memory=False)
    return len(set(ways)) < len(ways)


def _is_repeated(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each value occurs several times."""
    _, of_value, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray(counts[of_value] > 1)


class EngineTimes(NamedTuple):
    """Completion times of copies, and the assumptions that they depend on."""

    times: CopyTimes
    assumptions: Assumptions


class EngineModel:
    """Predict copy times on one machine.

    Arguments: tree: topology of the machine; endpoints of host memory are added after all others; rates: rates of the
    machine, or its parameters; program: program of graphs that specify none; by default listed_order; pcie_only:
    whether copies between endpoints with direct links use the PCIe tree; seed: seed of programs with a random order;
    model: rule by which running copies share links: arbitration at ports with back-pressure, or max-min fairness:
    'ports_and_engines', 'endpoint_engines'}, default 'ports_and_engines'.
    """

    def __init__(
        self,
        tree: PcieTree,
        rates: Rates | MachineParameters,
        *,
        program: str | None = None,
        pcie_only: bool = False,
        seed: int = 0,
        model: str = PORTS_AND_ENGINES,
    ) -> None:
        self.sharing = _SHARING[model]
        self.rates = rates if isinstance(rates, Rates) else uncalibrated(rates, ports=model == PORTS_AND_ENGINES)
        links = self.rates.direct_links or tuple(map(_with_public_rate, tree.peer_links))
        self.tree = replace(with_host_memory(tree), peer_links=() if pcie_only else links)
        #: Pairs with a direct link that the forecasts do not use.
        self.unused_links = [
            pair for link in tree.peer_links for pair in itertools.permutations(link.endpoints, 2) if pcie_only
        ]
        self._program = program_of(_PROGRAM if program is None else program)
        self._is_default = program is None
        self._seed = seed
        kinds = {vertex.kind for vertex in self.tree.vertices}
        self._knows_sockets = all(one.code is not WarningCode.SOCKETS_UNKNOWN for one in self.tree.warnings)
        is_plain = "system" not in kinds and not self.tree.peer_links and self._knows_sockets
        self._links_only = self.sharing == "ports" and is_plain
        self._of_memory = [self.tree.vertex(end).host_memory for end in self.tree.endpoint_names]
        self._direct = direct_rates(links)
        self._trees: dict[tuple[float, ...], PcieTree] = {}
        self._alone: dict[tuple[int, int], float] = {}
        #: Known sets of copies that no call uses.
        self._sets: list[KnownSets] = []
        self._lock = threading.Lock()

    def times(
        self,
        graphs: CongestionGraphs,
        *,
        explain: bool = False,
        progress: Callable[[int], None] | None = None,
        threads: int = 1,
    ) -> EngineTimes:
        """Return the completion times of the copies of some graphs; machines without other limits use threads."""
        program = self._common_program(graphs)
        if program is not None:
            with self._known_sets(max(threads, 1)) as sets:
                times = graph_times(self.tree, graphs, program, self.rates, explain=explain, sets=sets)
            return EngineTimes(times, self._default_program(graphs))
        found = []
        for number in range(len(graphs)):
            found.append(self._of_graph(graphs, number, explain))
            if progress is not None:
                progress(1)
        completions = [one.times for one in found]
        times = CopyTimes(
            np.concatenate([of_graph.end_s for of_graph in completions]),
            np.concatenate([of_graph.earliest_s for of_graph in completions]),
            np.concatenate([of_graph.latest_s for of_graph in completions]),
            tuple(itertools.chain.from_iterable(of_graph.bottleneck for of_graph in completions)),
            tuple(itertools.chain.from_iterable(of_graph.caused_by for of_graph in completions)),
        )
        return EngineTimes(times, sum((one.assumptions for one in found), Assumptions()))

    @contextmanager
    def _known_sets(self, count: int) -> Iterator[list[KnownSets]]:
        """Lend the known sets of copies of former calls, one for each thread of a call, and new ones."""
        with self._lock:
            sets = [self._sets.pop() for _ in range(min(count, len(self._sets)))]
        sets += [new_sets() for _ in range(count - len(sets))]
        try:
            yield sets
        finally:
            with self._lock:
                self._sets += sets

    def is_compiled(self, graphs: CongestionGraphs) -> bool:
        """Return whether compiled code evaluates all graphs, so that threads evaluate several blocks at once."""
        return self._common_program(graphs) is not None

    def _common_program(self, graphs: CongestionGraphs) -> CopyProgram | None:
        """Return the deterministic program of all graphs, if only the links of the tree limit their copies."""
        is_plain = self._links_only and self.rates.measured_classes is None and not self.rates.estimates
        ends = np.maximum(graphs.source, graphs.target).max(initial=0)
        if not is_plain or self._of_memory[int(ends)] or set(graphs.programs) - {self._program.name, ""}:
            return None
        if self._program.is_random or not len(graphs):
            return None
        return self._program

    def _default_program(self, graphs: CongestionGraphs) -> Assumptions:
        """Return the number of graphs without a program in which a GPU sends several copies."""
        if not self._is_default:
            return Assumptions()
        senders = graphs.graph_of_communication * len(self.tree.endpoint_names) + graphs.source
        numbers = np.unique(graphs.graph_of_communication[_is_repeated(senders)])
        if graphs.programs:
            numbers = np.array([number for number in numbers.tolist() if not graphs.programs[number]], dtype=np.int64)
        if not numbers.size:
            return Assumptions()
        return Assumptions.of(graphs.names[int(numbers[0])], [WarningCode.DEFAULT_PROGRAM], int(numbers.size))

    def isolated_s(self, graphs: CongestionGraphs) -> NDArray[np.float64]:
        """Return the isolated time of each copy in s."""
        codes, copies = np.unique(graphs.source * len(self.tree.endpoint_names) + graphs.target, return_inverse=True)
        pairs = [divmod(code, len(self.tree.endpoint_names)) for code in codes.tolist()]
        for pair in set(pairs) - self._alone.keys():
            self._alone[pair] = isolated_rate(self.tree, pair, self.rates, over_peer_links=True)
        rate = np.array([self._alone[pair] for pair in pairs], dtype=np.float64)
        alone: NDArray[np.float64] = graphs.size_bytes / rate[copies]
        return alone

    def writes(self, graphs: CongestionGraphs) -> CongestionGraphs:
        """Return the graphs whose copies are writes by their sources."""
        are_writes = self.of_programs(graphs, lambda program: program.executor != "target")
        return graphs if are_writes.all() else graphs.chosen(np.flatnonzero(are_writes))

    def most_explained(self, graphs: CongestionGraphs) -> NDArray[np.int64]:
        """Return the number of copies of each graph up to which limiting copies are determined, shape (graphs,)."""
        return np.where(self._are_random(graphs), MOST_OF_RANDOM, MOST_IN_GRAPH)

    def explained_slowly(self, graphs: CongestionGraphs) -> int:
        """Return the number of copies whose removal is evaluated with many draws of a random order."""
        copies = np.diff(graphs.offset)
        return int(copies[self._are_random(graphs) & (copies <= MOST_OF_RANDOM)].sum())

    def _are_random(self, graphs: CongestionGraphs) -> NDArray[np.bool_]:
        return self.of_programs(graphs, lambda program: program.is_random)

    def of_programs(self, graphs: CongestionGraphs, holds: Callable[[CopyProgram], bool]) -> NDArray[np.bool_]:
        """Return whether a property holds for the program of each graph, shape (graphs,)."""
        if not graphs.programs:
            return np.full(len(graphs), holds(self._program), dtype=np.bool_)
        return np.array([holds(self.program_of(graphs, number)) for number in range(len(graphs))], dtype=np.bool_)

    def program_of(self, graphs: CongestionGraphs, number: int) -> CopyProgram:
        """Return the program of a graph."""
        name = graphs.programs[number] if graphs.programs else ""
        return PROGRAMS[name] if name else self._program

    def _of_graph(self, graphs: CongestionGraphs, number: int, explain: bool) -> EngineTimes:
        tree, name = self.tree, graphs.names[number]
        part = slice(int(graphs.offset[number]), int(graphs.offset[number + 1]))
        pairs = graphs.pairs(number)
        flows = [(tree.endpoint_names[source], tree.endpoint_names[target]) for source, target in pairs]
        codes = self._checked(name, flows)
        program = self.program_of(graphs, number)
        if self.assumes_program(graphs, number):
            senders = [source for source, target in pairs if not self._of_memory[source] | self._of_memory[target]]
            if len(set(senders)) < len(senders):
                codes.add(WarningCode.DEFAULT_PROGRAM)
        limited, limits = limits_of(self.rates, tree, flows)

        def times(carrier: PcieTree, limits: Sequence[SharedLimit] = limits, explain: bool = False) -> CopyTimes:
            return copy_times(
                self._same(carrier),
                pairs,
                program,
                self.rates,
                size_bytes=graphs.size_bytes[part],
                start_s=graphs.start_s[part],
                over_peer_links=True,
                limits=limits,
                seed=self._seed,
                explain=explain,
                sharing=self.sharing,
            )

        completion = times(limited, explain=explain)
        unknown = {exclusion.code for exclusion in unknown_limits(self.rates, tree, flows)}
        if Reason.NO_MEMORY_PROBE in unknown:
            codes.add(WarningCode.MEMORY_CAPACITY_UNKNOWN)
        if (completion.latest_s > completion.earliest_s * _SENSITIVE).any():
            codes.add(WarningCode.RANDOM_ORDER)
        if Reason.NO_INTER_SOCKET_PROBE in unknown:
            codes.add(WarningCode.INTER_SOCKET_RANGE)
            wide = times(with_inter_socket_capacity(limited, UNLIMITED))
            completion = replace(completion, earliest_s=np.minimum(completion.earliest_s, wide.earliest_s))
            if self.rates.measured_classes is not None:
                worst = with_inter_socket_worst_case(self.rates, tree, flows)
                if worst is None:
                    codes.add(WarningCode.INTER_SOCKET_UNMEASURED)
                else:
                    narrow = times(*limits_of(worst, tree, flows))
                    completion = replace(completion, latest_s=np.maximum(completion.latest_s, narrow.latest_s))
        elif self.rates.measured_classes is not None and _have_several_routes(tree, flows):
            codes.add(WarningCode.INTER_SOCKET_ROUTES)
            factor = unprobed_errors()[SOCKET_ROUTES].highest
            earliest, latest = completion.earliest_s / factor, completion.latest_s * factor
            completion = replace(completion, earliest_s=earliest, latest_s=latest)
        if not (limits or self._knows_sockets):
            # Host bridges may be on different sockets, with one link between them.
            narrow = times(with_host_bridge_capacity(limited, 1.0))
            completion = replace(completion, latest_s=np.maximum(completion.latest_s, narrow.latest_s))
        return EngineTimes(completion, Assumptions.of(name, codes))

    def assumes_program(self, graphs: CongestionGraphs, number: int) -> bool:
        """Return whether the program of a graph is assumed."""
        return self._is_default and not (graphs.programs and graphs.programs[number])

    def _checked(self, name: str, flows: list[tuple[str, str]]) -> set[WarningCode]:
        """Refuse a graph that cannot be forecast, and return the assumptions about its rates."""
        tree, codes = self.tree, set[WarningCode]()
        if len(flows) > MOST_COPIES:
            raise InputError(f"graph '{name}' has {len(flows):,} copies, expected at most {MOST_COPIES:,}")
        for source, target in flows if tree.peer_links else ():
            kind = tree.peer_link(source, target)
            if kind is not None and (source, target) not in self._direct:
                raise PeerLinkError(
                    f"graph '{name}' copies {source} to {target} over {kind}, whose rate is missing: specify gpu, the "
                    "model of the GPUs, or bytes_per_s of peer_links in the topology; pcie_only uses PCIe instead"
                )
            if kind is not None and not self.rates.direct_links_measured:
                codes.add(WarningCode.DIRECT_LINK_RATE_NOMINAL)
        measured = self.rates.measured_classes
        if measured is not None and not self._ways(flows) <= measured:
            codes.add(WarningCode.PATH_CLASS_UNMEASURED)
        return codes

    def _ways(self, flows: list[tuple[str, str]]) -> set[CopyClass]:
        """Return the path classes of the copies that use the tree."""
        tree = self.tree
        on_tree = [flow for flow in flows if tree.peer_link(*flow) is None]
        return {copy_class_of(tree, *(tree.endpoint_number[end] for end in flow)) for flow in on_tree}

    def _same(self, tree: PcieTree) -> PcieTree:
        """Return the first tree with equal capacities, to reuse its computed routes."""
        return self._trees.setdefault(tuple(vertex.capacity for vertex in tree.vertices), tree)
