"""Probable causes of rates that contradict a topology: one slow GPU, one slow direction, slow copies everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from fabricast.core.short_text import listed
from fabricast.core.warnings import CodedWarning, CopyWarning, WarningCode
from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.machines.group_rates import copies_over, slow_link_warnings
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.memory import HOST
from fabricast.pcie.topology.paths import narrowest_link
from fabricast.pcie.topology.tree import PcieTree, single_copy_rate_of

#: Relative error above which a graph deviates from its forecast.
_DEVIATES = 0.15
#: Ratio of both directions of a pair below which the slower one is reported.
_ONE_WAY = 0.88
#: Share of the payload rate of the links below which all copies are slow.
_SLOW = 0.6
#: Ratio of median rates of two path classes below which the class that ought to be faster, or between sockets, is slow.
_SLOW_NEAR, _SLOW_FAR = 0.75, 0.3
#: Ratio to the payload rate of the links above which a rate is an artefact.
_PLAUSIBLE = 1.15
#: Number of graphs from which on a common GPU is not a coincidence.
_SEVERAL = 3
_NAMED = 4


def causes(tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame, rates: Rates) -> Iterator[CodedWarning]:
    """Yield the probable causes of measured rates that contradict the topology or each other."""
    yield from slow_link_warnings(rates)
    explained = copies_over(tree, [flow for graph in graphs for flow in graph.flows], rates.link_rates)
    is_other = np.array([explained.isdisjoint(graph.flows) for graph in graphs], dtype=bool)
    others = [graph for graph, is_one in zip(graphs, is_other, strict=True) if is_one]
    yield from _slow_endpoint(tree, others, rows[is_other])
    isolated = {graph.flows[0]: graph.total_bytes_per_s for graph in graphs if len(graph.flows) == 1}
    links = single_copy_rate_of(tree)
    plausible = {
        flow: rate
        for flow, rate in isolated.items()
        if links is None or rate <= _PLAUSIBLE * links or tree.peer_link(*flow) is not None
    }
    yield from _slow_direction(tree, {flow: rate for flow, rate in plausible.items() if flow not in explained})
    yield from _slow_everywhere(tree, isolated)
    yield from _slow_class(tree, isolated)


def _slow_endpoint(tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame) -> Iterator[CodedWarning]:
    """Report a GPU that all graphs below their forecast use, and few other graphs."""
    error = rows["relative_error"].to_numpy(dtype=float)
    slow = [graph for graph, value in zip(graphs, error, strict=True) if value > _DEVIATES]
    others = [graph for graph, value in zip(graphs, error, strict=True) if value <= _DEVIATES]
    if len(slow) < _SEVERAL:
        return
    of_slow, of_others = (
        Counter(end for graph in some for end in {end for flow in graph.flows for end in flow} - {HOST})
        for some in (slow, others)
    )
    common = [gpu for gpu, count in of_slow.items() if count == len(slow) and of_others[gpu] <= 0.1 * len(others)]
    # Several GPUs in all slow graphs do not single out one.
    if len(common) == 1:
        gpu = common[0]
        worst = min(slow, key=lambda graph: graph.total_bytes_per_s / len(graph.flows))
        label = tree.vertex(gpu).label if gpu in tree.endpoint_number else ""
        check = f"the width and generation of its link{f' {label}' if label else ''} under load ('lspci -vv', LnkSta)"
        if all(len(flow) == 2 and HOST not in flow and tree.peer_link(*flow) is not None for flow in worst.flows):
            check = "its direct links ('nvidia-smi nvlink -s' and '-e')"
        yield CopyWarning.about(
            (gpu,),
            WarningCode.SLOW_ENDPOINT,
            f"GPU {gpu} is in all {len(slow)} graphs that are more than {_DEVIATES:.0%} slower than forecast, for "
            f"example '{worst.name}' ({worst.total_bytes_per_s / 1e9:.4g} GB/s): check {check}",
            graph=worst.name,
        )


def _slow_direction(tree: PcieTree, isolated: dict[tuple[str, str], float]) -> Iterator[CodedWarning]:
    """Report pairs of GPUs with one direction slower than the other; processors copy at other rates."""
    gpus = set(tree.accelerator_names)
    slower = {
        flow: rate / isolated[flow[::-1]]
        for flow, rate in isolated.items()
        if gpus.issuperset(flow) and flow[::-1] in isolated and rate < _ONE_WAY * isolated[flow[::-1]]
    }
    if not slower:
        return
    worst = sorted(slower, key=lambda flow: slower[flow])
    named = listed([f"{source}>{target} ({1 - slower[source, target]:.0%})" for source, target in worst], _NAMED)
    yield CopyWarning.about(
        worst[0],
        WarningCode.SLOW_DIRECTION,
        f"one direction is slower than the other: {named}; repeat these copies, and check for other traffic on "
        "their route and for link errors ('lspci -vv', DevSta and AER)",
    )


def _slow_everywhere(tree: PcieTree, isolated: dict[tuple[str, str], float]) -> Iterator[CodedWarning]:
    """Report copies between GPUs that are all far slower than the links of the topology."""
    gpus = set(tree.accelerator_names)
    over_tree = {
        flow: rate for flow, rate in isolated.items() if gpus.issuperset(flow) and tree.peer_link(*flow) is None
    }
    rates, links = list(over_tree.values()), single_copy_rate_of(tree)
    if links is None or len(rates) < 2:
        return
    number = tree.endpoint_number
    links *= max(narrowest_link(tree, [(number[source], number[target])]) for source, target in over_tree)
    if max(rates) >= _SLOW * links:
        return
    yield CodedWarning(
        WarningCode.SLOW_COPIES,
        f"all isolated copies between GPUs are slow: the median is {float(np.median(rates)) / 1e9:.4g} GB/s, "
        f"{float(np.median(rates)) / links:.0%} of the {links / 1e9:.4g} GB/s that the links allow; check peer access "
        "('nvidia-smi topo -p2p r': without it, copies are staged through host memory), access control (ACS) and the "
        "IOMMU",
    )


def _slow_class(tree: PcieTree, isolated: dict[tuple[str, str], float]) -> Iterator[CodedWarning]:
    """Report copies below a switch that are slower than those across it, and very slow copies between sockets."""
    rates: dict[str, list[float]] = {"below": [], "across": [], "between": []}
    slowest: dict[str, tuple[str, str]] = {}
    gpus = set(tree.accelerator_names)
    for flow, rate in isolated.items():
        if gpus.issuperset(flow) and tree.peer_link(*flow) is None:
            kind = tree.path_class(*flow)
            name = "below" if kind in ("PIX", "PXB") else "between" if kind == "SYS" else "across"
            slowest[name] = flow if rate < min(rates[name], default=np.inf) else slowest[name]
            rates[name].append(rate)
    median = {name: float(np.median(values)) for name, values in rates.items() if len(values) > 1}
    below, across, between = (median.get(name) for name in rates)
    farther = max(filter(None, (across, between)), default=None)
    if below is not None and farther is not None and below < _SLOW_NEAR * farther:
        yield CopyWarning.about(
            slowest["below"],
            WarningCode.SLOW_BELOW_SWITCH,
            f"copies below one switch reach {below / 1e9:.4g} GB/s, those across the root complex {farther / 1e9:.4g} "
            "GB/s: access control (ACS) or the IOMMU sends the former through the root port ('lspci -vv', ACSCtl), or "
            "the GPUs are not below one switch",
        )
    within = max(filter(None, (below, across)), default=None)
    if between is not None and within is not None and between < _SLOW_FAR * within:
        yield CopyWarning.about(
            slowest["between"],
            WarningCode.SLOW_BETWEEN_SOCKETS,
            f"copies between NUMA nodes (SYS) reach {between / 1e9:.4g} GB/s, {between / within:.0%} of those in one "
            f"({within / 1e9:.4g} GB/s): direct copies between them may be slower than copies through host memory "
            "(NCCL_P2P_LEVEL=NODE); check the links between sockets, if any, and the NUMA setting in the BIOS",
        )
