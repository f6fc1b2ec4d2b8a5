"""B1, B1b, B1c and B10: run with ``make benchmark``.

Protocol: interleaved rounds (A/B/A/B), CPU seconds of one core, median and range, the
largest error of every line against its oracle; a line above the bound is void.
Fairness: SimGrid solves max-min, so only B1 compares equal models; it gets its fastest
known settings (optim Full, latency 0, one process). A peer that is not installed is
reported as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.naive_peer import end_times
from fabricast.files import whole_file
from fabricast.pcie.graphs import from_arcs, validation_set
from fabricast.pcie.models import MODELS, evaluate, warm_up
from fabricast.pcie.topology_files import load_tree
from fabricast.tables import connect
from fabricast.units import GIB, MIB

ROUNDS = 7
BANDWIDTH, TAU, SIZE = 11.6 * GIB, 0.1735, 300 * MIB
ERROR_BOUND = 1e-9
REPOSITORY = Path(__file__).parents[1]


def simgrid_python() -> str | None:
    """A Python that has SimGrid: Debian's python3-simgrid belongs to the system's."""
    for python in ("/usr/bin/python3", sys.executable):
        if (
            shutil.which(python)
            and subprocess.run([python, "-c", "import simgrid"], capture_output=True).returncode == 0
        ):
            return python
    return None


def cpu_seconds(work) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    tree = load_tree("storm8")
    arcs = [arcs for _, arcs in validation_set(tree, 22259)]
    graphs = from_arcs(arcs, size_bytes=SIZE)
    digest = hashlib.sha256(json.dumps(arcs).encode()).hexdigest()[:16]
    warm_up()
    route_of = {
        (s, t): tree.route(a, b)
        for s, a in enumerate(tree.endpoint_names)
        for t, b in enumerate(tree.endpoint_names)
        if s != t
    }
    sample = random.Random(1).sample(range(len(arcs)), 2000)
    folder = Path(tempfile.mkdtemp(prefix="fabricast-benchmark-"))
    peer = simgrid_python()
    work = {
        "endpoints": 8, "capacity": [BANDWIDTH] * len(tree.link_names), "graphs": arcs, "size_bytes": SIZE,
        "routes": [(s, t, route) for (s, t), route in route_of.items()],
    }  # fmt: skip
    (folder / "graphs.json").write_text(json.dumps(work))
    keywords = {"bandwidth_bytes_per_s": BANDWIDTH, "tau": TAU}
    times: dict[str, list[float]] = {name: [] for name in ("max_min", "congestion_factor", "naive", "simgrid", "start")}
    simgrid_end = None
    with Console().status("measuring"):
        for _ in range(ROUNDS):
            for model in ("max_min", "congestion_factor"):
                times[model].append(cpu_seconds(lambda m=model: evaluate(tree, graphs, MODELS[m], **keywords)))
            scale = len(arcs) / len(sample)
            times["naive"].append(scale * cpu_seconds(lambda: [end_times(route_of, arcs[i], 1.0) for i in sample]))
            if peer:
                command = [peer, str(REPOSITORY / "benchmarks" / "simgrid_peer.py"), "graphs.json", "simgrid.json"]
                pinned = ["taskset", "-c", "0", *command] if shutil.which("taskset") else command
                subprocess.run(pinned, cwd=folder, check=True, capture_output=True)
                result = json.loads((folder / "simgrid.json").read_text())
                times["simgrid"].append(result["cpu_s"])
                simgrid_end = np.array(result["end_s"])
            started = time.perf_counter()
            script = (
                "from fabricast.pcie.topology_files import load_tree\n"
                "from fabricast.pcie.graphs import from_arcs, validation_set\n"
                "from fabricast.pcie.models import MODELS, evaluate\n"
                "tree = load_tree('storm8')\n"
                "graphs = from_arcs([a for _, a in validation_set(tree, 22259)], size_bytes=1.0)\n"
                "evaluate(tree, graphs, MODELS['congestion_factor'], bandwidth_bytes_per_s=1.0, tau=0.1735)\n"
            )
            subprocess.run([sys.executable, "-c", script], check=True, cwd=REPOSITORY)
            times["start"].append(time.perf_counter() - started)

    sys.path.insert(0, str(REPOSITORY))
    from tests.reference_model import congestion_factors
    from tests.reference_model import end_times as exact_end_times

    options, tau = MODELS["congestion_factor"].options, Fraction(347, 2000)
    own = evaluate(tree, graphs, MODELS["congestion_factor"], **keywords).end_s * BANDWIDTH / SIZE
    exact_error = 0.0
    for i in sample[:200]:
        exact = exact_end_times(
            tree, arcs[i], [1] * len(arcs[i]), [0] * len(arcs[i]), Fraction(1),
            lambda t, a: congestion_factors(t, a, options, tau),
        )  # fmt: skip
        part = own[graphs.offset[i] : graphs.offset[i + 1]]
        exact_error = max(exact_error, float(np.abs(part / np.array([float(e) for e in exact]) - 1).max()))
    max_min = evaluate(tree, graphs, MODELS["max_min"], **keywords).end_s
    naive_error = max(
        float(
            np.abs(
                max_min[graphs.offset[i] : graphs.offset[i + 1]] * BANDWIDTH / SIZE / end_times(route_of, arcs[i], 1.0)
                - 1
            ).max()
        )
        for i in sample
    )
    simgrid_error = None if simgrid_end is None else float(np.abs(simgrid_end / max_min - 1).max())
    median = {name: statistics.median(values) if values else None for name, values in times.items()}
    rows = [
        ("B1", "22,259 graphs, max-min, 1 core", "SimGrid Python", "max_min", "simgrid", simgrid_error, 1e-6),
        ("B1", "22,259 graphs, max-min, 1 core", "plain Python (2,000 graphs, scaled)", "max_min", "naive", naive_error, ERROR_BOUND),
        ("B1b", "22,259 graphs, congestion factors, 1 core (error against exact fractions)", "plain Python max-min", "congestion_factor", "naive", exact_error, ERROR_BOUND),
        ("B1b", "22,259 graphs, congestion factors, 1 core (heavier model)", "SimGrid Python max-min", "congestion_factor", "simgrid", exact_error, ERROR_BOUND),
    ]  # fmt: skip
    records = []
    for name, what, against, ours, theirs, error, bound in rows:
        own_s, peer_s = median[ours], median[theirs]
        void = error is not None and error > bound
        ratio = None if peer_s is None or void else peer_s / own_s
        records.append(
            {"benchmark": name, "work": what, "ours_s": own_s, "low_s": min(times[ours]), "high_s": max(times[ours]),
             "peer": against, "peer_s": peer_s, "ratio": ratio, "largest_error": error,
             "state": "void" if void else "absent" if peer_s is None else "ok"}
        )  # fmt: skip
    records.append(
        {"benchmark": "B1c", "work": "whole process: start, generate the graphs, evaluate (wall)", "ours_s": median["start"],
         "low_s": min(times["start"]), "high_s": max(times["start"]), "peer": "-", "state": "ok"}
    )  # fmt: skip
    records += workflow_times()
    frame = pd.DataFrame(records).assign(
        input_digest=digest, cpu=platform.processor() or platform.machine(), load=os.getloadavg()[0]
    )
    with whole_file(REPOSITORY / "results" / "benchmarks.parquet") as path, connect() as connection:
        connection.from_df(frame).write_parquet(str(path))
    table = Table("benchmark", "work", "ours (s)", "range", "peer", "peer (s)", "ratio", "largest error", "state")
    for row in frame.to_dict("records"):
        shown = [
            f"{row[key]:.4g}" if row[key] == row[key] and row[key] is not None else "-"
            for key in ("peer_s", "ratio", "largest_error")
        ]
        spread = f"{row['low_s']:.4g} to {row['high_s']:.4g}" if row["low_s"] == row["low_s"] else "-"
        table.add_row(row["benchmark"], row["work"], f"{row['ours_s']:.4g}", spread, row["peer"], *shown, row["state"])
    Console(width=170).print(table)
    print(f"graphs sha256 {digest}, load average {os.getloadavg()[0]:.2f}, results/benchmarks.parquet")


def workflow_times() -> list[dict[str, object]]:
    """B10: the default study from an existing environment, then a second run."""
    with tempfile.TemporaryDirectory(prefix="fabricast-benchmark-") as folder:
        subprocess.run(["git", "clone", "--quiet", REPOSITORY, folder], check=True)
        records: list[dict[str, object]] = []
        for what in ("default study, warm kernels (wall)", "second run, nothing to do (wall)"):
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "snakemake", "--cores", "2"], cwd=folder, check=True, capture_output=True
            )
            records.append(
                {"benchmark": "B10", "work": what, "ours_s": time.perf_counter() - started, "peer": "-", "state": "ok"}
            )
    return records


if __name__ == "__main__":
    main()
