"""Rates of single copies that differ within a path class: by GPU for host memory and slow links, by host bridges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fabricast.core.warnings import CodedWarning, CopyWarning, WarningCode
from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.topology.memory import ends_of, is_host, root_complex_of
from fabricast.pcie.topology.paths import CopyClass, link_labels
from fabricast.pcie.topology.tree import PcieTree

#: Path classes whose groups may differ: copies of host memory, and copies across host bridges.
GROUPED_CLASSES: tuple[CopyClass, ...] = ("host_in", "host_out", "remote_in", "remote_out", "crossing")
#: Path classes of copies between GPUs.
_BETWEEN_GPUS: tuple[CopyClass, ...] = ("local", "crossing", "between_roots")
#: Groups whose copies are slower by more than this share than those of the fastest group have a rate of their own.
_SLOWER = 0.1
#: Links whose copies are all slower than the usual rate by more than this share are slow.
_SLOW_LINK = 0.15
#: Quantile of the rates of a path class that is the usual rate: faults only slow copies.
_USUAL = 0.75
#: Ratio of the fastest to the slowest copy over a link up to which the link limits them.
_ALIKE = 1.15


class IsolatedCopy(NamedTuple):
    """Rate per copy, width of the narrowest link relative to a link of capacity 1, and the group of the copy.

    The group is the GPU of a copy of host memory, or the class PHB or NODE of a copy across one or two host bridges.
    Source and target are those of a single copy, or of one copy of a bidirectional pair.
    """

    width: float
    bytes_per_s: float
    group: str = ""
    source: str = ""
    target: str = ""


def group_of(tree: PcieTree, flows: Sequence[tuple[str, str]]) -> str:
    """Return the group of a single copy between two endpoints; empty for several copies and other classes."""
    if len(flows) != 1:
        return ""
    if is_host(tree, flows):
        return next(end for end in ends_of(tree, flows[0]) if not tree.vertex(end).host_memory)
    path_class = tree.path_class(*flows[0])
    return path_class if path_class in ("PHB", "NODE") else ""


def slow_groups(measured: Sequence[IsolatedCopy]) -> dict[str, float]:
    """Return the rates of the groups whose isolated copies of one path class are slower than those of the fastest.

    Only GPUs with the widest links count, because narrow links limit the others.

    >>> slow_groups([IsolatedCopy(1.0, 44.2e9, "0"), IsolatedCopy(1.0, 25.4e9, "4"), IsolatedCopy(1.0, 43.9e9, "1")])
    {'4': 25400000000.0}
    """
    widest = max((copy.width for copy in measured), default=1.0)
    rates: dict[str, list[float]] = {}
    for copy in measured:
        if copy.width == widest and copy.group:
            rates.setdefault(copy.group, []).append(copy.bytes_per_s)
    medians = {group: float(np.median(of_group)) for group, of_group in rates.items()}
    fastest = max(medians.values(), default=0.0)
    return {group: rate for group, rate in medians.items() if rate < fastest * (1 - _SLOWER)}


def slow_links(tree: PcieTree, measured: Mapping[CopyClass, Sequence[IsolatedCopy]]) -> dict[str, float]:
    """Return the rates of links that slow all single copies through them.

    A link with fewer lanes than the topology states slows all copies of its GPU or switch alike. Links are determined
    one after the other, the slowest first, so that a fault does not hide another. Copies are compared with the fastest
    quarter of their path class: if fewer copies of a class avoid all slow links, its slow links are not detected.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> pairs = [(source, target) for source in "012" for target in "012" if source != target]
    >>> copies = [IsolatedCopy(1.0, 3.95e9 if ends[0] == "2" else 26e9, "", *ends) for ends in pairs]
    >>> slow_links(regular_tree("one switch", (3,)), {"local": copies})
    {'endpoint 2 sends': 3950000000.0}
    """
    labels = link_labels(tree)
    remaining = {
        (way, copy): [labels[link] for link in tree.route(copy.source, copy.target)]
        for way in _BETWEEN_GPUS
        for copy in measured.get(way, ())
        if copy.source
    }
    found: dict[str, float] = {}
    while slowest := _slowest_link(remaining):
        label, rate = slowest
        found[label] = rate
        remaining = {copy: route for copy, route in remaining.items() if label not in route}
    return found


def _slowest_link(routes: Mapping[tuple[CopyClass, IsolatedCopy], list[str]]) -> tuple[str, float] | None:
    """Return the link, with its rate, whose copies are all slow and alike; None if there is none."""
    alike: dict[tuple[CopyClass, float, str], list[float]] = {}
    for way, copy in routes:
        alike.setdefault((way, copy.width, copy.group), []).append(copy.bytes_per_s)
    usual = {kind: float(np.quantile(rates, _USUAL)) for kind, rates in alike.items()}
    through: dict[str, list[tuple[float, float, tuple[str, str]]]] = {}
    depth: dict[str, int] = {}
    for (way, copy), route in routes.items():
        share = copy.bytes_per_s / usual[way, copy.width, copy.group]
        for place, label in enumerate(route):
            through.setdefault(label, []).append((share, copy.bytes_per_s, (copy.source, copy.target)))
            depth[label] = min(depth.get(label, len(route)), place, len(route) - 1 - place)
    slow = [
        (float(np.median([rate for _, rate, _ in copies])), -len(copies), depth[label], label)
        for label, copies in through.items()
        if len({pair for _, _, pair in copies}) > 1
        and max(share for share, _, _ in copies) < 1 - _SLOW_LINK
        and max(rate for _, rate, _ in copies) < _ALIKE * min(rate for _, rate, _ in copies)
    ]
    # Of links with the same copies, the nearest to an endpoint is reported.
    return (min(slow)[-1], min(slow)[0]) if slow else None


def copies_over(tree: PcieTree, flows: Iterable[tuple[str, str]], slow: Mapping[str, float]) -> set[tuple[str, str]]:
    """Return the copies between endpoints whose route has a link of `slow_links`."""
    if not slow:
        return set()
    labels = link_labels(tree)
    return {
        flow
        for flow in flows
        if set(flow) <= tree.endpoint_number.keys() and any(labels[link] in slow for link in tree.route(*flow))
    }


def without_slow_links(
    tree: PcieTree, copies: Sequence[IsolatedCopy], slow: Mapping[str, float], *, both_ways: bool = False
) -> list[IsolatedCopy]:
    """Return the copies, or bidirectional pairs, whose route has no link of `slow_links`."""
    flows = [
        {(copy.source, copy.target), (copy.target, copy.source)} if both_ways else {(copy.source, copy.target)}
        for copy in copies
    ]
    over = copies_over(tree, set().union(*flows), slow)
    return [copy for copy, each in zip(copies, flows, strict=True) if over.isdisjoint(each)]


def slow_link_warnings(rates: Rates) -> list[CodedWarning]:
    """Return one warning for each GPU or link that slows all its copies.

    >>> rates = Rates(26e9, 24e9, link_rates={"endpoint 6 sends": 3.93e9, "link S1 > RC": 13e9})
    >>> slow_link_warnings(rates)[1].text.partition(":")[0]
    'all single copies through link S1 > RC reach 13 GB/s, others 26 GB/s'
    """
    usual = f"{rates.one_way_bytes_per_s / 1e9:.4g} GB/s"
    gpus: dict[str, list[str]] = {}
    warnings: list[CodedWarning] = []
    check = "check the width and generation of {} link under load ('lspci -vv', LnkSta)"
    for label, rate in rates.link_rates.items():
        kind, name, *rest = label.split()
        if kind == "endpoint":
            gpus.setdefault(name, []).append(f"{rest[0]} {rate / 1e9:.4g} GB/s")
        else:
            text = f"all single copies through {label} reach {rate / 1e9:.4g} GB/s, others {usual}: "
            warnings.append(CodedWarning(WarningCode.SLOW_ENDPOINT, text + check.format("this")))
    of_gpus = [
        CopyWarning.about(
            (gpu,),
            WarningCode.SLOW_ENDPOINT,
            f"GPU {gpu} {' and '.join(sorted(parts, reverse=True))} in all its single copies, other GPUs reach "
            f"{usual}: {check.format('its')}",
        )
        for gpu, parts in gpus.items()
    ]
    return [*of_gpus, *warnings]


def _with_neighbours(tree: PcieTree, slow: Mapping[str, float], measured: Sequence[IsolatedCopy]) -> dict[str, float]:
    """Add the GPUs without a measurement whose root complex has only slow GPUs, with the median rate of these."""
    known: dict[str, set[str]] = {}
    for copy in measured:
        if copy.group:
            known.setdefault(root_complex_of(tree, copy.group), set()).add(copy.group)
    rates = dict(slow)
    for name in tree.endpoint_names:
        neighbours = known.get(root_complex_of(tree, name), set())
        if not tree.vertex(name).host_memory and neighbours and name not in neighbours and neighbours <= set(slow):
            rates[name] = float(np.median([slow[gpu] for gpu in sorted(neighbours)]))
    return rates


def rates_of_groups(
    tree: PcieTree, slow: Mapping[CopyClass, Mapping[str, float]], measured: Mapping[CopyClass, Sequence[IsolatedCopy]]
) -> dict[tuple[str, CopyClass], float]:
    """Return the rates in bytes/s of all slow groups, by group and path class."""
    rates: dict[tuple[str, CopyClass], float] = {}
    for way, of_group in slow.items():
        every = of_group if way == "crossing" else _with_neighbours(tree, of_group, measured[way])
        rates |= {(group, way): rate for group, rate in every.items()}
    return rates


def group_rate_sources(
    rates: Mapping[tuple[str, CopyClass], float], measured: Mapping[CopyClass, Sequence[IsolatedCopy]]
) -> dict[str, str]:
    """Return the rate of each slow group in GB/s as text, by the name of the parameter in `Rates.values`.

    >>> rates = {("4", "host_in"): 25.4e9, ("5", "host_in"): 25.4e9}
    >>> group_rate_sources(rates, {"host_in": [IsolatedCopy(1.0, 25.4e9, "4")]})
    {'host_in_of_slow_groups': 'single copies are slower for: 4 (25.4 GB/s), 5 (assumed 25.4 GB/s)'}
    """
    texts: dict[str, list[str]] = {}
    for (gpu, way), rate in rates.items():
        is_measured = any(copy.group == gpu for copy in measured[way])
        text = f"{gpu} ({'' if is_measured else 'assumed '}{rate / 1e9:.4g} GB/s)"
        texts.setdefault(f"{way}_of_slow_groups", []).append(text)
    return {name: f"single copies are slower for: {', '.join(each)}" for name, each in texts.items()}
