"""How time and memory grow with the work, and what two shards at once gain.

Every size runs in a process of its own, after the smallest one: compiled kernels and what a size leaves behind cost
nothing. Time is CPU seconds of one thread, memory the peak of the process.

Where time does not grow with the work: schedules are run once for each class that the symmetries of tree and pattern
make, and a pattern of all eight sources has more symmetries than one of seven. Traffic is kept by router and group, so
that every routing can be told from it: with groups of one size it grows with the square of their number.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clocks import cpu_seconds, peak_mb
from fabricast.pcie.graphs.congestion_graphs import from_arcs
from fabricast.pcie.graphs.patterns import halo_pattern
from fabricast.pcie.graphs.sets import validation_set
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.packets.arbiter_phases import simulate
from fabricast.pcie.packets.equivalent_runs import share_of_runs
from fabricast.pcie.packets.hardware import HARDWARE
from fabricast.pcie.schedules.enumeration import enumerate_schedules
from fabricast.pcie.topology.files import load_tree
from fabricast.percs.loads import count_traffic, route
from fabricast.percs.network import TwoLevelNetwork
from fabricast.percs.workloads import multicast, stencil

__all__ = ["SETTINGS", "scale_lines"]

ROUNDS = 3
BANDWIDTH, TAU, SIZE = 12.5e9, 0.1735, 300 * 2.0**20
#: Grids of tasks of 8, 64 and 512 groups of 1,024.
GRIDS = {8: (16, 8, 8, 8), 64: (16, 16, 16, 16), 512: (32, 32, 32, 16)}
SHARD_ROUNDS = 2


def graphs(count: int) -> Callable[[], object]:
    """Evaluate graphs of the validation set, as often as it takes."""
    tree = load_tree("storm8")
    known = [arcs for _, arcs in validation_set(tree, 22259)]
    many = from_arcs([known[i % len(known)] for i in range(count)], size_bytes=SIZE)
    return lambda: evaluate(tree, many, MODELS["congestion_factor"], bandwidth_bytes_per_s=BANDWIDTH, tau=TAU)


def schedules(sources: int) -> Callable[[], object]:
    """Enumerate the asynchronous schedules of a 3D halo exchange in which some endpoints send."""
    tree, whole = load_tree("storm8"), halo_pattern((2, 2, 2), 8, size_bytes=SIZE)
    silent = ((),) * (8 - sources)
    pattern = replace(whole, targets=whole.targets[:sources] + silent, size_bytes=whole.size_bytes[:sources] + silent)
    return lambda: enumerate_schedules(tree, pattern, "asynchronous", bandwidth_bytes_per_s=BANDWIDTH, tau=TAU)


def tasks(groups: int) -> Callable[[], object]:
    """Count the loads of a 4D stencil on groups of 1,024 tasks, in rank order, by both routings."""
    network, workload = TwoLevelNetwork(groups), stencil("4D", GRIDS[groups], 1e6)
    router = (np.arange(workload.tasks) // network.cores_per_router).astype(np.int32)

    def work() -> None:
        traffic, _ = count_traffic(workload, router, network)
        for routing in ("direct", "indirect"):
            route(traffic, network, routing)  # type: ignore[arg-type]  # both are routings

    return work


def endpoints(groups: int) -> Callable[[], object]:
    """Count the loads of a multicast to 14 random targets from each endpoint of groups of 1,024."""
    network = TwoLevelNetwork(groups)
    workload = multicast("random", (network.tasks,), 1e6, targets="rand")
    router = (np.arange(workload.tasks) // network.cores_per_router).astype(np.int32)
    return lambda: route(count_traffic(workload, router, network, seed=1)[0], network, "direct")


#: Settings of the hardware on which every graph is simulated, in the default study too.
SETTINGS = ("no_split", "split_256_128", "split_128_64")


def shard(number: int, shards: int) -> Callable[[], object]:
    """Simulate a share of some graphs packet by packet on each hardware setting, as a job of the workflow does."""
    tree = load_tree("storm8")
    every = from_arcs([arcs for _, arcs in validation_set(tree, 22259)], size_bytes=SIZE)

    def work() -> None:
        for name in SETTINGS:
            own = share_of_runs(tree, every, HARDWARE[name], shard=number, shards=shards)
            simulate(tree, every.chosen(own), HARDWARE[name])

    return work


#: What grows, by which arguments, and how many of it these are.
GROWING: dict[str, tuple[Callable[[int], Callable[[], object]], tuple[int, ...], Callable[[int], int]]] = {
    "graphs": (graphs, (2226, 22260, 222600), lambda count: count),
    "schedules": (schedules, (6, 7, 8), lambda sources: 6**sources),
    "tasks on supernodes": (tasks, (8, 64, 512), lambda groups: 1024 * groups),
    "endpoints of a two-level network": (endpoints, (16, 128, 1024), lambda groups: 1024 * groups),
}


def measured(what: str, argument: int) -> dict[str, Any]:
    """Return CPU seconds and peak memory of one size, in this process."""
    prepare, arguments, _ = GROWING[what]
    prepare(arguments[0])()
    work = prepare(argument)
    seconds = [cpu_seconds(work) for _ in range(ROUNDS)]
    return {"seconds": seconds, "peak_mb": peak_mb()}


def started(*arguments: object) -> subprocess.Popen[str]:
    """Start this module on some arguments."""
    command = [sys.executable, "-m", "benchmarks.scale_lines", *map(str, arguments)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a process; return what it printed."""
    printed, _ = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"a benchmark of scale ended with {process.returncode}")
    found: dict[str, Any] = json.loads(printed)
    return found


def shard_line(line: Callable[..., dict[str, object]]) -> dict[str, object]:
    """Compare one process with two shards at once, from the start of processes to their end."""
    whole: list[float] = []
    halves: list[float] = []
    for _ in range(SHARD_ROUNDS):
        for shards, walls in ((1, whole), (2, halves)):
            begun = time.perf_counter()
            for process in [started("shard", number, shards) for number in range(shards)]:
                finished(process)
            walls.append(time.perf_counter() - begun)
    efficiency = statistics.median(whole) / (2 * statistics.median(halves))
    return line("shards", f"2 shards at once, {efficiency:.0%} efficient, wall", halves, "1 process", whole)


def scale_lines(line: Callable[..., dict[str, object]]) -> list[dict[str, object]]:
    """Measure every kind of work at three sizes, and two shards at once."""
    lines = []
    for what, (_, arguments, count) in GROWING.items():
        last: tuple[int, float] | None = None
        for argument in arguments:
            found, size = finished(started(what, argument)), count(argument)
            now = statistics.median(found["seconds"])
            text = f"{size:,} {what}, {found['peak_mb']:.0f} MB"
            if last is not None:
                text += f", time as n^{math.log(now / last[1]) / math.log(size / last[0]):.2f}"
            lines.append(line("scale", text, found["seconds"]))
            last = size, now
    return [*lines, shard_line(line)]


if __name__ == "__main__":
    name, *numbers = sys.argv[1:]
    if name == "shard":
        shard(int(numbers[0]), int(numbers[1]))()
        sys.stdout.write("{}")
    else:
        sys.stdout.write(json.dumps(measured(name, int(numbers[0]))))
