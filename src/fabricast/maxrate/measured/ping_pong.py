"""MPI program that times single iterations of ping-pongs between k process pairs.

`fabricast.maxrate.measured.pairs` starts it under mpiexec with two processes per pair; it requires mpi4py.
The first half of the ranks sends first. On shared machines, means over a loop (the method of nodecomm) were up
to 50 times too large, whereas low quantiles of single iterations are reproducible within a few percent.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from fabricast.runtime.mpi_launch import all_ranks

COLUMNS = (
    "processes",
    "size_bytes",
    "burst",
    "iterations",
    "t_min_s",
    "t_p05_s",
    "t_p25_s",
    "t_p50_s",
    "t_p95_s",
    "t_max_s",
    "t_mean_s",
    "loadavg",
)
_WARM_UP = 20


def main(path: str, plan: str) -> None:
    """Measure all pair counts and message sizes and write one row per burst."""
    from mpi4py import MPI

    world = all_ranks()
    rank, half = world.Get_rank(), world.Get_size() // 2
    settings = json.loads(plan)
    partner = (rank + half) % (2 * half)
    clock = time.perf_counter_ns
    rows = []
    for pairs in settings["pairs"]:
        active = rank % half < pairs
        for size in settings["sizes"]:
            buffer = np.zeros(size, dtype=np.uint8)

            def round_trip(buffer: np.ndarray = buffer) -> None:
                if rank < half:
                    world.Send([buffer, MPI.BYTE], dest=partner)
                    world.Recv([buffer, MPI.BYTE], source=partner)
                else:
                    world.Recv([buffer, MPI.BYTE], source=partner)
                    world.Send([buffer, MPI.BYTE], dest=partner)

            start = clock()
            for _ in range(_WARM_UP if active else 0):
                round_trip()
            trial = (clock() - start) / _WARM_UP if active else 0.0
            trial = world.allreduce(trial, op=MPI.MAX)
            iterations = int(np.clip(settings["seconds"] * 1e9 / max(trial, 1.0), 20, 20_000))
            for burst in range(settings["bursts"]):
                stamps = np.zeros(iterations)
                world.Barrier()
                for i in range(iterations if active else 0):
                    start = clock()
                    round_trip()
                    stamps[i] = clock() - start
                statistics = [stamps.min(), *np.percentile(stamps, [5, 25, 50, 95]), stamps.max(), stamps.mean()]
                gathered = world.gather(statistics if active and rank < half else None, root=0)
                if rank == 0:
                    slowest = np.max([part for part in gathered or [] if part is not None], axis=0) * 1e-9
                    rows.append((pairs, size, burst, iterations, *(f"{t:.9g}" for t in slowest), os.getloadavg()[0]))
    if rank == 0:
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
