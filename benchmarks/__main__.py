"""Benchmarks of models, simulators, tables and workflow: ``make benchmark``.

Protocol: interleaved rounds (A/B/A/B); median and range of CPU seconds on one core. Each line reports its largest error
relative to an oracle; a line with an error above the bound is void. Fairness: SimGrid solves max-min, so only B1
compares equal models. SimGrid runs with its fastest known settings (optim Full, latency 0, one process, pinned). A peer
that is not installed is reported as absent.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.clocks import cpu_seconds
from benchmarks.collective_lines import collective_lines
from benchmarks.naive_peer import end_times
from benchmarks.network_lines import network_lines
from benchmarks.scale_lines import SETTINGS, scale_lines
from benchmarks.simgrid import build_simgrid_peer, run_simgrid_peer
from benchmarks.table_lines import table_lines
from fabricast.core.units import GIB, MIB
from fabricast.inputs.files import atomic_write
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_pairs
from fabricast.pcie.graphs.patterns import halo_pattern
from fabricast.pcie.graphs.sets import validation_set
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate, warm_up
from fabricast.pcie.packets.equivalent_runs import simulate_ends
from fabricast.pcie.packets.hardware import HARDWARE
from fabricast.pcie.packets.simulator import simulate_once
from fabricast.pcie.schedules.enumeration import enumerate_schedules, run_schedule
from fabricast.pcie.topology.builtin import load_tree
from fabricast.results.connections import connect
from tests import reference_model

ROUNDS = 7
BANDWIDTH, TAU, SIZE = 11.6 * GIB, Fraction(347, 2000), 300 * MIB
#: Number of graphs for slow oracles and peers; their times are scaled to all graphs.
SAMPLE, EXACT_SAMPLE = 2000, 200
#: Number of schedules and of graphs for slow peers.
SCHEDULE_SAMPLE = 200
PACKET_SAMPLE = 300
ERROR_BOUND = 1e-9
REPOSITORY = Path(__file__).parents[1]
COLUMNS = ["benchmark", "work", "ours_s", "low_s", "high_s", "peer", "peer_s", "ratio", "largest_error", "state"]
ROW = "{:<9}  {:<44}  {:>8}  {:>8}  {:>8}  {:<26}  {:>8}  {:>8}  {:>13}  {}"
WHOLE_PROCESS = """
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.graphs.sets import validation_set
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.topology.builtin import load_tree
tree = load_tree("storm8")
graphs = from_pairs([pairs for _, pairs in validation_set(tree, 22259)], size_bytes=1.0)
evaluate(tree, graphs, MODELS["congestion_factor"], bandwidth_bytes_per_s=1.0, tau=0.1735)
"""


def wall_seconds(command: list[str], folder: Path) -> float:
    """Return the wall-clock time of a command in seconds."""
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - started


class Work:
    """The 22,259 graphs of the validation set on storm8, for this package and its peers."""

    def __init__(self) -> None:
        self.tree = load_tree("storm8")
        self.pairs = [pairs for _, pairs in validation_set(self.tree, 22259)]
        self.graphs: CongestionGraphs = from_pairs(self.pairs, size_bytes=SIZE)
        names = self.tree.endpoint_names
        self.route_of = {
            (s, t): self.tree.route(a, b) for s, a in enumerate(names) for t, b in enumerate(names) if s != t
        }
        self.sample = random.Random(1).sample(range(len(self.pairs)), SAMPLE)
        self.digest = hashlib.sha256(json.dumps(self.pairs).encode()).hexdigest()[:16]

    def ours(self, model: str) -> np.ndarray:
        """Return the end times of all copies."""
        return evaluate(self.tree, self.graphs, MODELS[model], bandwidth_bytes_per_s=BANDWIDTH, tau=float(TAU)).end_s

    def naive(self) -> None:
        """Evaluate the sample with the plain Python implementation."""
        for i in self.sample:
            end_times(self.route_of, self.pairs[i], 1.0)

    def by_simgrid(self, program: Path) -> tuple[float, np.ndarray]:
        """Return CPU seconds and end times of SimGrid."""
        return run_simgrid_peer(
            program,
            endpoints=len(self.tree.endpoint_names),
            capacity=[BANDWIDTH] * len(self.tree.link_names),
            routes=self.route_of,
            graphs=self.pairs,
            size_bytes=SIZE,
        )

    def largest_error(self, model: str, sample: list[int], oracle: Callable[[int], list[Any]]) -> float:
        """Return the largest relative error of the end times with respect to an oracle."""
        end_times_of_copies = self.ours(model) * BANDWIDTH / SIZE
        errors = []
        for i in sample:
            part = end_times_of_copies[self.graphs.offset[i] : self.graphs.offset[i + 1]]
            errors.append(np.abs(part / np.array(oracle(i), dtype=float) - 1).max())
        return float(max(errors))

    def exact(self, i: int) -> list[Any]:
        """Return the end times of one graph as exact fractions."""
        options = MODELS["congestion_factor"].options
        count = len(self.pairs[i])
        return reference_model.end_times(
            self.tree,
            self.pairs[i],
            [1] * count,
            [0] * count,
            Fraction(1),
            lambda tree, pairs: reference_model.congestion_factors(tree, pairs, options, TAU),
        )


def measure(work: Work, simgrid: Path | None) -> tuple[dict[str, list[float]], np.ndarray | None]:
    """Run all programs in turn; return seconds of every round and SimGrid's end times."""
    times: dict[str, list[float]] = {"max_min": [], "congestion_factor": [], "naive": [], "simgrid": [], "process": []}
    simgrid_end = None
    for _ in range(ROUNDS):
        for model in ("max_min", "congestion_factor"):
            times[model].append(cpu_seconds(partial(work.ours, model)))
        times["naive"].append(cpu_seconds(work.naive) * len(work.pairs) / SAMPLE)
        if simgrid is not None:
            seconds, simgrid_end = work.by_simgrid(simgrid)
            times["simgrid"].append(seconds)
        times["process"].append(wall_seconds([sys.executable, "-c", WHOLE_PROCESS], REPOSITORY))
    return times, simgrid_end


def line(
    benchmark: str,
    work: str,
    ours: list[float],
    peer: str = "-",
    theirs: list[float] | None = None,
    error: float | None = None,
) -> dict[str, object]:
    """Return one line of the result; its state is void if the error is above the bound."""
    void = error is not None and error > ERROR_BOUND
    ours_s, peer_s = statistics.median(ours), statistics.median(theirs) if theirs else None
    return {
        "benchmark": benchmark,
        "work": work,
        "ours_s": ours_s,
        "low_s": min(ours),
        "high_s": max(ours),
        "peer": peer,
        "peer_s": peer_s,
        "ratio": None if void or peer_s is None else peer_s / ours_s,
        "largest_error": error,
        "state": "void" if void else "absent" if peer != "-" and peer_s is None else "ok",
    }


def schedule_lines(work: Work) -> Iterator[dict[str, object]]:
    """Measure B2 and B3: all schedules of a 3D halo exchange, and an event loop on a sample."""
    pattern = halo_pattern((2, 2, 2), 8, size_bytes=SIZE)
    keywords = {"bandwidth_bytes_per_s": BANDWIDTH, "tau": float(TAU)}
    orders = [[random.Random(k).sample(own, len(own)) for own in pattern.targets] for k in range(SCHEDULE_SAMPLE)]
    for benchmark, mode in (("B2", "synchronised"), ("B3", "asynchronous")):
        enumerate_schedules(work.tree, pattern, mode, **keywords)
        ours, theirs, error = [], [], 0.0
        for _ in range(ROUNDS):
            ours.append(wall(partial(enumerate_schedules, work.tree, pattern, mode, threads=2, **keywords)))
            started = time.perf_counter()
            for order in orders:
                run_schedule(work.tree, pattern, order, mode, **keywords)
            theirs.append((time.perf_counter() - started) * pattern.schedules / SCHEDULE_SAMPLE)
        schedules = enumerate_schedules(work.tree, pattern, mode, **keywords)
        elapsed_times = np.unique(schedules.elapsed_s)
        for order in orders:
            time_s = run_schedule(work.tree, pattern, order, mode, **keywords).elapsed_s
            error = max(error, float(np.abs(elapsed_times / time_s - 1).min()))
        yield line(benchmark, f"3D halo, {mode}, 2 cores, wall", ours, "event loop, scaled", theirs, error)


def packet_lines(work: Work) -> Iterator[dict[str, object]]:
    """Measure B5: packet-level simulation of 22,259 graphs, and brute force on small ones."""
    small = [work.pairs[i] for i in work.sample[:PACKET_SAMPLE]]
    for name in SETTINGS:
        hardware = HARDWARE[name]
        ours = [cpu_seconds(partial(simulate_ends, work.tree, work.graphs, hardware)) for _ in range(3)]
        graphs = from_pairs(small, size_bytes=float(2**20))
        slow = partial(simulate_once, work.tree, graphs, hardware, fast_forward=False)
        brute = [cpu_seconds(slow) * 300 * len(work.pairs) / PACKET_SAMPLE for _ in range(3)]
        plain = simulate_once(work.tree, graphs, hardware, fast_forward=False)
        error = float(np.abs(simulate_ends(work.tree, graphs, hardware) / plain.end_s - 1).max())
        yield line("B5", f"packets, {name}, 1 core", ours, "brute force, scaled", brute, error)


def wall(work: Callable[[], object]) -> float:
    """Return the wall-clock time of a call in seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def workflow_lines() -> list[dict[str, object]]:
    """Measure B10: the default study in an existing environment, then a second run."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), folder], check=True)
        command = [sys.executable, "-m", "snakemake", "--cores", "2"]
        lines = [
            line("B10", what, [wall_seconds(command, Path(folder))])
            for what in ("default study, compiled kernels, wall", "second run, wall")
        ]
        size_mb = (Path(folder) / "results" / "fabricast.duckdb").stat().st_size / 1e6
        job = pd.read_csv(Path(folder) / "logs" / "benchmarks" / "build_database.tsv", sep="\t")
        return [*lines, line("B10", f"its database, {size_mb:.0f} MB, wall", [float(job["s"].iloc[0])])]


def say(text: str) -> None:
    """Print one line at once, also into a file."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def copy_lines(work: Work, simgrid: Path | None) -> Iterator[dict[str, object]]:
    """Measure B1: the congestion graphs of the paper against SimGrid, plain Python and exact arithmetic."""
    times, simgrid_end = measure(work, simgrid)
    against_simgrid = None if simgrid_end is None else float(np.abs(simgrid_end / work.ours("max_min") - 1).max())
    against_naive = work.largest_error("max_min", work.sample, lambda i: end_times(work.route_of, work.pairs[i], 1.0))
    against_exact = work.largest_error("congestion_factor", work.sample[:EXACT_SAMPLE], work.exact)
    max_min, factors = times["max_min"], times["congestion_factor"]
    yield line("B1", "max-min, 1 core", max_min, "SimGrid (C++)", times["simgrid"], against_simgrid)
    yield line("B1", "max-min, 1 core", max_min, "plain Python, scaled", times["naive"], against_naive)
    yield line("B1b", "congestion factors", factors, "SimGrid, max-min", times["simgrid"], against_exact)
    yield line("B1b", "congestion factors", factors, "plain Python, max-min", times["naive"], against_exact)
    yield line("B1c", "start, generate, evaluate; wall", times["process"])


#: Benchmarks in the order in which they run.
GROUPS: dict[str, Callable[[Work, Path | None], Iterable[dict[str, object]]]] = {
    "copies": copy_lines,
    "schedules": lambda work, _: schedule_lines(work),
    "packets": lambda work, _: packet_lines(work),
    "networks": lambda _, simgrid: network_lines(line, simgrid),
    "scale": lambda *_: scale_lines(line),
    "collectives": lambda *_: collective_lines(line),
    "tables": lambda *_: table_lines(line),
    "workflow": lambda *_: workflow_lines(),
}


def main() -> None:
    """Run benchmarks, print each as soon as it is measured and write the results of all as Parquet."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"benchmarks to run (default: {' '.join(GROUPS)})")
    chosen = parser.parse_args().groups or list(GROUPS)
    if unknown := [name for name in chosen if name not in GROUPS]:
        parser.error(f"GROUP is {unknown[0]}, expected one of {', '.join(GROUPS)}")
    warm_up()
    work = Work()
    rows = []
    say(f"22,259 graphs, sha256 {work.digest}; load average {os.getloadavg()[0]:.2f}; {os.cpu_count()} cores")
    say(ROW.format(*COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        simgrid = build_simgrid_peer(Path(folder))
        for row in (row for name in chosen for row in GROUPS[name](work, simgrid)):
            texts = (f"{row[c]:.3g}" if isinstance(row[c], float) else str(row[c] or "-") for c in COLUMNS)
            say(ROW.format(*texts))
            rows.append(row)
    if chosen != list(GROUPS):
        return
    frame = pd.DataFrame(rows).assign(input_digest=work.digest, load=os.getloadavg()[0], cores=os.cpu_count())
    with atomic_write(REPOSITORY / "results" / "benchmarks.parquet") as path, connect() as connection:
        connection.from_df(frame).write_parquet(str(path))


if __name__ == "__main__":
    main()
