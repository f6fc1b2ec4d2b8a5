"""Tables of nccl-tests compared with themselves: no size should last longer than a larger one, or have a lower rate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricast.core.facts import Fact
from fabricast.core.findings import Finding
from fabricast.core.number_text import size_text
from fabricast.diagnosis.weights import SYMPTOM
from fabricast.nccl.records import NcclTestsTable

#: Ratio to the time of a larger size above which a finding is printed, and smallest size in bytes: the time of smaller
#: ones varies with the host.
_SLOWER, _SMALLEST = 1.5, 2.0**16
#: Share of the rate of a smaller size below which a finding is printed, and smallest size in bytes. Of 21 public tables
#: of single nodes none falls so far, of 201 of clusters 55.
_FALL, _LARGE = 0.6, 2.0**20


def slower_than_larger(fact: Fact) -> Finding | None:
    """Return a finding for sizes that last longer than a larger size of the same table, without a model."""
    table: NcclTestsTable = fact.value
    # The first row has the start of the program; of repeated sizes, the shortest time counts.
    shortest: dict[float, float] = {}
    for row in table.rows[1:]:
        shortest[row.size_bytes] = min(row.time_s, shortest.get(row.size_bytes, np.inf))
    sizes = np.array(sorted(shortest))
    sizes = sizes[sizes >= _SMALLEST]
    if sizes.size < 2:
        return None
    times = np.array([shortest[size] for size in sizes])
    found = longer_sizes(sizes, times, _SLOWER)
    if found is None:
        return None
    worst, larger, words = found
    text = f"{table.operation} of {words}"
    remedy = (
        "run these sizes again; if it stays, compare NCCL_PROTO and NCCL_ALGO for them, and whether NCCL_DEBUG=INFO "
        "names a tuner plugin"
    )
    rows = [row.line for row in table.rows if row.size_bytes in (sizes[worst], sizes[larger])]
    origin = f"{fact.place.path}:{min(rows)}"
    return Finding("slower_than_larger_sizes", text, remedy, SYMPTOM - 0.2, origin=origin)


def longer_sizes(
    sizes: NDArray[np.float64], times: NDArray[np.float64], threshold: float
) -> tuple[int, int, str] | None:
    """Return the size that lasts longest relative to a larger one, that one, and words; None below a threshold.

    >>> longer_sizes(np.array([1024.0, 2048.0, 4096.0]), np.array([1e-5, 9e-5, 2e-5]), 2.0)
    (1, 2, '2 KiB lasts longer than larger sizes: 2 KiB 90 us, 4 KiB 20 us')
    """
    after = np.minimum.accumulate(times[::-1])[::-1][1:]
    ratio = times[:-1] / after
    slow = np.flatnonzero(ratio > threshold)
    if not slow.size:
        return None
    worst = int(np.argmax(ratio))
    larger = worst + 1 + int(np.argmin(times[worst + 1 :]))
    first, last = (size_text(float(sizes[place])) for place in (slow[0], slow[-1]))
    which = f"{first} lasts" if slow.size == 1 else f"{slow.size} sizes from {first} to {last} last"
    words = (
        f"{which} longer than larger sizes: {size_text(float(sizes[worst]))} "
        f"{times[worst] * 1e6:,.0f} us, {size_text(float(sizes[larger]))} {times[larger] * 1e6:,.0f} us"
    )
    return worst, larger, words


def falling_rate(fact: Fact) -> Finding | None:
    """Return a finding for the first large size whose bus bandwidth is far below that of a smaller one.

    A later size with less than half of its bandwidth is named instead. Sizes that last longer than a larger one are
    left to `slower_than_larger`.
    """
    table: NcclTestsTable = fact.value
    best, fall = None, None
    for place, row in enumerate(table.rows, start=1):
        rate = row.bus_bytes_per_s
        is_slow = best is not None and row.size_bytes >= _LARGE and rate < _FALL * best.bus_bytes_per_s
        is_longer = row.time_s > min((larger.time_s for larger in table.rows[place:]), default=np.inf)
        if best is not None and is_slow and not is_longer and (fall is None or rate < fall[1].bus_bytes_per_s / 2):
            fall = best, row
        if best is None or rate > best.bus_bytes_per_s:
            best = row
    if fall is None:
        return None
    high, low = fall
    text = (
        f"{table.operation}: bus bandwidth falls from {high.bus_bytes_per_s / 1e9:.3g} GB/s for "
        f"{size_text(high.size_bytes)} to {low.bus_bytes_per_s / 1e9:.3g} GB/s for {size_text(low.size_bytes)}"
    )
    remedy = (
        "run these sizes again; if it stays, compare NCCL_ALGO and NCCL_PROTO for them; between nodes, check "
        "congestion (PFC and ECN of RoCE, counters of switches) and whether hops use GPUDirect RDMA"
    )
    return Finding("falling_rate", text, remedy, SYMPTOM - 0.1, origin=f"{fact.place.path}:{low.line}")
