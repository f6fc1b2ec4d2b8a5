"""Warnings about measurements that contradict a topology, and missing measurements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.core.warnings import CodedWarning, CopyWarning, WarningCode
from fabricast.pcie.graphs.divided_writes import divided_writes, divided_writes_warning
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.rates import Limit, Rates
from fabricast.pcie.machines.calibrate import highest_link_rate
from fabricast.pcie.machines.causes import causes
from fabricast.pcie.machines.exclusion import Reason
from fabricast.pcie.machines.limits import root_complex_limits
from fabricast.pcie.measurements.measured_graph import DIRECT_LINKS, HOST_COPIES, MeasuredGraph, flows_of, graph_class
from fabricast.pcie.topology.memory import ends_of
from fabricast.pcie.topology.parts import direct_rates
from fabricast.pcie.topology.paths import copy_class_of
from fabricast.pcie.topology.tree import PcieTree

#: Relative error above which a graph counts as deviating.
_DEVIATES = 0.15
#: PCIe 6.0 with 16 lanes; and the share of a link's rate below which a single copy is implausibly slow.
_FASTEST_LINK, _FAR_BELOW = pcie_link_bytes_per_s(6, 16), 0.25
#: Factors by which rates in Gbit/s that were read as GB/s exceed links that are mostly or fully used.
_BITS = (4.0, 8.5)
#: Links that a warning names.
_NAMED_LINKS = 4


def machine_warnings(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame, calibration: Rates
) -> Iterable[CodedWarning]:
    """Yield warnings about measurements that contradict a topology, and missing probes."""
    by_name = {graph.name: graph for graph in graphs}
    exceeding = rows[rows["reason_code"] == Reason.BEYOND_LINKS]
    if len(exceeding):
        pairs = [flows_of(tree, by_name[str(name)]) for name in exceeding["graph"]]
        capacity = np.array([highest_link_rate(tree, flows, calibration) for flows in pairs])
        yield _beyond_links(tree, exceeding, capacity)
    yield from causes(tree, graphs, rows, calibration)
    yield from _contradicted_calibration(rows)
    yield from _implausible_rate(tree, calibration)
    yield from _slow_direct_link(tree, calibration)
    divided = [graph.name for graph in graphs if _divides_writes(tree, graph)]
    if divided:
        yield divided_writes_warning(len(divided), divided[0])
    yield from _common_link(tree, graphs, rows)
    yield from _missing_probes(rows)
    yield from _unmeasured_root_complex(tree, graphs, rows, calibration)
    yield from _unmeasured_crossing(tree, graphs, rows, calibration)


def _beyond_links(tree: PcieTree, rows: pd.DataFrame, capacity: NDArray[np.float64]) -> CodedWarning:
    """Return the warning about the graph that exceeds the links most, with possible causes."""
    measured = rows["measured_bytes_per_s"].to_numpy(dtype=np.float64)
    ratio = measured / capacity
    worst = int(np.argmax(ratio))
    more = f" (and {len(rows) - 1} more graphs)" if len(rows) > 1 else ""
    text = (
        f"'{rows['graph'].iloc[worst]}' reached {measured[worst] / 1e9:.4g} GB/s, and the links of {tree.name} have a "
        f"capacity of {capacity[worst] / 1e9:.4g} GB/s{more}: the topology is not that of the machine, the measurement "
        "is an artefact, or the links were in a power-saving state when the topology was written"
    )
    if ratio.min() > _BITS[0] and ratio.max() < _BITS[1]:
        text += f", or rates are in Gbit/s (up to {ratio.max():.2g} times as fast as the links)"
    return CopyWarning.about((), WarningCode.RATE_BEYOND_LINKS, text, graph=str(rows["graph"].iloc[worst]))


def _slow_direct_link(tree: PcieTree, calibration: Rates) -> Iterable[CodedWarning]:
    """Warn if single copies over direct links are far slower than the topology specifies."""
    if not calibration.direct_links_measured:
        return
    specified, measured = direct_rates(tree.peer_links, of_one_copy=True), direct_rates(calibration.direct_links)
    shares = {pair: measured[pair] / rate for pair, rate in specified.items() if pair in measured}
    slowest = min(shares, key=lambda pair: shares[pair], default=None)
    if slowest is not None and shares[slowest] < _FAR_BELOW:
        kind = tree.peer_link(*slowest)
        yield CodedWarning(
            WarningCode.SLOW_DIRECT_LINK,
            f"a single copy from {slowest[0]} to {slowest[1]} reached {measured[slowest] / 1e9:.4g} GB/s, which is "
            f"{shares[slowest]:.1%} of the rate of their {kind} in the topology: check the unit, peer access and the "
            "numbering of the GPUs",
        )


def _missing_probes(rows: pd.DataFrame) -> Iterable[CodedWarning]:
    """Warn about graphs that cannot be validated because a probe is missing."""
    waiting = rows["graph"][[Reason(code).needs_probe if code else False for code in rows["reason_code"]]]
    if len(waiting):
        more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        yield CodedWarning(
            WarningCode.MISSING_PROBES,
            f"'{waiting.iloc[0]}'{more} cannot be validated until probes are measured: 'fabricast probes "
            "machine.yaml --run' measures the "
            "probes of this topology, and those with the role calibration determine the parameters",
        )


def _unmeasured_root_complex(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame, calibration: Rates
) -> Iterable[CodedWarning]:
    """Warn if validated graphs use a root complex whose capacity was not measured."""
    if calibration.estimate(Limit.ROOT_COMPLEX) is not None:
        return
    validated = set(rows["graph"][rows["judged"]])
    affected = [
        graph.name
        for graph in graphs
        if graph.name in validated
        and any(
            calibration.estimate(limit) is None and not _share_a_link(tree, graph, numbers)
            for limit, numbers in root_complex_limits(tree, graph.flows).values()
        )
    ]
    if affected:
        yield CodedWarning(
            WarningCode.ROOT_COMPLEX_UNMEASURED,
            f"assuming the root complex is not a bottleneck ({_affects(affected)}): no probe measured its total "
            "bandwidth for copies between GPUs",
        )


def _unmeasured_crossing(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame, calibration: Rates
) -> Iterable[CodedWarning]:
    """Warn if validated graphs cross a root complex without a single-copy measurement."""
    if calibration.measured_classes is None or "crossing" in calibration.measured_classes:
        return
    validated = set(rows["graph"][rows["judged"]])
    affected = [
        graph.name
        for graph in graphs
        if graph.name in validated
        and any(
            copy_class_of(tree, *pair) == "crossing" and tree.peer_link(*flow) is None
            for pair, flow in zip(flows_of(tree, graph), graph.flows, strict=True)
        )
    ]
    if affected:
        yield CodedWarning(
            WarningCode.CROSSING_UNMEASURED,
            f"assuming a copy across the root complex is as fast as other copies ({_affects(affected)}): no single "
            "copy across it was measured, and on some hosts it is slower",
        )


def _affects(graphs: Sequence[str]) -> str:
    if len(graphs) == 1:
        return f"affects '{graphs[0]}'"
    return f"affects {len(graphs)} graphs, for example '{graphs[0]}'"


def _share_a_link(tree: PcieTree, graph: MeasuredGraph, numbers: Sequence[int]) -> bool:
    """Return whether copies have a common link, which limits them more than a root complex."""
    return bool(set.intersection(*(set(tree.route(*ends_of(tree, graph.flows[number]))) for number in numbers)))


def _implausible_rate(tree: PcieTree, calibration: Rates) -> Iterable[CodedWarning]:
    """Warn if the rate of single copies is far from the rate of PCIe links."""
    rate, links = calibration.one_way_bytes_per_s, tree.link_bytes_per_s
    if links is None and rate > _FASTEST_LINK:
        yield CodedWarning(
            WarningCode.IMPLAUSIBLE_RATE,
            f"a single copy reached {rate / 1e9:.4g} GB/s, more than PCIe 6.0 with 16 lanes ({_FASTEST_LINK / 1e9:.4g} "
            "GB/s): check whether rates are in Gbit/s, or copies use NVLink or xGMI",
        )
    if links is not None and rate < _FAR_BELOW * links:
        yield CodedWarning(
            WarningCode.IMPLAUSIBLE_RATE,
            f"a single copy reached {rate / 1e9:.4g} GB/s, {rate / links:.1%} of the link rate of {tree.name}: check "
            "the unit, whether links are in a power-saving state, and whether copies are staged through host memory",
        )


def _contradicted_calibration(rows: pd.DataFrame) -> Iterable[CodedWarning]:
    """Warn about calibration rows that the calibrated model does not reproduce."""
    used = rows[rows["reason_code"] == Reason.CALIBRATION]
    off = used[used["relative_error"].abs() > _DEVIATES].sort_values("relative_error", key=abs, ascending=False)
    if len(off):
        worst = off.iloc[0]
        yield CopyWarning.about(
            (),
            WarningCode.CALIBRATION_CONTRADICTED,
            f"{len(off)} of {len(used)} calibration graphs deviate by more than {_DEVIATES:.0%} from the calibrated "
            f"model, for example '{worst['graph']}' (measured {worst['measured_bytes_per_s'] / 1e9:.4g} GB/s, model "
            f"{worst['forecast_bytes_per_s'] / 1e9:.4g}): copies of one path class differ, so the topology is not that "
            "of the machine, GPUs are numbered differently, or other work was running",
            graph=str(worst["graph"]),
        )


def _common_link(tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame) -> Iterable[CodedWarning]:
    """Warn about links that all deviating graphs use and no other graph uses."""
    # Copies over direct links use no link of the tree.
    validated = rows[rows["judged"] & (rows["graph_class"] != DIRECT_LINKS)]
    deviating = set(validated["graph"][validated["relative_error"].abs() > _DEVIATES])
    others = set(validated["graph"]) - deviating
    if not deviating:
        return
    links: dict[str, set[int]] = {}
    routes = tree.routes
    for graph in graphs:
        if graph.name in deviating | others:
            pairs = [source * routes.endpoints + target for source, target in flows_of(tree, graph)]
            links[graph.name] = {int(x) for p in pairs for x in routes.link[routes.offset[p] : routes.offset[p + 1]]}
    common = set.intersection(*(links[name] for name in deviating)) - set().union(*(links[name] for name in others))
    names = [f"{tree.link_names[link][0]} to {tree.link_names[link][1]}" for link in sorted(common)]
    if names:
        named = ", ".join(names[:_NAMED_LINKS])
        subject = (
            f"'{next(iter(deviating))}', the only graph that deviates by more than {_DEVIATES:.0%}, is also the only "
            f"one that uses {named}"
            if len(deviating) == 1
            else f"all {len(deviating)} graphs that deviate by more than {_DEVIATES:.0%} use {named}, and no other "
            "graph does"
        )
        first = next(graph.name for graph in graphs if graph.name in deviating)
        yield CopyWarning.about((), WarningCode.COMMON_LINK, subject, graph=first)


def _divides_writes(tree: PcieTree, graph: MeasuredGraph) -> bool:
    """Return whether posted writes of an uplink have targets behind different root ports."""
    kind = graph_class(tree, graph)
    if PROGRAMS[graph.program].executor == "target" or kind in (DIRECT_LINKS, HOST_COPIES):
        return False
    source, target = np.array(flows_of(tree, graph), dtype=np.int64).T
    return bool(divided_writes(tree, np.zeros_like(source), source, target).size)
