"""Measured rates of one machine, and comparison of its forecasts with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fabricast.core.warnings import Warning, WarningCode
from fabricast.pcie.engines.forecast import Sharing, isolated_rate
from fabricast.pcie.machines.calibrate import calibrate_machine
from fabricast.pcie.machines.calibration import Calibration
from fabricast.pcie.machines.validation import forecast_graph
from fabricast.pcie.measurements.files import copies_of_machine
from fabricast.pcie.measurements.measured_graph import EXCLUDED_ROLES, MeasuredGraph, flows_of
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["CONTRADICTS", "MeasuredCalibration", "MeasuredRates", "measured_calibration"]

#: Relative difference above which a forecast contradicts a measured rate.
CONTRADICTS = 0.15
_Flows = tuple[tuple[int, int], ...]


class MeasuredCalibration(NamedTuple):
    """Calibration of a machine, its measured graphs, and warnings about them."""

    calibration: Calibration
    graphs: tuple[MeasuredGraph, ...]
    warnings: tuple[Warning, ...]


def measured_calibration(
    tree: PcieTree, path: Path | str, *, system: str | None, one_way_bytes_per_s: float | None
) -> MeasuredCalibration:
    """Return the calibration of a machine from a file of measured copies."""
    copies = copies_of_machine(tree, path, system=system)
    calibration = calibrate_machine(with_host_memory(tree), copies.graphs, one_way_bytes_per_s=one_way_bytes_per_s)
    return MeasuredCalibration(calibration, tuple(copies.graphs), copies.warnings)


class MeasuredRates:
    """Measured rates of isolated copies and of graphs, with which forecasts of the same copies are compared.

    Parameters
    ----------
    tree : PcieTree
        Topology of the machine with host memory as endpoints.
    graphs : sequence of MeasuredGraph
        Measured graphs; those that their file excludes are not compared.
    calibration : Calibration
        Calibration of the forecasts.
    sharing : {'max_min', 'ports'}
        Rule by which running copies share links.
    direct : collection of (str, str), optional
        Pairs with a direct link that the forecasts do not use; measurements with such a pair are not compared.
    """

    def __init__(
        self,
        tree: PcieTree,
        graphs: Sequence[MeasuredGraph],
        calibration: Calibration,
        sharing: Sharing,
        direct: Collection[tuple[str, str]] = (),
    ) -> None:
        self._tree, self._calibration, self._sharing = tree, calibration, sharing
        valid = [
            graph for graph in graphs if graph.role not in EXCLUDED_ROLES and not set(direct).intersection(graph.flows)
        ]
        self._isolated = _isolated_rates(valid, 1 + calibration.rates.duplex_cost)
        self._graphs: dict[_Flows, list[MeasuredGraph]] = {}
        for graph in valid:
            if len(graph.flows) > 1:
                self._graphs.setdefault(tuple(sorted(flows_of(tree, graph))), []).append(graph)
        self._compared: set[tuple[str, str] | _Flows] = set()
        self._copies: dict[tuple[str, str], tuple[float, float]] = {}
        self._contradicted: list[tuple[float, MeasuredGraph, str]] = []

    @property
    def has_graphs(self) -> bool:
        """Whether any measured rate can be compared."""
        return bool(self._isolated or self._graphs)

    def compare(self, flows: Iterable[tuple[int, int]], printed_bytes_per_s: float | None, program: str) -> None:
        """Compare the forecast of each isolated copy, and that of all copies together, with their measured rates."""
        pairs = tuple(sorted(flows))
        for pair in set(pairs):
            source, target = (self._tree.endpoint_names[end] for end in pair)
            if (source, target) in self._isolated and (source, target) not in self._compared:
                forecast = isolated_rate(self._tree, pair, self._calibration.rates, over_peer_links=True)
                self.compare_isolated((source, target), forecast)
        if printed_bytes_per_s is not None:
            self._compare_graph(pairs, printed_bytes_per_s, program)

    def compare_staged(self, flows: Iterable[tuple[int, int]], printed_bytes_per_s: float) -> None:
        """Compare the forecast of copies through host memory with their measured total rate in bytes/s."""
        self._compare_graph(tuple(sorted(flows)), printed_bytes_per_s, None)

    def _compare_graph(self, pairs: _Flows, printed_bytes_per_s: float, program: str | None) -> None:
        if pairs in self._compared:
            return
        self._compared.add(pairs)
        for graph in self._graphs.get(pairs, ()):
            low = high = total = printed_bytes_per_s
            if graph.program == program:
                repeated = forecast_graph(self._tree, graph, self._calibration, sharing=self._sharing)
                if repeated is None:
                    continue
                low, high, total = repeated.low, repeated.high, repeated.total
            measured = graph.total_bytes_per_s
            if not low <= measured <= high and abs(total / measured - 1) > CONTRADICTS:
                self._contradicted.append((total, graph, program or graph.program))

    def compare_isolated(self, flow: tuple[str, str], forecast_bytes_per_s: float) -> None:
        """Compare the forecast of an isolated copy with its measured rate, if any."""
        self._compared.add(flow)
        measured = self._isolated.get(flow)
        if measured is not None and abs(forecast_bytes_per_s / measured - 1) > CONTRADICTS:
            self._copies[flow] = forecast_bytes_per_s, measured

    def warnings(self) -> list[Warning]:
        """Return the contradictions between forecasts and measurements so far."""
        texts = [*self._of_copies(), *self._of_graphs()]
        return [Warning(WarningCode.MEASUREMENT_CONTRADICTED, text) for text in texts]

    def _of_copies(self) -> Iterable[str]:
        if not self._copies:
            return
        found = sorted(self._copies.items(), key=lambda item: -abs(np.log(item[1][0] / item[1][1])))
        (source, target), (forecast, measured) = found[0]
        ends = Counter(end for (one, other), _ in found for end in (one, other))
        # Of GPUs in equally many of these copies, the one with the lowest measured rates is the cause.
        gpu = min(ends, key=lambda end: (-ends[end], self._median_rate(end)))
        count, all_of = ends[gpu], len(found)
        common = f"; all {all_of} such copies use GPU {gpu}: check the width of its link (LnkSta of 'lspci -vv')"
        others = f" and {all_of - 1} further copies differ by more than {CONTRADICTS:.0%}" if all_of > 1 else ""
        yield (
            f"the forecast assumes {forecast / 1e9:.4g} GB/s for an isolated copy {source}>{target}, but the "
            f"measurements have {measured / 1e9:.4g} GB/s{others}"
            f"{common if count == all_of > 1 else '; check the topology'}"
        )

    def _of_graphs(self) -> Iterable[str]:
        if not self._contradicted:
            return
        forecast, graph, program = max(
            self._contradicted, key=lambda item: abs(float(np.log(item[0] / item[1].total_bytes_per_s)))
        )
        programs = "" if program == graph.program else f" (program {program}, measured {graph.program})"
        more = len(self._contradicted) - 1
        others = f", and {more} further graphs differ by more than {CONTRADICTS:.0%}" if more else ""
        where = f" (line {graph.line})" if graph.line else ""
        yield (
            f"the measurements have {graph.total_bytes_per_s / 1e9:.4g} GB/s in total for the same copies, graph "
            f"'{graph.name}'{where}, but their forecast is {forecast / 1e9:.4g} GB/s{programs}{others}; "
            "'fabricast validate' names causes"
        )

    def _median_rate(self, end: str) -> float:
        """Return the median measured rate of isolated copies of an endpoint."""
        return float(np.median([rate for flow, rate in self._isolated.items() if end in flow]))


def _isolated_rates(graphs: Sequence[MeasuredGraph], duplex: float) -> dict[tuple[str, str], float]:
    """Return the measured rate of isolated copies in bytes/s.

    Copies that were measured only in bidirectional pairs have the rate of each copy of the pair, without duplex cost.
    """
    isolated: dict[tuple[str, str], float] = {}
    for graph in sorted(graphs, key=lambda graph: -len(graph.flows)):
        flows, rate = graph.flows, graph.total_bytes_per_s / len(graph.flows)
        if len(flows) == 2 and flows[0] == flows[1][::-1]:
            isolated |= dict.fromkeys(flows, rate * duplex)
        elif len(flows) == 1:
            isolated[flows[0]] = rate
    return isolated
