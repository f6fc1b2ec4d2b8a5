"""Benchmark of the search for ring orders: all orders of 8 GPUs, and each order separately."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from benchmarks.clocks import cpu_seconds
from fabricast.collectives.communicator import Communicator
from fabricast.collectives.evidence.measured import measured_machine
from fabricast.collectives.orders import search_orders
from fabricast.collectives.step_rates import ring_hops, step_rate

#: Number of orders for the peer; its times are scaled to all orders.
_SAMPLE = 100
_ROUNDS = 3
MACHINES = ("wrx90-A", "chlc_p2p")


def _rates(machine: Communicator, orders: list[list[int]]) -> list[float]:
    """Return the rate of each order in bytes/s, evaluated separately."""
    return [step_rate(machine, ring_hops(machine, order, None)).slowest_bytes_per_s for order in orders]


def collective_lines(
    line: Callable[..., dict[str, object]], machines: Sequence[str] = MACHINES, rounds: int = _ROUNDS
) -> Iterator[dict[str, object]]:
    """Measure B11: all 5,040 ring orders of 8 GPUs; orders with equal link loads are evaluated one time."""
    for name in machines:
        machine = measured_machine(name)
        found = search_orders(machine)
        sample = np.random.default_rng(1).choice(len(found.orders), _SAMPLE, replace=False).tolist()

        each = partial(_rates, machine, found.orders[sample].tolist())
        ours = [cpu_seconds(partial(search_orders, machine)) for _ in range(rounds)]
        theirs = [cpu_seconds(each) * len(found.orders) / _SAMPLE for _ in range(rounds)]
        error = float(np.abs(np.array(each()) / found.bytes_per_s[sample] - 1).max())
        yield line("B11", f"{len(found.orders):,} ring orders, {name}", ours, "each order, scaled", theirs, error)
