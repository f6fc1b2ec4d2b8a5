"""Measured rates of one machine, and comparison of its forecasts with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.engines.forecast import Sharing, isolated_rate
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.graphs.rates import CopyTimes, Rates
from fabricast.pcie.machines.validation import forecast_graph
from fabricast.pcie.measurements.measured_graph import EXCLUDED_ROLES, MeasuredGraph, flows_of
from fabricast.pcie.topology.tree import PcieTree

#: Relative difference above which a forecast contradicts a measured rate.
CONTRADICTS = 0.15
#: Cause of a wait that a measurement states.
MEASURED_RATE = "measured rate of these copies"
_SAME = 1e-9
_Flows = tuple[tuple[int, int], ...]
_Pair = tuple[str, str]


@dataclass(frozen=True)
class Comparison:
    """Forecasts that contradict measured rates, as a value; rates are in bytes/s."""

    #: Copies and graphs that were compared, so that each is compared once.
    compared: frozenset[_Pair | _Flows] = frozenset()
    #: Forecast and measured rate of isolated copies.
    copies: Mapping[_Pair, tuple[float, float]] = field(default_factory=dict)
    #: Forecast total rate, measured graph, and program of the forecast.
    graphs: tuple[tuple[float, MeasuredGraph, str], ...] = ()

    def __add__(self, other: Comparison) -> Comparison:
        new = tuple(one for one in other.graphs if one not in self.graphs)
        return Comparison(self.compared | other.compared, {**self.copies, **other.copies}, (*self.graphs, *new))

    @property
    def is_contradicted(self) -> bool:
        """Whether any forecast contradicts a measurement."""
        return bool(self.copies or self.graphs)


class MeasuredRates:
    """Measured rates of isolated copies and of graphs, with which forecasts of the same copies are compared.

    Arguments: tree: topology of the machine with host memory as endpoints; graphs: measured graphs; those that their
    file excludes are not compared; calibration: calibration of the forecasts; sharing: rule by which running copies
    share links: 'max_min', 'ports'; direct: pairs with a direct link that the forecasts do not use; measurements with
    such a pair are not compared.
    """

    def __init__(
        self,
        tree: PcieTree,
        graphs: Sequence[MeasuredGraph],
        calibration: Rates,
        sharing: Sharing,
        direct: Collection[_Pair] = (),
    ) -> None:
        self._tree, self._calibration, self._sharing = tree, calibration, sharing
        valid = [
            graph for graph in graphs if graph.role not in EXCLUDED_ROLES and not set(direct).intersection(graph.flows)
        ]
        self._isolated = _isolated_rates(valid, 1 + calibration.duplex_cost)
        self._graphs: dict[_Flows, list[MeasuredGraph]] = {}
        for graph in valid:
            if len(graph.flows) > 1:
                self._graphs.setdefault(tuple(sorted(flows_of(tree, graph))), []).append(graph)

    @property
    def has_graphs(self) -> bool:
        """Whether any measured rate can be compared."""
        return bool(self._isolated or self._graphs)

    def compare(
        self, flows: Iterable[tuple[int, int]], printed_bytes_per_s: float | None, program: str, known: Comparison
    ) -> Comparison:
        """Compare the forecast of each isolated copy, and that of all copies together, with their measured rates."""
        pairs = tuple(sorted(flows))
        found = known
        for pair in set(pairs):
            source, target = (self._tree.endpoint_names[end] for end in pair)
            if (source, target) in self._isolated and (source, target) not in found.compared:
                forecast = isolated_rate(self._tree, pair, self._calibration, over_peer_links=True)
                found += self.compare_isolated((source, target), forecast)
        return found if printed_bytes_per_s is None else self.compare_graph(pairs, printed_bytes_per_s, program, found)

    def compare_graph(
        self, flows: Iterable[tuple[int, int]], printed_bytes_per_s: float, program: str | None, known: Comparison
    ) -> Comparison:
        """Compare the forecast of copies together with their measured total rate; None is the program of staging."""
        pairs = tuple(sorted(flows))
        if pairs in known.compared:
            return known
        contradicted = []
        for graph in self._graphs.get(pairs, ()):
            low = high = total = printed_bytes_per_s
            if graph.program == program:
                repeated = forecast_graph(self._tree, graph, self._calibration, sharing=self._sharing)
                if repeated is None:
                    continue
                low, high, total = repeated.low, repeated.high, repeated.total
            measured = graph.total_bytes_per_s
            if not low <= measured <= high and abs(total / measured - 1) > CONTRADICTS:
                contradicted.append((total, graph, program or graph.program))
        return known + Comparison(frozenset({pairs}), {}, tuple(contradicted))

    def as_measured(
        self, graphs: CongestionGraphs, found: CopyTimes, isolated_s: NDArray[np.float64], programs: Sequence[str]
    ) -> tuple[CopyTimes, NDArray[np.float64]]:
        """Return completion times and times of isolated copies, those that measurements contradict as measured.

        The rate of an isolated copy also bounds that of the copy among others.
        """
        names, alone_s = self._tree.endpoint_names, isolated_s.copy()
        for copy, ends in enumerate(zip(graphs.source.tolist(), graphs.target.tolist(), strict=True)):
            rate = self._isolated.get((names[ends[0]], names[ends[1]]))
            if rate is not None and abs(graphs.size_bytes[copy] / isolated_s[copy] / rate - 1) > CONTRADICTS:
                alone_s[copy] = graphs.size_bytes[copy] / rate
        elapsed_s, shortest_s = found.end_s - graphs.start_s, np.zeros(alone_s.size)
        longest_s = np.full(alone_s.size, np.inf)
        for number, program in enumerate(programs):
            part = slice(int(graphs.offset[number]), int(graphs.offset[number + 1]))
            together_s = self._measured_s(graphs, number, part, elapsed_s[part], program)
            is_alone = part.stop - part.start == 1
            changes = np.abs(alone_s[part] / isolated_s[part] - 1) > _SAME
            if together_s is not None:
                shortest_s[part] = longest_s[part] = elapsed_s[part] * together_s / elapsed_s[part].max()
            elif is_alone and changes[0]:
                shortest_s[part] = longest_s[part] = alone_s[part]
            else:
                shortest_s[part] = np.where(changes, alone_s[part], 0.0)

        def bounded(end_s: NDArray[np.float64]) -> NDArray[np.float64]:
            found_s: NDArray[np.float64] = graphs.start_s + np.clip(end_s - graphs.start_s, shortest_s, longest_s)
            return found_s

        end_s = bounded(found.end_s)
        is_changed = np.abs(end_s - found.end_s) > _SAME * elapsed_s
        caused_by = tuple(
            MEASURED_RATE if changed else cause for cause, changed in zip(found.caused_by, is_changed, strict=False)
        )
        return CopyTimes(
            end_s, bounded(found.earliest_s), bounded(found.latest_s), found.bottleneck, caused_by
        ), alone_s

    def _measured_s(
        self, graphs: CongestionGraphs, number: int, part: slice, elapsed_s: NDArray[np.float64], program: str
    ) -> float | None:
        """Return the time of equal copies that were measured together and contradict their forecast; else None."""
        sizes, starts = graphs.size_bytes[part], graphs.start_s[part]
        if np.ptp(sizes) or np.ptp(starts) or sizes.size == 1:
            return None
        flows = graphs.pairs(number)
        total = float(sizes.sum() / elapsed_s.max())
        contradicted = self.compare_graph(flows, total, program, Comparison()).graphs
        rates = [
            graph.total_bytes_per_s
            for _, graph, _ in contradicted
            # Copies of different GPUs have no order.
            if graph.program == program or len({source for source, _ in flows}) == len(flows)
        ]
        return float(sizes.sum() / np.median(rates)) if rates else None

    def compare_isolated(self, flow: _Pair, forecast_bytes_per_s: float) -> Comparison:
        """Compare the forecast of an isolated copy with its measured rate, if any."""
        measured = self._isolated.get(flow)
        is_off = measured is not None and abs(forecast_bytes_per_s / measured - 1) > CONTRADICTS
        return Comparison(frozenset({flow}), {flow: (forecast_bytes_per_s, measured or 0.0)} if is_off else {})

    def warnings(self, found: Comparison) -> list[CodedWarning]:
        """Return the contradictions between forecasts and measurements."""
        texts = [*self._of_copies(found.copies), *_of_graphs(found.graphs)]
        return [CodedWarning(WarningCode.MEASUREMENT_CONTRADICTED, text) for text in texts]

    def _of_copies(self, copies: Mapping[_Pair, tuple[float, float]]) -> Iterator[str]:
        if not copies:
            return
        found = sorted(copies.items(), key=lambda item: -abs(np.log(item[1][0] / item[1][1])))
        (source, target), (forecast, measured) = found[0]
        ends = Counter(end for (one, other), _ in found for end in (one, other))
        # Of GPUs in equally many of these copies, the one with the lowest measured rates is the cause.
        gpu = min(ends, key=lambda end: (-ends[end], self._median_rate(end)))
        count, all_of = ends[gpu], len(found)
        common = f"; all {all_of} such copies use GPU {gpu}: check the width of its link (LnkSta of 'lspci -vv')"
        others = f" and {all_of - 1} further copies differ by more than {CONTRADICTS:.0%}" if all_of > 1 else ""
        yield (
            f"the forecast assumes {forecast / 1e9:.4g} GB/s for an isolated copy {source}>{target}, but the "
            f"measurements have {measured / 1e9:.4g} GB/s, which is printed{others}"
            f"{common if count == all_of > 1 else '; check the topology'}"
        )

    def _median_rate(self, end: str) -> float:
        """Return the median measured rate of isolated copies of an endpoint."""
        return float(np.median([rate for flow, rate in self._isolated.items() if end in flow]))


def _of_graphs(graphs: Sequence[tuple[float, MeasuredGraph, str]]) -> Iterator[str]:
    """Yield the text about the graph that contradicts its forecast most."""
    if not graphs:
        return
    forecast, graph, program = max(graphs, key=lambda item: abs(float(np.log(item[0] / item[1].total_bytes_per_s))))
    programs = "" if program == graph.program else f" (program {program}, measured {graph.program})"
    more = len(graphs) - 1
    others = f", and {more} further graphs differ by more than {CONTRADICTS:.0%}" if more else ""
    where = f" (line {graph.line})" if graph.line else ""
    yield (
        f"the measurements have {graph.total_bytes_per_s / 1e9:.4g} GB/s in total for the same copies, graph "
        f"'{graph.name}'{where}, but their forecast is {forecast / 1e9:.4g} GB/s{programs}{others}; "
        "'fabricast validate' names causes"
    )


def _isolated_rates(graphs: Sequence[MeasuredGraph], duplex: float) -> dict[tuple[str, str], float]:
    """Return the measured rate of isolated copies in bytes/s.

    Copies that were measured only in bidirectional pairs have the rate of each copy of the pair, without duplex cost.
    """
    isolated: dict[tuple[str, str], float] = {}
    for graph in sorted(graphs, key=lambda graph: -len(graph.flows)):
        flows, rate = graph.flows, graph.total_bytes_per_s / len(graph.flows)
        if graph.is_both_ways:
            isolated |= dict.fromkeys(flows, rate * duplex)
        elif len(flows) == 1:
            isolated[flows[0]] = rate
    return isolated
