"""Result tables of the two-level network study."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.seeds import random_generator
from fabricast.percs.cases import (
    WORKLOADS,
    Case,
    case_router,
    evaluate_alike,
    grid_cases,
    supernodes_of,
    without_gateways,
    workload,
)
from fabricast.percs.loads import ROUTINGS, LinkLoads, Routing, count_traffic, route
from fabricast.percs.mapping_search import MappingSearch, search_indirect, search_mapping
from fabricast.percs.mappings import map_tasks
from fabricast.percs.network import TwoLevelNetwork, percs
from fabricast.percs.packets import router_pairs, simulate_packets
from fabricast.percs.workloads import EXAMPLE_GRID, Workload, stencil
from fabricast.runtime.threads import in_order

COUNTED_SUPERNODES = (2, 4, 8, 16, 32, 64, 128, 256, 300, 512)
_BINS = 24
_HISTOGRAMS_OF_SEED = (None, 0)
#: Swaps proposed with direct routes per swap with indirect routes, which requires recounting all loads.
_PROPOSALS_OF_EVALUATION = 5000


@dataclass(frozen=True)
class LoadTables:
    """Tables of link loads."""

    #: Rows as defined in schema.sql.
    network_case: pd.DataFrame
    network_link_class: pd.DataFrame
    network_link_histogram: pd.DataFrame


def count_rows() -> pd.DataFrame:
    """Return the number of directed PERCS links by class and number of supernodes."""
    return pd.DataFrame(
        [
            {"supernodes": groups, "class": name, "links": count}
            for groups in COUNTED_SUPERNODES
            for name, count in percs(groups).counts().items()
        ]
    )


def example_rows() -> pd.DataFrame:
    """Compute link loads of the stencil example on the SC11 slides.

    Every node is one vertex of a 16 x 4 grid, in rank order on two supernodes.

    Bhatele et al., SC11, slides LLNL-PRES-511461, "2D Stencil on 2 supernodes (64 QCMs)".

    >>> rows = example_rows()
    >>> rows[~rows["wrap"] & (rows["class"] == "D")]["max_messages"].tolist()
    [4, 16]
    """
    network = replace(percs(2), cores_per_router=1)
    rows = []
    for wrap, grid in itertools.product((False, True), (EXAMPLE_GRID, EXAMPLE_GRID[::-1])):
        pattern = stencil("example", grid, 1.0, wrap=wrap)
        traffic, messages = count_traffic(pattern, np.arange(network.routers, dtype=np.int32), network)
        loads = route(traffic, network, "direct")
        rows += [
            {
                "wrap": wrap,
                "fastest": grid[-1],
                "class": name,
                "links": load.size,
                "used": int(np.count_nonzero(load)),
                "max_messages": int(load.max()),
                "messages": messages,
            }
            for name, load in loads.by_class.items()
        ]
    return pd.DataFrame(rows)


def load_tables(
    cases: Iterable[Case], *, seed: int, threads: int, progress: Callable[[int], None] | None = None
) -> LoadTables:
    """Compute link loads of the cases under both routings."""
    ordered = list(cases)
    # Indices of the cases that share their traffic, which is counted once.
    alike: dict[Case, list[int]] = {}
    for number, case in enumerate(ordered):
        alike.setdefault(without_gateways(case), []).append(number)

    def rows(numbers: list[int]) -> list[tuple[int, list[_CaseRows]]]:
        some = [ordered[number] for number in numbers]
        return [
            (number, [_case_rows(case, routing, load, messages) for routing, load in loads.items()])
            for number, case, (messages, loads) in zip(numbers, some, evaluate_alike(some, seed), strict=True)
        ]

    evaluated = in_order(rows, alike.values(), threads=threads, progress=progress, parts=len)
    rows_of_cases = [
        part for _, parts in sorted(itertools.chain.from_iterable(evaluated), key=itemgetter(0)) for part in parts
    ]
    if not rows_of_cases:
        # A shard is empty if there are more shards than cases.
        return LoadTables(*(pd.DataFrame({"case_id": []}) for _ in LoadTables.__dataclass_fields__))
    # Case rows, class rows and histogram rows, each in the order of the cases.
    return LoadTables(
        *(pd.DataFrame([row for part in parts for row in part]) for parts in zip(*rows_of_cases, strict=True))
    )


_Rows = list[dict[str, Any]]
_CaseRows = tuple[_Rows, _Rows, _Rows]


def _case_rows(case: Case, routing: Routing, loads: LinkLoads, messages: int) -> _CaseRows:
    name = case.name(routing)
    time, worst = loads.bottleneck
    head = {
        "case_id": name,
        "workload": case.workload,
        "supernodes": case.supernodes,
        "mapping": case.mapping,
        "routing": routing,
        "placement": case.placement,
        "gateway": case.gateway,
        "multiplicity": case.multiplicity,
        "seed": case.seed,
        "wrap": case.wrap,
        "turned": case.turned,
        "tasks": WORKLOADS[case.workload].tasks,
        "communications": messages,
        "bottleneck_s": time,
        "bottleneck_class": worst,
        "floor_s": loads.floor_s(),
    }
    classes: _Rows = []
    histograms: _Rows = []
    times = loads.class_times_s()
    for kind, load in loads.by_class.items():
        p50, p90, p99 = np.percentile(load, (50, 90, 99)).tolist()
        largest = loads.busiest_bytes[kind]
        classes.append(
            {
                "case_id": name,
                "class": kind,
                "links": load.size,
                "used": int(np.count_nonzero(load)),
                "min_bytes": float(load.min()),
                "mean_bytes": float(load.mean()),
                "max_bytes": largest,
                "p50_bytes": p50,
                "p90_bytes": p90,
                "p99_bytes": p99,
                "time_s": times[kind],
            }
        )
        if case.seed in _HISTOGRAMS_OF_SEED and case.multiplicity == 1 and case.placement == "whole" and largest > 0:
            counts, edges = np.histogram(load, bins=_BINS, range=(0.0, largest))
            histograms += [
                {
                    "case_id": name,
                    "class": kind,
                    "bin": number,
                    "lower_bytes": float(edges[number]),
                    "upper_bytes": float(edges[number + 1]),
                    "links": int(count),
                }
                for number, count in enumerate(counts)
            ]
    return [head], classes, histograms


@dataclass(frozen=True)
class PacketTables:
    """Tables of the packet-level reference."""

    #: Rows as defined in schema.sql.
    prediction: pd.DataFrame
    reference: pd.DataFrame
    error_feature: pd.DataFrame


def packet_cases(workloads: list[str], seeds: int) -> list[tuple[Case, Routing]]:
    """Return the cases to simulate: every mapping under both routings."""
    return [(case, routing) for case in grid_cases(workloads, seeds, sensitivity=False) for routing in ROUTINGS]


def simulate_cases(
    cases: list[tuple[Case, Routing]],
    *,
    packet_bytes: float,
    window: int,
    seed: int,
    threads: int,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Run packet-level simulations of the cases."""

    def one(entry: tuple[Case, Routing]) -> float:
        case, routing = entry
        pattern, network = workload(case.workload), case.network()
        return simulate_packets(
            router_pairs(pattern, case_router(case, seed), network),
            network,
            routing,
            packet_bytes=min(packet_bytes, pattern.size_bytes),
            window=window,
            seed=seed % 2**20,
        ).elapsed_s

    times = in_order(one, cases, threads=threads, progress=progress)
    names = [case.name(routing) for case, routing in cases]
    return pd.DataFrame(
        {
            "study": "percs",
            "case_id": names,
            "item": "",
            "quantity": "elapsed",
            "kind": "simulated",
            "origin": "network packets",
            "value": times,
            "unit": "s",
            "tag": "derived",
        }
    )


def packet_tables(
    reference: pd.DataFrame, network_case: pd.DataFrame, network_link_class: pd.DataFrame, *, seed: int
) -> PacketTables:
    """Compare packet-level times with the busiest-link bound and explain their ratio."""
    # Imported here because only this table of the study needs scikit-learn.
    from fabricast.percs.time_features import explain_times, load_features

    reference = reference.sort_values("case_id", ignore_index=True)
    names = reference["case_id"]
    bound = network_case.set_index("case_id")["bottleneck_s"].loc[names]
    common = reference[["study", "case_id", "item", "quantity", "unit"]]
    prediction = common.assign(model="busiest_link", value=bound.to_numpy())
    features = load_features(network_link_class, network_case)
    times = pd.Series(reference["value"].to_numpy(), index=names)
    feature = explain_times(features, network_case, times, seed=seed).assign(
        study="percs", model="busiest_link", kind="simulated", origin="network packets", subset="all"
    )
    return PacketTables(prediction, reference, feature)


def search_rows(
    names: list[str], *, proposals: int, packet_bytes: float, seed: int, progress: Callable[[int], None] | None = None
) -> pd.DataFrame:
    """Search mappings for both routings and verify them by packet simulation."""
    rows: _Rows = []
    for name in names:
        pattern, network = workload(name), percs(supernodes_of(name))
        generator = random_generator(seed, f"percs.search.{name}")
        # The search moves the node blocks of the BNM mapping.
        block = map_tasks("BNM", pattern, network, generator)
        pairs = router_pairs(pattern, block, network)
        start = generator.permutation(network.routers)
        direct = search_mapping(pairs, start, network, proposals=proposals, seed=seed % 2**32, progress=progress)
        regular = {own: map_tasks(own, pattern, network, generator) for own in ("DEF", "BNM", "BDM", "BSM")}
        best = min(regular, key=lambda own: _loads(pattern, regular[own], network, "indirect").bottleneck[0])
        indirect = search_indirect(
            pattern, regular[best], network, evaluations=proposals // _PROPOSALS_OF_EVALUATION, seed=seed % 2**32
        )
        searched: tuple[tuple[Routing, str, MappingSearch, NDArray[np.int64]], ...] = (
            ("direct", "RNM", direct, direct.position[block]),
            ("indirect", best, indirect, indirect.position[regular[best]]),
        )
        for routing, start_mapping, result, position in searched:
            router = position.astype(np.int32)
            loads = _loads(pattern, router, network, routing)
            size = min(packet_bytes, pattern.size_bytes)
            run = simulate_packets(router_pairs(pattern, router, network), network, routing, packet_bytes=size)
            rows.append(
                {
                    "workload": name,
                    "routing": routing,
                    "start": start_mapping,
                    "start_s": result.start_s,
                    "bottleneck_s": loads.bottleneck[0],
                    "bottleneck_class": loads.bottleneck[1],
                    "floor_s": loads.floor_s(),
                    "packets_s": run.elapsed_s,
                    "packet_bytes": size,
                    "proposals": result.proposals,
                    "kept": result.kept,
                }
            )
    return pd.DataFrame(rows)


def _loads(pattern: Workload, router: NDArray[np.int32], network: TwoLevelNetwork, routing: Routing) -> LinkLoads:
    traffic, _ = count_traffic(pattern, router, network)
    return route(traffic, network, routing)
