"""What measured copies say against a topology, and what was not measured: a line each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.pcie.graphs.hazards import divided_writes, divided_writes_text
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.machines.calibrate import most_carried
from fabricast.pcie.machines.calibration import Calibration
from fabricast.pcie.machines.limits import root_complex_limits
from fabricast.pcie.measurements.measured_graph import DIRECT_LINKS, HOST_COPIES, MeasuredGraph, flows_of, graph_class
from fabricast.pcie.topology.memory import ends_of
from fabricast.pcie.topology.parts import direct_rates
from fabricast.pcie.topology.paths import way_of
from fabricast.pcie.topology.tree import PcieTree

__all__ = [
    "AS_FAST_AS_OTHERS",
    "BEYOND_THE_LINKS",
    "MISSING_PROBES",
    "NO_PROBE",
    "UNLIMITED_ROOT_COMPLEX",
    "machine_remarks",
]

_FAR_OFF = 0.15
#: PCIe of the sixth generation with 16 lanes; and the share of a link below which a copy alone is in doubt.
_FASTEST_LINK, _FAR_BELOW = pcie_link_bytes_per_s(6, 16), 0.25
#: By how much rates in Gbit/s, taken for GB/s, exceed what links carry that they fill mostly or wholly.
_BITS = (4.0, 8.5)
#: Remark of rows that are listed and not judged.
BEYOND_THE_LINKS = "more than the links carry"
#: How remarks begin of rows for which a probe is missing.
NO_PROBE = "not judged: no probe tells"
#: Parts of remarks that say what was not measured, and nothing against a tree.
MISSING_PROBES = "can be judged once probes are measured"
UNLIMITED_ROOT_COMPLEX = "is taken to hold back nobody"
AS_FAST_AS_OTHERS = "is taken to be as fast as other copies"


def machine_remarks(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame, calibration: Calibration
) -> Iterable[str]:
    """Say what disagrees: rates beyond the links, hazards, links that those far off have in common, missing probes.

    Parameters
    ----------
    tree : PcieTree
        With host memory.
    graphs : sequence of MeasuredGraph
        Measurements of the machine.
    rows : pandas.DataFrame
        As `fabricast.pcie.machines.validation.validate_machine` returns them.
    calibration : Calibration
        Parameters of the machine.

    Yields
    ------
    str
        A line each.
    """
    by_name = {graph.name: graph for graph in graphs}
    exceeding = rows[rows["remark"] == BEYOND_THE_LINKS]
    if len(exceeding):
        flows = [flows_of(tree, by_name[str(name)]) for name in exceeding["graph"]]
        carried = np.array([most_carried(tree, own, calibration) for own in flows])
        yield _beyond_text(tree, exceeding, carried)
    yield from _contradictions(rows)
    yield from _implausible(tree, calibration)
    yield from _slow_direct_links(tree, calibration)
    hazards = [graph.name for graph in graphs if _hazard(tree, graph)]
    if hazards:
        yield divided_writes_text(len(hazards), hazards[0])
    yield from _disagreeing_links(tree, graphs, rows)
    yield from _missing_probes(rows)
    yield from _unlimited_root_complex(tree, graphs, rows, calibration)
    yield from _unmeasured_crossing(tree, graphs, rows, calibration)


def _beyond_text(tree: PcieTree, rows: pd.DataFrame, carried: NDArray[np.float64]) -> str:
    """Say which graphs are faster than the links carry, the furthest first, and what may be the cause."""
    measured = rows["measured_bytes_per_s"].to_numpy(dtype=np.float64)
    times = measured / carried
    worst = int(np.argmax(times))
    more = f" (and {len(rows) - 1} more graphs)" if len(rows) > 1 else ""
    text = (
        f"'{rows['graph'].iloc[worst]}' reached {measured[worst] / 1e9:.4g} GB/s, the links of {tree.name} carry "
        f"{carried[worst] / 1e9:.4g}{more}: the tree cannot be the fabric, the measurement is an artefact, or links "
        "slept when the topology was written"
    )
    if times.min() > _BITS[0] and times.max() < _BITS[1]:
        text += f", or rates are in Gbit/s (up to {times.max():.2g} times as fast as the links)"
    return text


def _slow_direct_links(tree: PcieTree, calibration: Calibration) -> Iterable[str]:
    """Say so if copies alone over direct links are far from what the topology tells of them."""
    if "measured" not in calibration.source.get("direct_link", ""):
        return
    told, reached = direct_rates(tree.peer_links), direct_rates(calibration.direct_links)
    shares = {pair: reached[pair] / rate for pair, rate in told.items() if pair in reached}
    slowest = min(shares, key=lambda pair: shares[pair], default=None)
    if slowest is not None and shares[slowest] < _FAR_BELOW:
        kind = tree.peer_link(*slowest)
        yield (
            f"a copy alone from {slowest[0]} to {slowest[1]} at {reached[slowest] / 1e9:.4g} GB/s is "
            f"{shares[slowest]:.1%} of what the topology tells of their {kind}: see whether the unit is right, peer "
            "access is on, or GPUs are numbered otherwise"
        )


def _missing_probes(rows: pd.DataFrame) -> Iterable[str]:
    """Say what would tell the parameters for want of which graphs are not judged."""
    waiting = rows["graph"][rows["remark"].str.startswith(NO_PROBE)]
    if len(waiting):
        more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        yield (
            f"'{waiting.iloc[0]}'{more} {MISSING_PROBES}: `fabricast probes` lists those of this "
            "topology, those with role calibration tell the parameters"
        )


def _unlimited_root_complex(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame, calibration: Calibration
) -> Iterable[str]:
    """Say so if graphs are judged that cross a root complex side by side, of which nothing tells what it carries."""
    told = {*calibration.limits, *calibration.at_least}
    if "root_complex" in told:
        return
    judged = set(rows["graph"][rows["judged"]])
    own = [
        graph.name
        for graph in graphs
        if graph.name in judged
        and any(
            name not in told and not _share_all(tree, graph, numbers)
            for name, numbers in root_complex_limits(tree, graph.flows).values()
        )
    ]
    if own:
        yield (
            f"the root complex {UNLIMITED_ROOT_COMPLEX}, on which {_resting(own)}: no probe tells what it carries of "
            "several copies between GPUs"
        )


def _unmeasured_crossing(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame, calibration: Calibration
) -> Iterable[str]:
    """Say so if graphs are judged that cross the root complex, which no copy alone did."""
    if calibration.measured_ways is None or "crossing" in calibration.measured_ways:
        return
    judged = set(rows["graph"][rows["judged"]])
    own = [
        graph.name
        for graph in graphs
        if graph.name in judged
        and any(
            way_of(tree, *pair) == "crossing" and tree.peer_link(*flow) is None
            for pair, flow in zip(flows_of(tree, graph), graph.flows, strict=True)
        )
    ]
    if own:
        yield (
            f"a copy across the root complex {AS_FAST_AS_OTHERS}, on which {_resting(own)}: none was measured alone, "
            "and on some hosts it is slower"
        )


def _resting(graphs: Sequence[str]) -> str:
    return f"'{graphs[0]}' rests" if len(graphs) == 1 else f"{len(graphs)} graphs, such as '{graphs[0]}', rest"


def _share_all(tree: PcieTree, graph: MeasuredGraph, numbers: Sequence[int]) -> bool:
    """Whether all of some copies share a link, which tells more of them than the root complex does."""
    return bool(set.intersection(*(set(tree.route(*ends_of(tree, graph.flows[number]))) for number in numbers)))


def _implausible(tree: PcieTree, calibration: Calibration) -> Iterable[str]:
    """Say so if copies alone are far from what links of PCIe carry: of a unit, or of links that sleep."""
    rate, links = calibration.rates.one_way_bytes_per_s, tree.link_bytes_per_s
    if links is None and rate > _FASTEST_LINK:
        yield (
            f"a copy alone at {rate / 1e9:.4g} GB/s is more than PCIe of the sixth generation with 16 lanes carries "
            f"({_FASTEST_LINK / 1e9:.4g} GB/s): see whether rates are in Gbit/s, or copies take NVLink or xGMI"
        )
    if links is not None and rate < _FAR_BELOW * links:
        yield (
            f"a copy alone at {rate / 1e9:.4g} GB/s is {rate / links:.1%} of what the links of {tree.name} carry: see "
            "whether the unit is right, links sleep, or copies go through host memory"
        )


def _contradictions(rows: pd.DataFrame) -> Iterable[str]:
    """Say which rows gave parameters that do not give them back: they contradict others of their kind, or the model."""
    used = rows[rows["remark"] == "calibration"]
    off = used[used["relative_error"].abs() > _FAR_OFF].sort_values("relative_error", key=abs, ascending=False)
    if len(off):
        worst = off.iloc[0]
        yield (
            f"{len(off)} of {len(used)} graphs that give parameters are more than {_FAR_OFF:.0%} off with them, such "
            f"as '{worst['graph']}' ({worst['measured_bytes_per_s'] / 1e9:.4g} GB/s, with them "
            f"{worst['forecast_bytes_per_s'] / 1e9:.4g}): copies of one kind differ, so that the tree is another, GPUs "
            "are numbered otherwise, or something else was running"
        )


def _disagreeing_links(tree: PcieTree, graphs: Sequence[MeasuredGraph], rows: pd.DataFrame) -> Iterable[str]:
    """Name the links that all graphs far off have in common, and no other graph uses."""
    # Copies over direct links use none of the tree.
    judged = rows[rows["judged"] & (rows["graph_class"] != DIRECT_LINKS)]
    far = set(judged["graph"][judged["relative_error"].abs() > _FAR_OFF])
    near = set(judged["graph"]) - far
    links: dict[str, set[int]] = {}
    routes = tree.routes
    kinds = dict(zip(rows["graph"], rows["graph_class"], strict=True))
    for graph in graphs:
        if kinds[graph.name] == DIRECT_LINKS:
            continue
        pairs = [s * routes.endpoints + t for s, t in flows_of(tree, graph)]
        links[graph.name] = {int(x) for p in pairs for x in routes.link[routes.offset[p] : routes.offset[p + 1]]}
    if not far:
        return
    shared = set.intersection(*(links[name] for name in far)) - set().union(*(links[name] for name in near))
    names = [f"{tree.link_names[link][0]} to {tree.link_names[link][1]}" for link in sorted(shared)]
    if names:
        own = ", ".join(names[:4])
        if len(far) == 1:
            yield f"'{next(iter(far))}', the only graph more than {_FAR_OFF:.0%} off, alone uses {own}"
        else:
            yield f"all {len(far)} graphs more than {_FAR_OFF:.0%} off use {own}, and no other graph does"


def _hazard(tree: PcieTree, graph: MeasuredGraph) -> bool:
    """Whether posted writes of one uplink go to destinations behind different root ports."""
    kind = graph_class(tree, graph)
    if PROGRAMS[graph.program].executor == "target" or kind in (DIRECT_LINKS, HOST_COPIES):
        return False
    source, target = np.array(flows_of(tree, graph), dtype=np.int64).T
    return bool(divided_writes(tree, np.zeros_like(source), source, target).size)
