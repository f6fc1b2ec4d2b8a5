"""Predictor of graphs on one machine, block by block; what each block assumes is a value."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.api.graphs import check_endpoints
from fabricast.api.methods import Method, Progress
from fabricast.api.prediction_table import Prediction, communications, isolated_times, link_columns, text_columns
from fabricast.core.errors import InputError
from fabricast.core.quantities import MOST_THREADS, check_count
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.pair_rates import BOTH_WAYS, direct_link_share, pcie_share
from fabricast.machine.machine import Machine
from fabricast.pcie.graphs.checks import reject_peer_copies
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.graphs.divided_writes import divided_writes, divided_writes_warning
from fabricast.pcie.graphs.rates import CopyTimes
from fabricast.pcie.machines.assumptions import Assumptions
from fabricast.pcie.machines.calibrate import DUPLEX_COST
from fabricast.pcie.machines.engine_model import ASSUMPTIONS, ENGINE_MODELS, UNPROBED, EngineModel
from fabricast.pcie.machines.expected_errors import expected_error_text, graph_classes, unmeasured_error_text
from fabricast.pcie.machines.group_rates import slow_link_warnings
from fabricast.pcie.machines.measured_rates import Comparison, MeasuredRates
from fabricast.pcie.measurements.measured_graph import EXCLUDED_ROLES, MeasuredGraph, flows_of
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import Evaluation, evaluate
from fabricast.pcie.models.parameters import has_superchips, link_generation
from fabricast.pcie.models.removals import MOST_IN_GRAPH, MOST_OF_RANDOM, Times, removal_texts, removals
from fabricast.pcie.models.user_model import UserModel
from fabricast.pcie.topology.memory import HOST
from fabricast.pcie.topology.tree import PcieTree
from fabricast.runtime.threads import prefetched_map

#: Maximum number of blocks of graphs that are evaluated concurrently; limits memory for blocks that wait to be written.
_MOST_PARTS = 4
#: Relative difference below which times are equal.
_SAME = 1e-9
#: Size in bytes below which the neglected start-up time adds several percent: config/published/host_copy_rates.csv.
_LATENCY_BYTES = 4 * 2.0**20
_DIVIDED = WarningCode.DIVIDED_WRITES


def check_explanation(explain: bool, limited_by: bool) -> None:
    """Refuse limiting copies without an explanation."""
    if limited_by and not explain:
        raise InputError("is requested without explain, which it extends", argument="limited_by")


def _range_of_direct_link(kind: str, *, is_both: bool) -> tuple[float, float]:
    """Return the factors from the forecast to the range of copies over a direct link, one way or both ways at once."""
    one_way = direct_link_share(kind)
    if not is_both:
        return one_way.median / one_way.highest, one_way.median / one_way.lowest
    both, total = direct_link_share(kind, BOTH_WAYS), 2 * one_way.median
    return min(total / both.highest, 1.0), max(total / both.lowest, 1.0)


def _has_reverse(graphs: CongestionGraphs) -> NDArray[np.bool_]:
    """Return whether the graph of each copy also has a copy in the other direction."""
    of_graph = graphs.graph_of_communication.tolist()
    ends = list(zip(of_graph, graphs.source.tolist(), graphs.target.tolist(), strict=True))
    known = set(ends)
    return np.array([(graph, target, source) in known for graph, source, target in ends], dtype=np.bool_)


def _with_earlier_copies(engines: EngineModel, graphs: CongestionGraphs, found: CopyTimes) -> CopyTimes:
    """Return times whose bottleneck names the earlier copy of the same GPU for which a copy waits."""
    if not found.bottleneck:
        return found
    names, labels = engines.tree.endpoint_names, np.array(found.bottleneck, dtype=object)
    is_memory = np.array([engines.tree.vertex(name).host_memory for name in names], dtype=np.bool_)
    sends = np.array([f"endpoint {name} sends" for name in names], dtype=object)
    is_listed = engines.of_programs(graphs, lambda program: program.name == "listed_order")
    of_graph, source, target = graphs.graph_of_communication, graphs.source, graphs.target
    queued = np.flatnonzero(is_listed[of_graph] & ~is_memory[source] & ~is_memory[target])
    # Each copy follows the earlier one of its GPU.
    turns = queued[np.lexsort((source[queued], of_graph[queued]))]
    before, after = turns[:-1], turns[1:]
    is_queue = (of_graph[before] == of_graph[after]) & (source[before] == source[after])
    waits = is_queue & (labels[after] == sends[source[after]])
    before, after = before[waits], after[waits]
    is_assumed = np.array([engines.assumes_program(graphs, number) for number in range(len(graphs))], dtype=np.bool_)
    kinds, kind = np.unique(
        np.stack([source[after], target[before], is_assumed[of_graph[after]]]), axis=1, return_inverse=True
    )
    texts = [
        f"waits for {names[gpu]}>{names[end]} of GPU {names[gpu]}{', assumed order' if assumed else ''}"
        for gpu, end, assumed in kinds.T.tolist()
    ]
    labels[after] = np.array(texts, dtype=object)[kind]
    return replace(found, bottleneck=tuple(labels.tolist()))


@dataclass(frozen=True)
class Notes:
    """Assumptions of predictions, and measurements that contradict them."""

    assumptions: Assumptions = field(default_factory=Assumptions)  # Assumptions, and graphs with divided writes
    comparison: Comparison = field(default_factory=Comparison)  # Contradictions between forecasts and measured rates
    classes: frozenset[str] = frozenset()  # Classes of the graphs, for their expected errors
    smallest_bytes: float = np.inf  # Size of the smallest copy
    #: Graphs with too many copies for the search for limiting copies, and copies between root complexes.
    large_graphs: int = 0
    between_roots: int = 0
    #: Whether graphs have programs that the model ignores, and whether a copy starves.
    has_programs: bool = False
    starves: bool = False
    too_fast: str = ""  # Graph whose copies end before the busiest link can have sent their bytes

    def __add__(self, other: Notes) -> Notes:
        return Notes(
            self.assumptions + other.assumptions,
            self.comparison + other.comparison,
            self.classes | other.classes,
            min(self.smallest_bytes, other.smallest_bytes),
            self.large_graphs + other.large_graphs,
            self.between_roots + other.between_roots,
            self.has_programs or other.has_programs,
            self.starves or other.starves,
            self.too_fast or other.too_fast,
        )


class Predicted(NamedTuple):
    """Times of the copies of graphs, and what they depend on."""

    table: Prediction
    notes: Notes


class Predictor:
    """Predictor of graphs on one machine.

    Arguments: method: model and what depends on it.
    """

    def __init__(
        self,
        machine: Machine,
        method: Method | None = None,
        *,
        explain: bool = True,
        limited_by: bool = False,
        threads: int = 1,
    ) -> None:
        check_count("threads", threads, MOST_THREADS)
        check_explanation(explain, limited_by)
        self._machine, self._method = machine, Method() if method is None else method
        self._explain, self._limited_by, self._threads = explain, limited_by, threads
        self._engines = self._method.engines(machine) if self._method.is_engine_model else None
        if self._engines is None:
            # Without a bandwidth the model is refused before any graph is read.
            self._parameters = machine.parameters

    @property
    def tree(self) -> PcieTree:
        """Topology of the graphs. With engines, it contains host memory as endpoints."""
        return self._machine.tree if self._engines is None else self._engines.tree

    @cached_property
    def _is_between_roots(self) -> NDArray[np.bool_]:
        """Whether the route of each pair of endpoints connects sockets."""
        names = self.tree.endpoint_names
        return np.array([[s != t and self.tree.path_class(s, t) == "SYS" for t in names] for s in names])

    @cached_property
    def _measured(self) -> MeasuredRates | None:
        """Measured rates with which forecasts are compared."""
        return self._rates_of(self._machine.graphs)

    @cached_property
    def _measured_staged(self) -> MeasuredRates | None:
        """Measured rates with which forecasts of copies through host memory are compared."""
        staged = self._machine.measured.staged_graphs
        return self._rates_of([*self._machine.graphs, *staged]) if staged else self._measured

    def _rates_of(self, graphs: Sequence[MeasuredGraph]) -> MeasuredRates | None:
        """Return the rates of measured graphs; None without engines, or if no graph can be compared."""
        if self._engines is None or not graphs:
            return None
        engines = self._engines
        found = MeasuredRates(engines.tree, graphs, engines.rates, engines.sharing, engines.unused_links)
        return found if found.has_graphs else None

    def predict(
        self, graphs: CongestionGraphs, progress: Progress | None = None, known: Notes | None = None
    ) -> Predicted:
        """Return the times of one block of graphs; copies that `known` compared are not compared again."""
        return self._of_part(graphs, self._threads, progress, known)

    def _of_part(
        self, graphs: CongestionGraphs, threads: int, progress: Progress | None = None, known: Notes | None = None
    ) -> Predicted:
        check_endpoints(self.tree, graphs)
        if self._engines is not None:
            return self._of_engines(self._engines, graphs, threads, progress, Notes() if known is None else known)
        return self._of_model(graphs, threads)

    def elapsed_s(self, graphs: CongestionGraphs, progress: Progress | None = None) -> NDArray[np.float64]:
        """Return the elapsed time of each copy in s (models with engines)."""
        assert self._engines is not None
        return self._engines.times(graphs, progress=progress, threads=self._threads).times.end_s - graphs.start_s

    def slow_removals(self, graphs: CongestionGraphs) -> int:
        """Return the number of copies without which a graph is evaluated with many draws of a random order."""
        return self._engines.explained_slowly(graphs) if self._engines is not None and self._limited_by else 0

    def predict_parts(self, parts: Iterable[CongestionGraphs]) -> Iterator[Predicted]:
        """Yield the times of blocks of graphs, in their order.

        Several threads evaluate one block each, if compiled code evaluates them. Blocks that are compared with measured
        rates, and a single block, are evaluated one after the other: each knows what the blocks before it compared.
        """
        remaining = iter(parts)
        begun = list(itertools.islice(remaining, 2))
        parts = itertools.chain(begun, remaining)
        is_compiled = self._engines is None or (bool(begun) and self._engines.is_compiled(begun[0]))
        if self._engines is not None and (self._measured is not None or len(begun) < 2 or not is_compiled):
            known = Notes()
            for graphs in parts:
                found = self.predict(graphs, known=known)
                known += found.notes
                yield found
            return
        yield from prefetched_map(partial(self._of_part, threads=1), parts, threads=min(self._threads, _MOST_PARTS))

    def _of_engines(
        self, engines: EngineModel, graphs: CongestionGraphs, threads: int, progress: Progress | None, known: Notes
    ) -> Predicted:
        modelled, assumptions = engines.times(graphs, explain=self._explain, threads=threads)
        found, isolated_s = modelled, engines.isolated_s(graphs)
        if self._measured is not None:
            programs = [engines.program_of(graphs, number).name for number in range(len(graphs))]
            found, isolated_s = self._measured.as_measured(graphs, modelled, isolated_s, programs)
        elapsed_s = found.end_s - graphs.start_s
        shortest, longest = self._spread(engines, graphs)
        table = Prediction(
            {
                **communications(self.tree, graphs),
                "elapsed_s": elapsed_s,
                "slowdown": elapsed_s / isolated_s,
                "earliest_s": (found.earliest_s - graphs.start_s) * shortest,
                "latest_s": (found.latest_s - graphs.start_s) * longest,
                **(text_columns(_with_earlier_copies(engines, graphs, found)) if self._explain else {}),
                **self._limiting(graphs, elapsed_s, isolated_s, partial(self.elapsed_s, progress=progress)),
            }
        )
        notes = replace(
            self._common_notes(graphs),
            assumptions=assumptions + self._divided(engines.writes(graphs)),
            comparison=self._compared(engines, graphs, modelled, known.comparison),
        )
        return Predicted(table, notes)

    def _spread(
        self, engines: EngineModel, graphs: CongestionGraphs
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the factors from the time of each copy to its range on public machines, for rates not measured."""
        tree, share = engines.tree, self._machine.default_share
        shortest, longest = np.ones(graphs.source.size), np.ones(graphs.source.size)
        is_nominal = bool(tree.peer_links) and not engines.rates.direct_links_measured
        is_both = _has_reverse(graphs) if share is not None or is_nominal else np.zeros(graphs.source.size, np.bool_)
        if share is not None:
            shortest[:], longest[:] = share.median / share.highest, share.median / share.lowest
            if not has_superchips(tree):
                both = pcie_share(link_generation(tree), direction=BOTH_WAYS)
                total = 2 * share.median / (1 + DUPLEX_COST)
                shortest[is_both], longest[is_both] = min(total / both.highest, 1.0), max(total / both.lowest, 1.0)
        names = tree.endpoint_names
        if tree.peer_links:
            for copy, ends in enumerate(zip(graphs.source.tolist(), graphs.target.tolist(), strict=True)):
                kind = tree.peer_link(names[ends[0]], names[ends[1]])
                if kind is not None:
                    of_link = _range_of_direct_link(kind, is_both=bool(is_both[copy])) if is_nominal else (1.0, 1.0)
                    shortest[copy], longest[copy] = of_link
        return shortest, longest

    def _compared(
        self, engines: EngineModel, graphs: CongestionGraphs, found: CopyTimes, known: Comparison
    ) -> Comparison:
        """Compare forecasts of graphs with the measured rates of the same copies."""
        if self._measured is None:
            return Comparison()
        for number in range(len(graphs)):
            part = slice(int(graphs.offset[number]), int(graphs.offset[number + 1]))
            sizes, starts = graphs.size_bytes[part], graphs.start_s[part]
            is_alike = np.ptp(sizes) == 0 and np.ptp(starts) == 0
            total = float(sizes.sum() / (found.end_s[part].max() - starts[0])) if is_alike else None
            program = engines.program_of(graphs, number).name
            known = self._measured.compare(graphs.pairs(number), total, program, known)
        return known

    def _of_model(self, graphs: CongestionGraphs, threads: int) -> Predicted:
        tree, model = self.tree, self._method.chosen
        if not (self._method.pcie_only or self._method.is_of_user):
            reject_peer_copies(tree, graphs)
        if isinstance(model, UserModel):
            table = self._of_user(model, graphs)
        else:

            def evaluation(some: CongestionGraphs, *, explain: bool) -> Evaluation:
                return evaluate(
                    tree,
                    some,
                    model,
                    bandwidth_bytes_per_s=self._parameters.bandwidth_bytes_per_s,
                    tau=self._parameters.tau,
                    crossing_cost=self._parameters.crossing_cost,
                    threads=threads,
                    explain=explain,
                )

            def times(some: CongestionGraphs) -> NDArray[np.float64]:
                return evaluation(some, explain=False).end_s - some.start_s

            found = evaluation(graphs, explain=self._explain)
            table = self._table(
                graphs, found.end_s - graphs.start_s, times, link_columns(tree, found) if self._explain else {}
            )
        notes = replace(
            self._common_notes(graphs),
            assumptions=self._divided(graphs),
            between_roots=int(self._is_between_roots[graphs.source, graphs.target].sum()),
            has_programs=any(graphs.programs),
            starves=not np.isfinite(table["elapsed_s"].to_numpy()).all(),
            too_fast=self._too_fast(graphs, table["elapsed_s"].to_numpy()) if isinstance(model, UserModel) else "",
        )
        return Predicted(table, notes)

    def _too_fast(self, graphs: CongestionGraphs, elapsed_s: NDArray[np.float64]) -> str:
        """Return the first graph of equal copies that is faster than its busiest link at the raw rate of a link."""
        raw, names = self.tree.link_bytes_per_s, self.tree.endpoint_names
        ends = zip(graphs.source.tolist(), graphs.target.tolist(), strict=True)
        if raw is None or any(self.tree.peer_link(names[one], names[other]) is not None for one, other in ends):
            return ""
        found = evaluate(self.tree, graphs, MODELS["busiest_link"], bandwidth_bytes_per_s=raw, tau=0.0)
        bound = found.end_s - graphs.start_s
        for number, name in enumerate(graphs.names):
            part = slice(int(graphs.offset[number]), int(graphs.offset[number + 1]))
            is_alike = np.ptp(graphs.size_bytes[part]) == 0 and np.ptp(graphs.start_s[part]) == 0
            if is_alike and elapsed_s[part].max() < bound[part].max() * (1 - _SAME):
                return name
        return ""

    def _of_user(self, model: UserModel, graphs: CongestionGraphs) -> Prediction:
        """Return the times of a model of the user, which names no bottleneck; it gets the rates of single copies."""
        links = Method().engines(self._machine).tree.peer_links if self.tree.peer_links else ()
        alone = replace(self.tree, bandwidth_bytes_per_s=self._parameters.bandwidth_bytes_per_s, peer_links=links)

        def times(some: CongestionGraphs) -> NDArray[np.float64]:
            return model.end_s(alone, some) - some.start_s

        return self._table(graphs, times(graphs), times, {})

    def _table(
        self, graphs: CongestionGraphs, elapsed_s: NDArray[np.float64], times: Times, links: Mapping[str, Any]
    ) -> Prediction:
        isolated_s = isolated_times(self.tree, graphs, times)
        return Prediction(
            {
                **communications(self.tree, graphs),
                "elapsed_s": elapsed_s,
                "slowdown": elapsed_s / isolated_s,
                **links,
                **self._limiting(graphs, elapsed_s, isolated_s, times),
            }
        )

    def _common_notes(self, graphs: CongestionGraphs) -> Notes:
        large = int((np.diff(graphs.offset) > self._most_copies(graphs)).sum()) if self._limited_by else 0
        return Notes(
            classes=frozenset(graph_classes(self.tree, graphs)),
            smallest_bytes=float(graphs.size_bytes.min(initial=np.inf)),
            large_graphs=large,
        )

    def _divided(self, graphs: CongestionGraphs) -> Assumptions:
        """Return the number of graphs that write from one uplink to several root ports."""
        divided = divided_writes(self.tree, graphs.graph_of_communication, graphs.source, graphs.target)
        return Assumptions.of(graphs.names[divided[0]], [_DIVIDED], divided.size) if divided.size else Assumptions()

    def _limiting(
        self, graphs: CongestionGraphs, elapsed_s: NDArray[np.float64], isolated_s: NDArray[np.float64], times: Times
    ) -> dict[str, Any]:
        """Return the columns limited_by and elapsed_without_s."""
        if not self._limited_by:
            return {}
        slow = elapsed_s > isolated_s * (1 + _SAME)
        found = removals(graphs, elapsed_s, slow, times, most_copies=self._most_copies(graphs))
        return {"limited_by": removal_texts(self.tree, graphs, found), "elapsed_without_s": found.elapsed_without_s}

    def _most_copies(self, graphs: CongestionGraphs) -> NDArray[np.int64]:
        """Return the number of copies of each graph up to which limiting copies are determined."""
        return np.full(len(graphs), MOST_IN_GRAPH) if self._engines is None else self._engines.most_explained(graphs)

    def compare_staged(self, graphs: CongestionGraphs, table: Prediction) -> Comparison:
        """Compare staged copies and graphs of pairs without peer access with measured rates of the same copies.

        For other pairs, the measurements are of direct copies.
        """
        measured = self._measured_staged
        if measured is None:
            return Comparison()
        staged, known, found = set(self.tree.staged_pairs), self._machine.staged_bytes_per_s, Comparison()
        for _, row in table[table["transport"] == "staged"].drop_duplicates(["source", "target"]).iterrows():
            flow = (str(row["source"]), str(row["target"]))
            if flow not in known and flow in staged:
                rate = float(row["size_bytes"] / row["elapsed_s"] * row["slowdown"])
                found += measured.compare_isolated(flow, rate)
        names, elapsed_s = self.tree.endpoint_names, table["elapsed_s"].to_numpy()
        for number in range(len(graphs)):
            part = slice(int(graphs.offset[number]), int(graphs.offset[number + 1]))
            pairs, sizes, starts = graphs.pairs(number), graphs.size_bytes[part], graphs.start_s[part]
            are_staged = all((names[one], names[other]) in staged for one, other in pairs)
            if are_staged and np.ptp(sizes) == 0 and np.ptp(starts) == 0:
                total = float(sizes.sum() / elapsed_s[part].max())
                found = measured.compare_graph(pairs, total, None, found)
        return found

    def staged_as_measured(self, graphs: CongestionGraphs, table: Prediction) -> Prediction:
        """Return a table whose equal copies through host memory have the total rate that was measured."""
        rates: dict[tuple[tuple[int, int], ...], list[float]] = {}
        for graph in self._machine.measured.staged_graphs:
            if graph.role not in EXCLUDED_ROLES and HOST not in itertools.chain(*graph.flows):
                rates.setdefault(tuple(sorted(flows_of(self.tree, graph))), []).append(graph.total_bytes_per_s)
        if not rates:
            return table
        factor = np.ones(len(table))
        elapsed_s = table["elapsed_s"].to_numpy()
        for number in range(len(graphs)):
            part = slice(int(graphs.offset[number]), int(graphs.offset[number + 1]))
            sizes, starts = graphs.size_bytes[part], graphs.start_s[part]
            found = rates.get(tuple(sorted(graphs.pairs(number))))
            if found and np.ptp(sizes) == 0 and np.ptp(starts) == 0:
                factor[part] = sizes.sum() / np.median(found) / elapsed_s[part].max()
        is_changed = factor != 1
        scaled = {name: table[name].to_numpy() * factor for name in ("elapsed_s", "slowdown")}
        scaled |= {
            name: np.where(is_changed, scaled["elapsed_s"], table[name].to_numpy())
            for name in ("earliest_s", "latest_s")
        }
        changed: Prediction = table.assign(**scaled)
        return changed

    def warnings(self, notes: Notes, *, is_contradicted: bool = False) -> list[CodedWarning]:
        """Return what affects predictions, and their expected error."""
        warnings = list(self._machine.warnings)
        if self._engines is not None:
            warnings += self._engine_warnings(self._engines, notes)
        else:
            warnings += self._parameters.warnings(self._method.chosen)
        if is_contradicted or notes.comparison.is_contradicted or notes.classes:
            warnings.append(self._expected_error(notes, is_contradicted or notes.comparison.is_contradicted))
        warnings += self._graph_warnings(notes)
        return warnings

    def _engine_warnings(self, engines: EngineModel, notes: Notes) -> Iterator[CodedWarning]:
        """Yield contradictions, the sources of the rates, and assumptions."""
        if self._measured is not None:
            yield from self._measured.warnings(notes.comparison)
        yield from slow_link_warnings(engines.rates)
        values = engines.rates.values
        for name, source in engines.rates.sources.items():
            value, words = values[name] or 0.0, name.replace("_", " ")
            quantity = f"{value:.4g}" if name in ("tau", "crossing_cost") else f"{value / 1e9:.4g} GB/s"
            yield CodedWarning(WarningCode.CALIBRATED_RATE, f"{words} {quantity}: {source}")
        yield from notes.assumptions.warnings(ASSUMPTIONS)

    def _expected_error(self, notes: Notes, is_contradicted: bool) -> CodedWarning:
        text = (
            "expected error: unknown, the measurements contradict the forecast; copies that were measured are printed "
            "as measured"
        )
        is_nominal = WarningCode.DIRECT_LINK_RATE_NOMINAL in notes.assumptions
        nominal = {link.kind for link in self.tree.peer_links} if is_nominal else set()
        if self._method.is_of_user:
            text = f"expected error of {self._method.name}: unknown, a function of the user"
        elif self._machine.default_share is not None and self._engines is not None:
            text = unmeasured_error_text(
                self._method.name, set(notes.classes), nominal, has_superchips=has_superchips(self.tree)
            )
        elif not is_contradicted:
            unprobed = [limit for limit, code in UNPROBED.items() if code in notes.assumptions]
            is_measured = self._machine.is_measured or self._bandwidth_tag == "measured"
            text = expected_error_text(
                self._method.name, set(notes.classes), unprobed, nominal, is_measured=is_measured
            )
            if self._has_other_tau and is_measured:
                text += f", all with tau 0; with tau {self._parameters.tau:.4g} unknown"
        return CodedWarning(WarningCode.EXPECTED_ERROR, text)

    @property
    def _bandwidth_tag(self) -> str:
        """Provenance of the bandwidth of a single copy."""
        return next(row.tag for row in self._machine.parameters.rows if row.name == "bandwidth")

    @property
    def _has_other_tau(self) -> bool:
        """Whether a model has another tau than 0, with which the measured graphs were forecast."""
        if self._method.is_engine_model or "tau" not in self._method.chosen.parameters:
            return False
        return bool(self._parameters.tau)

    def _graph_warnings(self, notes: Notes) -> Iterator[CodedWarning]:
        """Yield warnings about properties of the graphs that the model does not predict."""
        if notes.has_programs:
            text = f"the programs of the graphs are ignored: only {' and '.join(ENGINE_MODELS)} use them"
            yield CodedWarning(WarningCode.PROGRAMS_IGNORED, text)
        if notes.between_roots:
            text = (
                f"{notes.between_roots:,} copies are between root complexes; the study validates only copies below one "
                "root complex"
            )
            yield CodedWarning(WarningCode.INTER_SOCKET_COPIES, text)
        if _DIVIDED in notes.assumptions:
            yield divided_writes_warning(*notes.assumptions.counts[_DIVIDED])
        if notes.smallest_bytes < _LATENCY_BYTES:
            text = (
                f"the smallest copy has {notes.smallest_bytes:,.0f} bytes: models have no start-up time, which "
                "adds 10 to 35 % at 1 MiB (copies of host memory on H100 and H200) and dominates smaller copies"
            )
            yield CodedWarning(WarningCode.SMALL_COPIES, text)
        if notes.large_graphs:
            limits = f"{MOST_IN_GRAPH} copies, or {MOST_OF_RANDOM} with a random order"
            text = f"{notes.large_graphs:,} graphs have more than {limits}: their limited_by is empty"
            yield CodedWarning(WarningCode.LIMITING_COPIES_OMITTED, text)
        if self._explain and not self._limited_by:
            text = "limited_by and elapsed_without_s are omitted; request them with limited_by (--limited-by)"
            yield CodedWarning(WarningCode.LIMITING_COPIES_OMITTED, text)
        if notes.too_fast:
            text = (
                f"graph '{notes.too_fast}' ends before its busiest link can have sent the bytes of its copies at "
                f"{(self.tree.link_bytes_per_s or 0) / 1e9:.4g} GB/s: the rates of the function are too high"
            )
            yield CodedWarning(WarningCode.IMPLAUSIBLE_RATE, text)
        if notes.starves:
            text = f"model '{self._method.name}' starves some copies: their elapsed_s is infinite"
            yield CodedWarning(WarningCode.STARVATION, text)
