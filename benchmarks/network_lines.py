"""Benchmarks B6 and B8 and of the network study: link loads, case grid, packet level."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.clocks import cpu_seconds
from benchmarks.simgrid import run_simgrid_peer
from fabricast.clusters.routes import ClusterLinks
from fabricast.clusters.times import run_copies
from fabricast.pcie.engines.kernels.links import Links
from fabricast.percs.cases import WORKLOADS, Case, case_router, grid_cases
from fabricast.percs.loads import LinkLoads, count_traffic, route
from fabricast.percs.network import TwoLevelNetwork, percs
from fabricast.percs.packets import router_pairs, simulate_packets
from fabricast.percs.tables import load_tables
from fabricast.percs.workloads import Workload, multicast, stencil
from tests.reference_network import routes

SEED = 20161113
ROUNDS = 5
RANDOM_300 = multicast("rand-300", (307200,), float(2**20), targets="rand")


def random_targets(workload: Workload, seed: int) -> NDArray[np.int64]:
    """Return the random targets of the kernel in the order of tasks."""
    count = workload.tasks * workload.random_targets
    with np.errstate(over="ignore"):
        state = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        return (((z >> np.uint64(32)) * np.uint64(workload.tasks)) >> np.uint64(32)).astype(np.int64)


def grid_targets(workload: Workload) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return source and target of every message of a torus."""
    tasks = np.arange(workload.tasks).reshape(workload.grid)
    axes = tuple(range(tasks.ndim))
    targets = [np.roll(tasks, [-step for step in offset], axis=axes).ravel() for offset in workload.offsets]
    return np.tile(tasks.ravel(), len(targets)), np.concatenate(targets)


def numpy_loads(
    first: NDArray[np.int64], second: NDArray[np.int64], network: TwoLevelNetwork
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the messages on the links of direct routes with NumPy."""
    size, groups = network.group_routers, network.groups
    first_group, a = np.divmod(first, size)
    second_group, b = np.divmod(second, size)
    inside = (first_group == second_group) & (a != b)
    across = first_group != second_group
    out = network.gateways[first_group[across], second_group[across], 0]
    into = network.gateways[second_group[across], first_group[across], 0]
    links = np.concatenate(
        [
            (first_group[inside] * size + a[inside]) * size + b[inside],
            (first_group[across] * size + a[across]) * size + out,
            (second_group[across] * size + into) * size + b[across],
        ]
    )
    link = np.bincount(links, minlength=groups * size * size).reshape(groups, size, size)
    link[:, np.arange(size), np.arange(size)] = 0
    between = np.bincount(first_group[across] * groups + second_group[across], minlength=groups * groups).reshape(
        groups, groups
    )
    return link, between


def one_way_links(paths: list[list[int]], capacity: NDArray[np.float64]) -> ClusterLinks:
    """Return links that share nothing between their two directions, and the routes of copies on them."""
    count = capacity.size
    offset = np.concatenate([[0], np.cumsum([len(path) for path in paths])])
    links = Links(offset, np.concatenate(paths), np.arange(count), capacity, np.full((count, 2), -1), 0.0)
    crosses, switches = np.ones(len(paths), dtype=np.bool_), np.zeros(len(paths), dtype=np.int64)
    return ClusterLinks(links, np.zeros(count, dtype=np.int64), [""] * count, crosses, switches)


def simgrid_line(line: Callable[..., dict[str, object]], simgrid: Path | None) -> dict[str, object]:
    """Measure the simulation of fair sharing, and SimGrid on the same copies and links."""
    network = TwoLevelNetwork(8, 2, 4, 1)
    workload = stencil("4D-8", (4, 4, 4), 1e6)
    router = np.arange(64).astype(np.int32)
    source, target, size = router_pairs(workload, router, network)
    numbers: dict[Any, int] = {}
    paths = []
    for first, second in zip(source.tolist(), target.tolist(), strict=True):
        ((links, _),) = routes(network, first, second, "direct")
        paths.append([numbers.setdefault(part, len(numbers)) for part in links])
    capacity = [
        network.d_bytes_per_s if part[0] == "D" else float(network.capacities[network.local_class[part[2], part[3]]])
        for part in numbers
    ]
    ours = partial(run_copies, one_way_links(paths, np.array(capacity)), size)
    our_time = ours().end_s.max()
    our_seconds = [cpu_seconds(ours) for _ in range(ROUNDS)]
    title = f"{len(paths)} copies of a cluster, max-min, 1 core"
    if simgrid is None:
        return line("B8", title, our_seconds, "SimGrid (C++)", None)
    pairs = list(zip(source.tolist(), target.tolist(), strict=True))
    peer = [
        run_simgrid_peer(
            simgrid,
            endpoints=network.routers,
            capacity=capacity,
            routes=dict(zip(pairs, paths, strict=True)),
            graphs=[pairs],
            size_bytes=workload.size_bytes,
        )
        for _ in range(ROUNDS)
    ]
    return line(
        "B8", title, our_seconds, "SimGrid (C++)", [cpu_s for cpu_s, _ in peer], abs(our_time / peer[0][1].max() - 1)
    )


def load_lines(line: Callable[..., dict[str, object]], rounds: int = ROUNDS) -> Iterator[dict[str, object]]:
    """Measure B6: link loads of a network of 300 supernodes against NumPy."""
    network = percs(300)

    def ours(workload: Workload, router: NDArray[np.int32]) -> LinkLoads:
        return route(count_traffic(workload, router, network, seed=SEED)[0], network, "direct")

    cases: list[tuple[str, Workload, Any]] = [
        ("4.3 M random messages", RANDOM_300, (np.arange(307200) // 32).astype(np.int32)),
        ("4D-300, supernode blocks", WORKLOADS["4D-300"], case_router(Case("4D-300", "BSM"), SEED)),
    ]
    for title, workload, router in cases:
        if workload.random_targets:
            source = np.repeat(np.arange(workload.tasks), workload.random_targets)
            target = random_targets(workload, SEED)
        else:
            source, target = grid_targets(workload)
        first, second = router.astype(np.int64)[source], router.astype(np.int64)[target]
        loads = ours(workload, router)
        link, between = numpy_loads(first, second, network)
        error = float(
            max(
                np.abs(loads.link / workload.size_bytes - link).max(),
                np.abs(loads.between / workload.size_bytes - between).max(),
            )
        )
        own, peer = [], []
        for _ in range(rounds):
            own.append(cpu_seconds(partial(ours, workload, router)))
            peer.append(cpu_seconds(partial(numpy_loads, first, second, network)))
        yield line("B6", f"{title}, loads, 1 core", own, "NumPy bincount", peer, error)


def network_lines(line: Callable[..., dict[str, object]], simgrid: Path | None) -> Iterator[dict[str, object]]:
    """Measure fair sharing, link loads, the grid of the study and the packet level."""
    yield simgrid_line(line, simgrid)
    yield from load_lines(line)
    started = time.perf_counter()
    load_tables(grid_cases(list(WORKLOADS), 30, sensitivity=True), seed=SEED, threads=2)
    yield line("grid", "821 cases, 2 routings, 2 cores, wall", [time.perf_counter() - started])
    machine = percs(64)
    pairs = router_pairs(WORKLOADS["4D-64"], case_router(Case("4D-64", "RNM", seed=0), SEED), machine)
    packets = partial(simulate_packets, pairs, machine, "direct", packet_bytes=131072.0)
    bound = route(
        count_traffic(WORKLOADS["4D-64"], case_router(Case("4D-64", "RNM", seed=0), SEED), machine)[0],
        machine,
        "direct",
    ).bottleneck[0]
    run = packets()
    title = f"4D-64, {run.packets / 1e6:.1f} M packets, {run.elapsed_s / bound - 1:+.1%} of the bound, 1 core"
    yield line("packets", title, [cpu_seconds(packets) for _ in range(3)])
