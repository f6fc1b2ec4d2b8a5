"""Time the parts of a small MPI message between two processes of one machine.

Run by `fabricast.breakdown.measured.runs` under mpiexec with two processes; needs mpi4py.
Each region is timed in a pass of its own, so that no pair of clock readings nests in
another, and the cost of an empty pair is measured beside it.
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

if TYPE_CHECKING:
    from mpi4py import MPI

_CALIBRATION = 20_000
_PAYLOAD_BYTES = 8


def _overhead_ns() -> float:
    """Median cost of an empty pair of clock readings."""
    clock = time.perf_counter_ns
    gaps = []
    for _ in range(_CALIBRATION):
        start = clock()
        gaps.append(clock() - start)
    return float(statistics.median(gaps))


def _send(world: MPI.Comm, payload: bytearray, requests: list[MPI.Request]) -> None:
    requests.append(world.Isend(payload, dest=1))


def main(path: str, iterations: int) -> None:
    """Measure and write the timers of rank 0 and rank 1 as CSV.

    Parameters
    ----------
    path : str
        The CSV file, as `fabricast.breakdown.traces.read_timers` takes it.
    iterations : int
        Samples of each region.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD
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
            # The message is there before the receive is timed.
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
