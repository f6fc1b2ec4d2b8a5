"""MPI program that times the regions of a small message between processes.

`fabricast.breakdown.measured.runs` starts it under mpiexec with two processes; it requires mpi4py. Regions
are timed separately, so that clock readings are never nested. The overhead of an empty pair of clock
readings is measured as well.
"""

from __future__ import annotations

import csv
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fabricast.runtime.mpi_launch import all_ranks

if TYPE_CHECKING:
    from mpi4py import MPI

_CALIBRATION = 20_000
_PAYLOAD_BYTES = 8


def _overhead_ns() -> float:
    """Return the median overhead of an empty pair of clock readings in ns."""
    clock = time.perf_counter_ns
    gaps = []
    for _ in range(_CALIBRATION):
        start = clock()
        gaps.append(clock() - start)
    return float(statistics.median(gaps))


def _send(world: MPI.Comm, payload: bytearray, requests: list[MPI.Request]) -> None:
    requests.append(world.Isend(payload, dest=1))


def main(path: str, iterations: int) -> None:
    """Measure the timers of ranks 0 and 1 and write them as CSV."""
    world = all_ranks()
    rank = world.Get_rank()
    payload = bytearray(_PAYLOAD_BYTES)
    clock = time.perf_counter_ns
    rows: list[tuple[str, str, int, float, float]] = []

    def timed(region: str, call: Callable[[], object], number: int) -> None:
        start = clock()
        call()
        rows.append(("shared_memory", region, number, float(clock() - start), overhead))

    overhead = _overhead_ns()
    for number in range(iterations):
        world.Barrier()
        if rank == 0:
            requests: list[MPI.Request] = []
            timed("mpi_isend", partial(_send, world, payload, requests), number)
            timed("send_progress", requests[0].Wait, number)
            world.Barrier()
        else:
            # The barrier ensures that the message has arrived before the receive is timed.
            world.Barrier()
            timed("receive_progress", lambda: world.Recv(payload, source=0), number)
    for number in range(iterations):
        world.Barrier()
        if rank == 0:

            def there_and_back() -> None:
                world.Send(payload, dest=1)
                world.Recv(payload, source=1)

            timed("ping_pong", there_and_back, number)
        else:
            world.Recv(payload, source=0)
            world.Send(payload, dest=0)
    gathered = world.gather(rows, root=0)
    if rank == 0:
        assert gathered is not None
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("run_id", "region", "iter", "raw_ns", "overhead_ns"))
            for part in gathered:
                writer.writerows(part)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
