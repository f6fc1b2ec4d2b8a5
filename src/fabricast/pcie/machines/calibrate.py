"""Rates of the rates and limits of a machine from measured copies and probes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fabricast.core.errors import InputError
from fabricast.pcie.engines.forecast import total_rate
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.rates import Estimate, Limit, Rates, Statistic
from fabricast.pcie.machines.direct_links import calibrated_links
from fabricast.pcie.machines.group_rates import (
    GROUPED_CLASSES,
    IsolatedCopy,
    group_of,
    group_rate_sources,
    rates_of_groups,
    slow_groups,
    slow_links,
    without_slow_links,
)
from fabricast.pcie.machines.limits import PROBES, THROTTLED, by_links, limit_of_probe, with_inter_socket_capacity
from fabricast.pcie.measurements.measured_graph import CALIBRATION, MeasuredGraph, flows_of
from fabricast.pcie.models.parameters import MachineParameters
from fabricast.pcie.topology.memory import UNLIMITED, ends_of, is_host
from fabricast.pcie.topology.parts import direct_rates
from fabricast.pcie.topology.paths import (
    COPY_CLASS_WORDS,
    CopyClass,
    are_disjoint,
    copy_class_of,
    has_local_path,
    narrowest_link,
)
from fabricast.pcie.topology.tree import PcieTree

#: Measured rates that exceed the link rates by more than this share contradict the tree, or are an artefact.
BEYOND = 0.1
#: Source of the single-copy rate if none was measured or specified.
LINK_PAYLOAD = "payload share of the links in the topology file"
#: Cost of a byte of the reverse direction if no bidirectional pair was measured: median of three machines with PCIe 5.0
#: switches (config/published/pcie_concurrent_copies.csv).
DUPLEX_COST = 0.03
#: Path classes; those that may be slower come last.
_CLASSES: tuple[CopyClass, ...] = (
    "local",
    "host_in",
    "host_out",
    "crossing",
    "between_roots",
    "remote_in",
    "remote_out",
)
_THROUGH_ROOT: tuple[CopyClass, ...] = ("crossing", "between_roots")
#: Limits for which a bidirectional pair provides a lower bound.
_OPPOSITE: dict[CopyClass, Limit] = {
    "between_roots": Limit.ROOT_COMPLEX_LINK_BOTH_WAYS,
    "crossing": Limit.ROOT_COMPLEX_BOTH_WAYS,
}
_SLOWER: tuple[CopyClass, ...] = ("crossing", "between_roots", "host_in", "host_out", "remote_in", "remote_out")


def _peer_link_of(tree: PcieTree, flows: Sequence[tuple[int, int]]) -> str | None:
    """Return the kind of direct link that a copy uses; None if all copies use the tree."""
    names = tree.endpoint_names
    return next((kind for s, t in flows if (kind := tree.peer_link(names[s], names[t])) is not None), None)


def _rate_limited_by_links(
    tree: PcieTree, flows: Sequence[tuple[int, int]], bytes_per_s: float, statistic: Statistic = "sum_of_copies"
) -> float:
    """Return the highest total rate of some copies in bytes/s if only link rates limit them.

    The capacity of links between root complexes, the duplex cost and slower copies across the root complex are
    ignored. A measurement that exceeds these limits contradicts a forecast; a measurement that exceeds the result of
    this function contradicts the topology.
    """
    if statistic == "last_listed":
        return len(flows) * bytes_per_s
    wide = with_inter_socket_capacity(tree, UNLIMITED)
    rates = Rates(bytes_per_s, bytes_per_s)
    return total_rate(wide, flows, PROGRAMS["independent"], rates, statistic="sum_of_copies").bytes_per_s


def calibrate_machine(
    tree: PcieTree,
    graphs: Iterable[MeasuredGraph],
    *,
    one_way_bytes_per_s: float | None = None,
    one_way_source: str = LINK_PAYLOAD,
) -> Rates:
    """Calibrate a machine from isolated copies, bidirectional pairs and marked rows.

    Graphs whose rate exceeds the link rates of the tree are ignored.
    """
    isolated: dict[CopyClass, list[IsolatedCopy]] = {path_class: [] for path_class in _CLASSES}
    bidirectional: dict[CopyClass, list[IsolatedCopy]] = {path_class: [] for path_class in _CLASSES}
    direct: dict[tuple[str, str], list[float]] = {}
    used = set()
    beyond: list[MeasuredGraph] = []
    probes: list[_Probed] = []
    totals_both_ways: dict[CopyClass, list[float]] = {}
    for graph in graphs:
        flows = flows_of(tree, graph)
        is_pair = {(t, s) for s, t in flows} == set(flows) and len(flows) == 2
        ends = ends_of(tree, graph.flows[0]) if len(flows) == 1 or is_pair else ("", "")
        rate = graph.total_bytes_per_s / len(flows)
        each = IsolatedCopy(narrowest_link(tree, flows), rate, group_of(tree, graph.flows), *ends)
        if _peer_link_of(tree, flows) is not None:
            # A copy over a direct link does not measure links of the tree.
            if len(flows) == 1 and graph.may_calibrate:
                direct.setdefault(ends_of(tree, graph.flows[0]), []).append(each.bytes_per_s)
                used.add(graph.name)
            continue
        raw = tree.link_bytes_per_s
        most = np.inf if raw is None else _rate_limited_by_links(tree, flows, raw, graph.statistic)
        if graph.total_bytes_per_s > most * (1 + BEYOND):
            # Links cannot be calibrated with a rate that exceeds them.
            beyond.append(graph)
            continue
        marked = graph.role == CALIBRATION
        probe = limit_of_probe(tree, graph, opposite=is_pair) if marked else None
        if probe is not None:
            probes.append(_Probed(*probe, graph))
        elif (len(flows) == 1 and graph.may_calibrate) or (marked and not is_pair and are_disjoint(tree, flows)):
            # The slowest of several disjoint copies determines their completion time.
            isolated[max((copy_class_of(tree, s, t) for s, t in flows), key=_CLASSES.index)].append(each)
        elif is_pair and graph.may_calibrate and not is_host(tree, graph.flows):
            bidirectional[copy_class_of(tree, *flows[0])].append(each)
            totals_both_ways.setdefault(copy_class_of(tree, *flows[0]), []).append(graph.total_bytes_per_s)
        else:
            continue
        used.add(graph.name)
    if beyond and one_way_bytes_per_s is None and not any(isolated.values()):
        raise InputError(
            f"'{beyond[0].name}' reached {beyond[0].total_bytes_per_s / 1e9:.4g} GB/s, more than the links of "
            f"'{tree.name}' ({(tree.link_bytes_per_s or 0.0) / 1e9:.4g} GB/s each): the topology is not that of "
            "the machine, or the measurement is an artefact"
        )
    default = None if one_way_bytes_per_s is None else (one_way_bytes_per_s, one_way_source)
    faster = sum(len(graph.flows) == 1 for graph in beyond)
    # Sockets differ in their host rates, and copies across two host bridges from those across one: the class has the
    # rate of the fastest group.
    slow_rates = slow_links(tree, isolated)
    isolated = {way: without_slow_links(tree, copies, slow_rates) for way, copies in isolated.items()}
    pairs = {way: without_slow_links(tree, each, slow_rates, both_ways=True) for way, each in bidirectional.items()}
    slow = {way: slow_groups(isolated[way]) for way in GROUPED_CLASSES}
    calibration = _estimated(
        {
            way: _of_the_widest([copy for copy in copies if copy.group not in slow.get(way, {})])
            for way, copies in isolated.items()
        },
        {path_class: _of_the_widest(rates) for path_class, rates in pairs.items()},
        used,
        default,
        faster,
        local=has_local_path(tree),
    )
    group_rates = rates_of_groups(tree, slow, isolated)
    calibration = replace(
        calibration,
        group_rates=group_rates,
        link_rates=slow_rates,
        rate_sources={**calibration.rate_sources, **group_rate_sources(group_rates, isolated)},
    )
    calibration = _with_limits(tree, calibration, probes)
    calibration = _with_lower_bounds(calibration, totals_both_ways)
    return _with_direct_links(tree, calibration, direct) if tree.peer_links else calibration


def _with_lower_bounds(calibration: Rates, totals_both_ways: Mapping[CopyClass, list[float]]) -> Rates:
    """Add the lower bounds of limits that bidirectional pairs provide."""
    for path_class, limit in _OPPOSITE.items():
        totals = totals_both_ways.get(path_class, [])
        if (
            totals
            and calibration.limit(limit) is None
            and (path_class == "between_roots" or calibration.slow_bidirectional)
        ):
            before = calibration.estimate(limit)
            bound = max(*totals, 0.0 if before is None else before.bytes_per_s)
            source = f"at least: {len(totals)} measured, a bidirectional pair" if before is None else before.source
            calibration = replace(
                calibration, estimates={**calibration.estimates, limit: Estimate(bound, source, is_lower_bound=True)}
            )
    return calibration


def _with_direct_links(tree: PcieTree, calibration: Rates, direct: dict[tuple[str, str], list[float]]) -> Rates:
    """Add the rates of direct links between GPUs, measured or specified by the topology."""
    links = calibrated_links(tree.peer_links, direct)
    sources = dict(calibration.rate_sources)
    if direct:
        sources["direct_link"] = f"{sum(map(len, direct.values()))} measured, single copies over direct links"
    elif any(link.bytes_per_s is not None for link in links):
        sources["direct_link"] = "specified by the topology, headers included; no single copy was measured"
    return replace(calibration, rate_sources=sources, direct_links=links, direct_links_measured=bool(direct))


class _Probed(NamedTuple):
    """A measured limit and the factor by which it contributes to the total rate."""

    limit: Limit
    times: float
    graph: MeasuredGraph


class _Scaled(NamedTuple):
    """Copy rates scaled to a link of capacity 1.

    They are from the copies whose narrowest link is the widest; `width` is its width relative to a link of capacity 1.
    """

    width: float
    of_link: list[float]

    @property
    def median(self) -> float:
        return float(np.median(self.of_link))


def _of_the_widest(measured: Sequence[IsolatedCopy]) -> _Scaled:
    widest = max((rate.width for rate in measured), default=1.0)
    return _Scaled(widest, [rate.bytes_per_s / rate.width for rate in measured if rate.width == widest])


def _with_limits(tree: PcieTree, calibration: Rates, probes: Sequence[_Probed]) -> Rates:
    """Add the limits that probes measured.

    Copies that were slower than their links determine a limit; otherwise their rate is a lower bound.
    """
    estimates: dict[Limit, Estimate] = {}
    for limit in dict.fromkeys(probe.limit for probe in probes):
        of_limit = [probe for probe in probes if probe.limit == limit]
        throttled = [
            probe
            for probe in of_limit
            if probe.graph.total_bytes_per_s
            < (1 - THROTTLED) * by_links(tree, probe.graph.flows, calibration, statistic=probe.graph.statistic)
        ]
        if throttled:
            estimates[limit] = Estimate(
                float(np.median([probe.graph.total_bytes_per_s / probe.times for probe in throttled])),
                f"{len(throttled)} measured, {PROBES[limit]}",
                copies=min(len(probe.graph.flows) / probe.times for probe in throttled),
            )
        else:
            estimates[limit] = Estimate(
                max(probe.graph.total_bytes_per_s / probe.times for probe in of_limit),
                f"at least: {len(of_limit)} measured, {PROBES[limit]}, limited only by links",
                is_lower_bound=True,
            )
    return replace(calibration, estimates=estimates)


def _estimated(
    rates_alone: dict[CopyClass, _Scaled],
    rates_both: dict[CopyClass, _Scaled],
    used: set[str],
    default: tuple[float, str] | None,
    faster: int,
    *,
    local: bool,
) -> Rates:
    source = {}
    alone = {way: rates.of_link for way, rates in rates_alone.items()}
    two_way = {way: rates.of_link for way, rates in rates_both.items()}
    pooled = {**alone, "host_in": [*alone["host_in"], *alone["host_out"]]}
    fastest = _calibrating_class(pooled)
    both_way: CopyClass | None = next((way for way in CALIBRATION_ORDER if two_way[way]), None)
    unsure = local and fastest in ("crossing", "between_roots")
    # A copy through the root complex may be slower than its links.
    measured = float(np.median(pooled[fastest])) if fastest is not None else 0.0
    slow = unsure and default is not None and measured < default[0] * (1 - BEYOND)
    if fastest is not None and not slow:
        rate = measured
        source["one_way"] = f"{len(pooled[fastest])} measured, single copies"
        if unsure or fastest != "local":
            source["one_way"] += (
                f", all {'from and to host memory' if fastest == 'host_in' else COPY_CLASS_WORDS[fastest]}"
            )
    elif both_way is not None and fastest is None:
        rate = float(np.median(two_way[both_way])) * (1 + DUPLEX_COST)
        source["one_way"] = "bidirectional pairs and the duplex cost of other machines"
        source["one_way"] += "" if faster else "; no single copy was measured"
    elif default is not None:
        rate = default[0]
        source["one_way"] = default[1]
        if not faster or fastest is not None:
            source["one_way"] += "; no single copy was measured"
        if fastest is not None:
            source["one_way"] += f" but {COPY_CLASS_WORDS[fastest]}"
    else:
        raise InputError(
            "no single copy was measured, and the topology has no link rate; measure one (fabricast probes)"
        )
    if faster:
        source["one_way"] += (
            f"; {faster} single-copy measurements exceed the link rates in the topology file and were ignored; the "
            "links may have been in a power-saving state when the file was written"
        )
    both = rate / (1 + DUPLEX_COST)
    source["two_way"] = "duplex cost of other machines; no bidirectional pair was measured"
    # Pairs that root complexes or the links between them limit do not measure the duplex cost of one link.
    slow_pairs = {
        way: bool(two_way[way])
        and float(np.median(two_way[way])) < float(np.median(alone[way] or [rate])) * (1 - BEYOND)
        for way in _THROUGH_ROOT
    }
    if both_way is not None and slow_pairs.get(both_way):
        both_way = None
        source["two_way"] = "duplex cost of other machines; bidirectional pairs are slower at root complexes"
    if both_way is not None:
        # The duplex cost follows from single copies and bidirectional pairs of the same path class.
        one, two = float(np.median(alone[both_way] or [rate])), float(np.median(two_way[both_way]))
        both = min(max(two, one / 2), one) * (rate / one)
        source["two_way"] = f"{len(two_way[both_way])} measured, bidirectional pairs"
        if both_way != "local":
            source["two_way"] += f" {COPY_CLASS_WORDS[both_way]}"
        if two > one * (1 + BEYOND):
            source["two_way"] += "; faster than single copies, so the single-copy rate is used"
    counted = [way for way in _SLOWER if (way != fastest or slow) and not (way == "host_out" and fastest == "host_in")]
    slower, widths, slower_sources = _slower_classes(counted, rates_alone, rates_both, rate, both)
    source |= slower_sources
    classes = frozenset(way for way in _CLASSES if alone[way] or two_way[way])
    return Rates(
        rate,
        both,
        slower.get("crossing"),
        slower.get("between_roots"),
        slower.get("host_in"),
        slower.get("host_out"),
        slower.get("remote_in"),
        slower.get("remote_out"),
        rate_sources=source,
        used=frozenset(used),
        links_calibrated=slow or not (unsure or fastest == "host_in"),
        measured_classes=classes,
        calibrated_widths=widths,
        slow_bidirectional=slow_pairs["crossing"],
    )


def _slower_classes(
    counted: Sequence[CopyClass],
    rates_alone: dict[CopyClass, _Scaled],
    rates_both: dict[CopyClass, _Scaled],
    one_way: float,
    both: float,
) -> tuple[dict[CopyClass, float], dict[CopyClass, float], dict[str, str]]:
    """Return the rates, calibrated widths and sources of path classes slower than links."""
    slower: dict[CopyClass, float] = {}
    widths: dict[CopyClass, float] = {}
    source: dict[str, str] = {}
    for path_class in counted:
        if single_rates := rates_alone[path_class].of_link:
            slower[path_class], widths[path_class] = _absolute(rates_alone[path_class], one_way)
            source[path_class] = f"{len(single_rates)} measured, single copies {COPY_CLASS_WORDS[path_class]}"
    for path_class in _THROUGH_ROOT:
        if rates_both[path_class].of_link and not rates_alone[path_class].of_link:
            # Isolated rate of each copy of a bidirectional pair, without the duplex cost.
            each = rates_both[path_class]._replace(of_link=[rates_both[path_class].median * one_way / both])
            absolute, widths[path_class] = _absolute(each, one_way)
            if each.median < one_way * (1 - BEYOND):
                slower[path_class] = absolute
                pairs = len(rates_both[path_class].of_link)
                source[path_class] = f"{pairs} measured, bidirectional pairs {COPY_CLASS_WORDS[path_class]}"
    return slower, widths, source


def _absolute(measured: _Scaled, one_way: float) -> tuple[float, float]:
    """Return the rate of a path class and the largest link width for which it is valid.

    A copy that fills a narrow link does not determine the rate of its path class over wider links.
    """
    if measured.median < one_way * (1 - THROTTLED):
        return measured.median * measured.width, np.inf
    return measured.median, measured.width


#: Path classes that calibrate the unidirectional link rate, in order of preference.
CALIBRATION_ORDER: tuple[CopyClass, ...] = ("local", "crossing", "host_in", "between_roots")
#: Copies from host memory that are faster by this share show that links do not limit copies between GPUs.
_FASTER = 0.05


def _calibrating_class(alone: Mapping[CopyClass, Sequence[float]]) -> CopyClass | None:
    """Return the path class whose single copies calibrate the link rate.

    >>> _calibrating_class({"local": [], "crossing": [9.9e9], "host_in": [22e9], "between_roots": []})
    'host_in'
    >>> _calibrating_class({"local": [13e9], "crossing": [9.9e9], "host_in": [13e9], "between_roots": []})
    'local'
    """
    path_class = next((candidate for candidate in CALIBRATION_ORDER if alone[candidate]), None)
    if path_class not in ("crossing", "between_roots") or not alone["host_in"]:
        return path_class
    # Copies from host memory show the rate of the links if copies through the root complex are slower.
    return "host_in" if np.median(alone["host_in"]) > np.median(alone[path_class]) * (1 + _FASTER) else path_class


def highest_link_rate(
    tree: PcieTree, flows: Sequence[tuple[int, int]], calibration: Rates, statistic: Statistic = "sum_of_copies"
) -> float:
    """Return the highest total rate of some copies in bytes/s at the highest known link rate.

    Copies over direct links add the rates of these links; the result is infinite if such a rate is unknown.
    """
    rates, names = calibration, tree.endpoint_names
    direct_link_rates = direct_rates(calibration.direct_links or tree.peer_links)
    direct = [flow for flow in flows if tree.peer_link(names[flow[0]], names[flow[1]]) is not None]
    most = sum(direct_link_rates.get((names[source], names[target]), np.inf) for source, target in direct)
    on_tree = [flow for flow in flows if flow not in direct]
    if on_tree:
        fastest = max(rates.one_way_bytes_per_s, rates.crossing_bytes_per_s or 0.0)
        most += _rate_limited_by_links(tree, on_tree, fastest, statistic)
    return most


def uncalibrated(machine: MachineParameters, *, ports: bool = True) -> Rates:
    """Return the rates of a machine without measurements of concurrent copies.

    >>> from fabricast.pcie.models.parameters import machine_parameters
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> machine = machine_parameters(regular_tree("flat4x2", (2, 4)), bandwidth_bytes_per_s=51.5e9)
    >>> round(uncalibrated(machine).two_way_bytes_per_s / 1e9, 1)
    50.0
    """
    rate = machine.bandwidth_bytes_per_s
    crossing = rate / machine.crossing_cost if machine.crossing_cost > 1 and not ports else None
    parameter_sources = {row.name: row.source for row in machine.rows}
    source = {
        "one_way": parameter_sources["bandwidth"],
        "two_way": "duplex cost of other machines; no bidirectional pair was measured",
    }
    if crossing is not None:
        source["crossing"] = f"crossing cost {machine.crossing_cost:g}: {parameter_sources['crossing_cost']}"
    if ports:
        source |= {row.name: row.source for row in machine.rows if row.name != "bandwidth" and not row.is_default}
        return Rates(
            rate, rate / (1 + DUPLEX_COST), tau=machine.tau, crossing_cost=machine.crossing_cost, rate_sources=source
        )
    return Rates(rate, rate / (1 + DUPLEX_COST), crossing, rate_sources=source)
