"""Scaling of time and memory with the amount of work, and gain of two shards.

Every size runs in a separate process after a run of the smallest size, so that compilation and the memory of other
sizes are excluded. Time is CPU seconds of one thread; memory is the peak of the process.

Time does not grow proportionally in two cases. Schedules are run once per symmetry class of tree and pattern, and a
pattern of all eight sources has more symmetries than one of seven. Traffic is stored by router and group for all
routings, so it grows with the square of the number of groups of one size.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clocks import cpu_seconds, peak_mb
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.graphs.patterns import halo_pattern
from fabricast.pcie.graphs.sets import validation_set
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.packets.arbiter_phases import simulate
from fabricast.pcie.packets.equivalent_runs import share_of_runs
from fabricast.pcie.packets.hardware import HARDWARE
from fabricast.pcie.schedules.enumeration import enumerate_schedules
from fabricast.pcie.topology.builtin import load_tree
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
    """Return a function that evaluates `count` graphs, cycling through the validation set."""
    tree = load_tree("storm8")
    validation_pairs = [pairs for _, pairs in validation_set(tree, 22259)]
    many = from_pairs([validation_pairs[i % len(validation_pairs)] for i in range(count)], size_bytes=SIZE)
    return lambda: evaluate(tree, many, MODELS["congestion_factor"], bandwidth_bytes_per_s=BANDWIDTH, tau=TAU)


def schedules(sources: int) -> Callable[[], object]:
    """Return a function that enumerates schedules of a halo exchange with some sources."""
    tree, whole = load_tree("storm8"), halo_pattern((2, 2, 2), 8, size_bytes=SIZE)
    silent = ((),) * (8 - sources)
    pattern = replace(whole, targets=whole.targets[:sources] + silent, size_bytes=whole.size_bytes[:sources] + silent)
    return lambda: enumerate_schedules(tree, pattern, "asynchronous", bandwidth_bytes_per_s=BANDWIDTH, tau=TAU)


def tasks(groups: int) -> Callable[[], object]:
    """Return a function that counts the link loads of a 4D stencil for both routings."""
    network, workload = TwoLevelNetwork(groups), stencil("4D", GRIDS[groups], 1e6)
    router = (np.arange(workload.tasks) // network.cores_per_router).astype(np.int32)

    def work() -> None:
        traffic, _ = count_traffic(workload, router, network)
        for routing in ("direct", "indirect"):
            route(traffic, network, routing)  # type: ignore[arg-type]  # both are routings

    return work


def endpoints(groups: int) -> Callable[[], object]:
    """Return a function that counts the link loads of a multicast to 14 random targets."""
    network = TwoLevelNetwork(groups)
    workload = multicast("random", (network.tasks,), 1e6, targets="rand")
    router = (np.arange(workload.tasks) // network.cores_per_router).astype(np.int32)
    return lambda: route(count_traffic(workload, router, network, seed=1)[0], network, "direct")


#: Hardware settings for all graphs, the same as in the default study.
SETTINGS = ("no_split", "split_256_128", "split_128_64")


def shard(number: int, shards: int) -> Callable[[], object]:
    """Return a function that simulates a shard of graphs, like a job of the workflow."""
    tree = load_tree("storm8")
    every = from_pairs([pairs for _, pairs in validation_set(tree, 22259)], size_bytes=SIZE)

    def work() -> None:
        for name in SETTINGS:
            selected = share_of_runs(tree, every, HARDWARE[name], shard=number, shards=shards)
            simulate(tree, every.chosen(selected), HARDWARE[name])

    return work


#: Kinds of work: function that prepares the work, its arguments, and the amount of work for an argument.
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
    """Start this module in a process with some arguments."""
    command = [sys.executable, "-m", "benchmarks.scale_lines", *map(str, arguments)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a process and return the JSON that it printed."""
    printed, _ = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"a benchmark of scale ended with {process.returncode}")
    result: dict[str, Any] = json.loads(printed)
    return result


def shard_line(line: Callable[..., dict[str, object]]) -> dict[str, object]:
    """Compare the wall-clock time of one process with that of two concurrent shards."""
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


def scale_lines(line: Callable[..., dict[str, object]]) -> Iterator[dict[str, object]]:
    """Measure every kind of work at three sizes, and two concurrent shards."""
    for what, (_, arguments, count) in GROWING.items():
        last: tuple[int, float] | None = None
        for argument in arguments:
            result, size = finished(started(what, argument)), count(argument)
            now = statistics.median(result["seconds"])
            text = f"{size:,} {what}, {result['peak_mb']:.0f} MB"
            if last is not None:
                text += f", time as n^{math.log(now / last[1]) / math.log(size / last[0]):.2f}"
            yield line("scale", text, result["seconds"])
            last = size, now
    yield shard_line(line)


if __name__ == "__main__":
    name, *numbers = sys.argv[1:]
    if name == "shard":
        shard(int(numbers[0]), int(numbers[1]))()
        sys.stdout.write("{}")
    else:
        sys.stdout.write(json.dumps(measured(name, int(numbers[0]))))
