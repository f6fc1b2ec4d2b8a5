"""Evaluation of all schedules of a communication pattern.

A schedule is one permutation of the copies of each source. In a synchronised schedule, all sources start their k-th
copies together, and a step lasts as long as its slowest copy. In an asynchronous schedule, each source starts its next
copy when its previous one ends. Up to 20 million schedules are enumerated with tables of distinct steps. Larger spaces
are searched, and the result is compared with a proved lower bound (`fabricast.pcie.schedules.search`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.graphs.patterns import Pattern
from fabricast.pcie.models.catalogue import MODELS, Model
from fabricast.pcie.schedules.asynchronous import asynchronous_times_s
from fabricast.pcie.schedules.results import SAME, Mode, Run, SchedulePlan, ScheduleSearch
from fabricast.pcie.schedules.space import Space, schedule_space
from fabricast.pcie.topology.tree import PcieTree
from fabricast.runtime.threads import over_blocks

__all__ = ["enumerate_schedules", "evaluated_plans", "lower_bound_s", "run_schedule"]

#: Maximum number of schedules to enumerate; larger spaces are searched.
MOST_SCHEDULES = 20_000_000
_MOST_CODES = 2_000_000


def lower_bound_s(tree: PcieTree, pattern: Pattern, *, bandwidth_bytes_per_s: float, latency_s: float = 0.0) -> float:
    """Return a lower bound on the time of every schedule under any model.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    pattern : Pattern
        Copies of each source.
    bandwidth_bytes_per_s : float
        Bandwidth of an isolated copy in bytes/s.
    latency_s : float, default 0
        Pause before each copy in s.

    Returns
    -------
    float
        Lower bound in s: the larger of the time to transfer all bytes of the busiest link after one pause, and the time
        of all copies of the busiest source, one after another with their pauses.

    Examples
    --------
    >>> from fabricast.pcie.graphs.patterns import halo_pattern
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> pattern = halo_pattern((2, 2, 2), 8, size_bytes=1.0)
    >>> lower_bound_s(regular_tree("storm8", (2, 2, 2)), pattern, bandwidth_bytes_per_s=1.0)
    4.0
    """
    routes = tree.routes
    load = np.zeros(routes.capacity.size)
    busiest_source = 0.0
    for source, (targets, sizes) in enumerate(zip(pattern.targets, pattern.size_bytes, strict=True)):
        total_s = 0.0
        for target, size in zip(targets, sizes, strict=True):
            pair = source * routes.endpoints + target
            links = routes.link[routes.offset[pair] : routes.offset[pair + 1]]
            load[links] += size
            total_s += size / float(routes.capacity[links].min())
        busiest_source = max(busiest_source, total_s / bandwidth_bytes_per_s + len(targets) * latency_s)
    return max(float((load / routes.capacity).max()) / bandwidth_bytes_per_s + latency_s, busiest_source)


def run_schedule(
    tree: PcieTree,
    pattern: Pattern,
    order: Sequence[Sequence[int]],
    mode: Mode,
    *,
    model: Model = MODELS["congestion_factor"],
    bandwidth_bytes_per_s: float,
    tau: float,
    crossing_cost: float = 1.0,
    latency_s: float = 0.0,
) -> SchedulePlan:
    """Evaluate a single schedule with the event loop of the models.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    pattern : Pattern
        Copies of each source.
    order : sequence of sequence of int
        Targets of each endpoint in the order of its copies.
    mode : {'synchronised', 'asynchronous'}
        Whether all sources start each step together, or independently.
    model : Model
        Model of the rates.
    bandwidth_bytes_per_s, tau, crossing_cost : float
        Parameters of the model.
    latency_s : float, default 0
        Pause before each copy in s.

    Returns
    -------
    SchedulePlan
        Schedule with its times.

    Examples
    --------
    >>> from fabricast.pcie.graphs.patterns import halo_pattern
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> pattern = halo_pattern((2, 2, 2), 8, size_bytes=1.0)
    >>> plan = run_schedule(storm8, pattern, pattern.targets, "asynchronous", bandwidth_bytes_per_s=1.0, tau=0.1735)
    >>> plan.text("01234567")[:23]
    '0>1 1>0 2>3 3>2 4>5 5>4'
    """
    run = Run(tree, model, bandwidth_bytes_per_s, tau, crossing_cost, latency_s, 1)
    return evaluated_plans(run, pattern, [order], mode)[0]


def evaluated_plans(
    run: Run, pattern: Pattern, orders: Sequence[Sequence[Sequence[int]]], mode: Mode
) -> list[SchedulePlan]:
    """Evaluate schedules of one pattern in a single call of the event loop."""
    lengths = [len(targets) for targets in orders[0]]
    source = np.repeat(np.arange(len(lengths)), lengths)
    step = np.concatenate([np.arange(length) for length in lengths])
    target = np.array([list(itertools.chain.from_iterable(order)) for order in orders], dtype=np.int64)
    sends, steps, count = source.size, max(lengths), len(orders)
    if mode == "synchronised":
        # Each step is a separate graph.
        by_step = np.lexsort((source, step))
        source, step, target = source[by_step], step[by_step], target[:, by_step]
        offset = np.concatenate([[0], np.cumsum(np.tile(np.bincount(step), count))])
        after = None
    else:
        offset = np.arange(count + 1) * sends
        after = np.tile(np.where(step > 0, np.arange(sends) - 1, -1), count)
    size = np.full((len(lengths), run.tree.routes.endpoints), np.nan)
    for row, targets, sizes in zip(size, pattern.targets, pattern.size_bytes, strict=True):
        row[list(targets)] = sizes
    graphs = CongestionGraphs(
        names=tuple(map(str, range(offset.size - 1))),
        families=("user",) * (offset.size - 1),
        offset=offset,
        source=np.tile(source, count),
        target=target.ravel(),
        size_bytes=size[source, target].ravel(),
        start_s=np.zeros(target.size),
    )
    # The event loop does not include the pause before the first copy.
    end_s = run.evaluate(graphs, after=after).end_s.reshape(count, sends) + run.latency_s
    last = np.stack([end_s[:, step == k].max(axis=1) for k in range(steps)], axis=1).tolist()
    together = math.fsum if mode == "synchronised" else max
    return [
        SchedulePlan(tuple(tuple(targets) for targets in order), together(ends), tuple(ends))
        for order, ends in zip(orders, last, strict=True)
    ]


def can_enumerate(pattern: Pattern) -> bool:
    """Return whether a pattern has few enough schedules to enumerate.

    Examples
    --------
    >>> from fabricast.pcie.graphs.patterns import halo_pattern
    >>> can_enumerate(halo_pattern((4, 4), 16, size_bytes=1.0))
    False
    """
    return pattern.schedules <= MOST_SCHEDULES and math.prod(len(own) + 1 for own in pattern.targets) <= _MOST_CODES


def enumerate_schedules(
    tree: PcieTree,
    pattern: Pattern,
    mode: Mode,
    *,
    model: Model = MODELS["congestion_factor"],
    bandwidth_bytes_per_s: float,
    tau: float,
    crossing_cost: float = 1.0,
    latency_s: float = 0.0,
    top: int = 100,
    threads: int = 1,
) -> ScheduleSearch:
    """Evaluate all schedules of a pattern.

    The time of a synchronised schedule is the sum of its steps, and each distinct step is evaluated once. Asynchronous
    schedules are simulated with a table of the congestion factors of all possible active sets. Schedules that are
    equivalent by a symmetry are simulated once, and so are common beginnings.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    pattern : Pattern
        Copies of each source.
    mode : {'synchronised', 'asynchronous'}
        Whether all sources start each step together, or independently.
    model : Model
        Model of the rates.
    bandwidth_bytes_per_s, tau, crossing_cost : float
        Parameters of the model.
    latency_s : float, default 0
        Pause before each copy in s.
    top : int, default 100
        Number of fastest schedules to return.
    threads : int, default 1
        Number of threads.

    Returns
    -------
    ScheduleSearch
        Times of all schedules, and the fastest, slowest and naive schedules.

    Raises
    ------
    InputError
        If there are more than 20,000,000 schedules or 2,000,000 active sets.

    Examples
    --------
    >>> from fabricast.pcie.graphs.patterns import halo_pattern
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> pattern = halo_pattern((4, 2), 8, size_bytes=1.0)
    >>> search = enumerate_schedules(storm8, pattern, "asynchronous", bandwidth_bytes_per_s=1.0, tau=0.1735)
    >>> round(search.best[0].elapsed_s, 9), search.ties, search.bound_s
    (4.0, 4, 4.0)
    """
    if not can_enumerate(pattern):
        raise InputError(
            f"pattern '{pattern.name}' has {pattern.schedules:,} schedules, expected at most {MOST_SCHEDULES:,} to "
            "enumerate; search them instead"
        )
    space = schedule_space(pattern)
    run = Run(tree, model, bandwidth_bytes_per_s, tau, crossing_cost, latency_s, threads)
    elapsed_s = _synchronised(run, space) if mode == "synchronised" else asynchronous_times_s(run, space)
    count = min(top, elapsed_s.size)
    near = _fastest(elapsed_s, count)
    # Times that differ by rounding only are ties, sorted by schedule number.
    fastest = near[np.lexsort((near, np.round(elapsed_s[near] / elapsed_s.min(), 9)))][:count]
    chosen = [space.orders(int(number)) for number in (*fastest, np.argmax(elapsed_s))]
    *best, worst, naive = evaluated_plans(run, pattern, [*chosen, pattern.targets], mode)
    bound_s = lower_bound_s(tree, pattern, bandwidth_bytes_per_s=bandwidth_bytes_per_s, latency_s=latency_s)
    return ScheduleSearch(mode, pattern.schedules, bound_s, tuple(best), naive, elapsed_s, worst, pattern.schedules)


def _fastest(elapsed_s: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Return the numbers of the `count` fastest schedules and of ties with the last one."""
    # The count-th smallest block minimum is an upper limit of the count-th smallest time, which leaves few to sort.
    blocks = np.minimum.reduceat(elapsed_s, np.arange(0, elapsed_s.size, max(1, elapsed_s.size // (100 * count))))
    few = elapsed_s[elapsed_s <= np.partition(blocks, count - 1)[count - 1]]
    return np.flatnonzero(elapsed_s <= np.partition(few, count - 1)[count - 1] * (1 + SAME))


def _synchronised(run: Run, space: Space) -> NDArray[np.float64]:
    """Return the times of all synchronised schedules in s, by schedule number."""
    from fabricast.pcie.schedules.kernels.synchronised import synchronised_times

    low, high = space.step_codes()
    seen = np.zeros(space.codes, dtype=np.bool_)
    for k in range(low.shape[1]):
        seen[np.add.outer(np.unique(low[:, k]), np.unique(high[:, k]))] = True
    seen[0] = False
    distinct = np.flatnonzero(seen)
    graphs = space.active_sets(distinct, sized=True)
    end_s = run.evaluate(graphs).end_s
    step_s = np.zeros(space.codes, dtype=np.float64)
    step_s[distinct] = np.maximum.reduceat(end_s, graphs.offset[:-1]) + run.latency_s
    elapsed_s = np.empty(space.pattern.schedules, dtype=np.float64)
    over_blocks(
        lambda first, last: synchronised_times(first, last, low, high, step_s, elapsed_s),
        high.shape[0],
        threads=run.threads,
        block=max(1, high.shape[0] // (4 * run.threads)),
    )
    return elapsed_s
