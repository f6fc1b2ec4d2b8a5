"""Which order of communications is fastest: all schedules of a pattern, or the best that search finds.

A schedule is one permutation of its sends for each source. Synchronised, all sources start
their k-th sends together and a step lasts as long as its slowest; asynchronous, a source
starts its next send when its previous one ends. Spaces of millions are evaluated wholly
from tables of distinct steps; larger ones are searched, against a proved lower bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.csv_files import read_csv
from fabricast.errors import InputError
from fabricast.pcie.graphs import Arc, CongestionGraphs, from_arcs, read_ends
from fabricast.pcie.models import MODELS, Model, evaluate
from fabricast.pcie.tree import PcieTree
from fabricast.seeds import stream

__all__ = [
    "Pattern",
    "SchedulePlan",
    "ScheduleSearch",
    "enumerate_schedules",
    "halo_pattern",
    "lower_bound_s",
    "read_pattern",
    "run_schedule",
    "search_schedules",
]

Mode = Literal["synchronised", "asynchronous"]
#: Larger spaces are searched, not enumerated.
MOST_SCHEDULES = 20_000_000
_MOST_CODES = 2_000_000
_SAME = 1e-9


@dataclass(frozen=True)
class Pattern:
    """Communications whose order is free, grouped by source.

    Parameters
    ----------
    name : str
        What it is.
    targets : tuple of tuple of int
        Targets of each endpoint, in naive order; endpoints that send nothing have none.
    size_bytes : tuple of tuple of float
        Size of each of these communications.

    Examples
    --------
    >>> pattern = halo_pattern((2, 2, 2), 8, size_bytes=1.0)
    >>> pattern.schedules
    1679616
    >>> halo_pattern((4, 2), 8, size_bytes=1.0).schedules
    20736
    """

    name: str
    targets: tuple[tuple[int, ...], ...]
    size_bytes: tuple[tuple[float, ...], ...]

    @cached_property
    def schedules(self) -> int:
        """Number of schedules."""
        return math.prod(math.factorial(len(own)) for own in self.targets)

    @cached_property
    def arcs(self) -> list[Arc]:
        """All communications, by source and then in naive order."""
        return [(source, target) for source, own in enumerate(self.targets) for target in own]

    @cached_property
    def steps(self) -> int:
        """Number of steps: the most sends of one source."""
        return max(len(own) for own in self.targets)


@dataclass(frozen=True)
class SchedulePlan:
    """One schedule and what it takes.

    Parameters
    ----------
    order : tuple of tuple of int
        Targets of each source in the order of sending.
    elapsed_s : float
        Time from the common start to the last end.
    steps_s : tuple of float
        Time of each step (synchronised), or until the last k-th send ends (asynchronous).
    """

    order: tuple[tuple[int, ...], ...]
    elapsed_s: float
    steps_s: tuple[float, ...]

    def text(self, names: Sequence[str]) -> str:
        """Return the steps as text such as ``0>1 1>0 | 0>2``."""
        steps = itertools.zip_longest(*self.order)
        return " | ".join(
            " ".join(f"{names[s]}>{names[t]}" for s, t in enumerate(step) if t is not None) for step in steps
        )


@dataclass(frozen=True)
class ScheduleSearch:
    """What is known of all schedules of a pattern.

    Parameters
    ----------
    mode : {'synchronised', 'asynchronous'}
        How sends follow each other.
    schedules : int
        Size of the space.
    bound_s : float
        Proved lower bound: no schedule can be faster.
    best : tuple of SchedulePlan
        The fastest found, fastest first.
    naive : SchedulePlan
        The order in which the pattern lists its communications.
    elapsed_s : ndarray of float64 or None
        Times of all schedules by number, if they were enumerated.
    worst : SchedulePlan or None
        The slowest, if they were enumerated.
    evaluated : int
        Schedules that were evaluated.
    """

    mode: Mode
    schedules: int
    bound_s: float
    best: tuple[SchedulePlan, ...]
    naive: SchedulePlan
    elapsed_s: NDArray[np.float64] | None
    worst: SchedulePlan | None
    evaluated: int

    @property
    def gap(self) -> float:
        """How far the best lies above what is proved to be possible at best, relative to it."""
        floor = self.best[0].elapsed_s if self.elapsed_s is not None else self.bound_s
        return self.best[0].elapsed_s / floor - 1

    @property
    def ties(self) -> int | None:
        """How many schedules are as fast as the fastest; None if not enumerated."""
        if self.elapsed_s is None:
            return None
        return int((self.elapsed_s <= self.elapsed_s.min() * (1 + _SAME)).sum())

    def rank_of(self, elapsed_s: float) -> int | None:
        """Return one more than the number of faster schedules; None if not enumerated."""
        if self.elapsed_s is None:
            return None
        return 1 + int((self.elapsed_s < elapsed_s * (1 - _SAME)).sum())


def halo_pattern(grid: Sequence[int], endpoints: int, *, size_bytes: float | Sequence[float]) -> Pattern:
    """Return the halo exchange of a process grid, one process an endpoint, without wrap-around.

    Parameters
    ----------
    grid : sequence of int
        Extent of each axis; the first runs fastest, so 4 x 2 has the rows 0 1 2 3 and 4 5 6 7.
    endpoints : int
        Endpoints of the topology.
    size_bytes : float or sequence of float
        Size of each communication, or of those along each axis.

    Returns
    -------
    Pattern
        Sends to the neighbours of each process.

    Raises
    ------
    InputError
        If the grid does not fit.

    Examples
    --------
    >>> halo_pattern((4, 2), 8, size_bytes=1.0).targets[5]
    (4, 6, 1)
    """
    processes = math.prod(grid)
    if not grid or min(grid) < 1 or not 2 <= processes <= endpoints:
        shown = "x".join(map(str, grid))
        raise InputError(f"halo grid is {shown}, expected positive extents and 2 to {endpoints} processes")
    sizes = [float(size_bytes)] * len(grid) if isinstance(size_bytes, int | float) else [float(s) for s in size_bytes]
    if len(sizes) != len(grid) or not all(0 < size < math.inf for size in sizes):
        raise InputError(f"sizes are {sizes}, expected one positive number for each of {len(grid)} axes")
    targets: list[tuple[int, ...]] = []
    volumes: list[tuple[float, ...]] = []
    strides = [math.prod(grid[:axis]) for axis in range(len(grid))]
    for process in range(endpoints):
        own = []
        if process < processes:
            for axis, (extent, stride) in enumerate(zip(grid, strides, strict=True)):
                place = process // stride % extent
                own += [(process + move * stride, sizes[axis]) for move in (-1, 1) if 0 <= place + move < extent]
        targets.append(tuple(target for target, _ in own))
        volumes.append(tuple(size for _, size in own))
    return Pattern(f"halo {'x'.join(map(str, grid))}", tuple(targets), tuple(volumes))


def read_pattern(path: Path | str, tree: PcieTree, *, size_bytes: float) -> Pattern:
    """Read communications whose order is free from CSV.

    Parameters
    ----------
    path : Path or str
        File with the columns ``source,target[,size_bytes]``.
    tree : PcieTree
        Topology that the names belong to.
    size_bytes : float
        Size where the file has no such column.

    Returns
    -------
    Pattern
        The communications by source, in file order.

    Raises
    ------
    InputError
        On the first row that is wrong.
    """
    targets: list[list[int]] = [[] for _ in tree.endpoint_names]
    sizes: list[list[float]] = [[] for _ in tree.endpoint_names]
    for row in read_csv(path, ("source", "target"), ("size_bytes",)):
        source, target, size = read_ends(row, tree, size_bytes=size_bytes)
        if target in targets[source]:
            raise row.error(f"repeats {row['source']} to {row['target']}, expected each pair once")
        targets[source].append(target)
        sizes[source].append(size)
    return Pattern(Path(path).stem, tuple(map(tuple, targets)), tuple(map(tuple, sizes)))


def lower_bound_s(tree: PcieTree, pattern: Pattern, *, bandwidth_bytes_per_s: float, latency_s: float = 0.0) -> float:
    """Return a time below which no schedule can be, whatever the model.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    pattern : Pattern
        The communications.
    bandwidth_bytes_per_s : float
        Bandwidth of one communication alone.
    latency_s : float, default 0
        Pause before each send.

    Returns
    -------
    float
        The larger of: all bytes of the busiest link at its capacity, all sends of the
        busiest source one after the other, each with its pause.

    Examples
    --------
    >>> from fabricast.pcie.tree import regular_tree
    >>> pattern = halo_pattern((2, 2, 2), 8, size_bytes=1.0)
    >>> lower_bound_s(regular_tree("storm8", (2, 2, 2)), pattern, bandwidth_bytes_per_s=1.0)
    4.0
    """
    routes = tree.routes
    load = np.zeros(routes.capacity.size)
    busiest_source = 0.0
    for source, (own, sizes) in enumerate(zip(pattern.targets, pattern.size_bytes, strict=True)):
        alone_s = 0.0
        for target, size in zip(own, sizes, strict=True):
            pair = source * routes.endpoints + target
            links = routes.link[routes.offset[pair] : routes.offset[pair + 1]]
            load[links] += size
            alone_s += size / float(routes.capacity[links].min())
        busiest_source = max(busiest_source, alone_s / bandwidth_bytes_per_s + len(own) * latency_s)
    return max(float((load / routes.capacity).max()) / bandwidth_bytes_per_s + latency_s, busiest_source)


@dataclass(frozen=True)
class _Space:
    """Schedules of a pattern as numbers, and steps as codes."""

    pattern: Pattern
    sources: tuple[int, ...]
    permutations: tuple[tuple[tuple[int, ...], ...], ...]
    weights: NDArray[np.int64]
    half: int

    @property
    def codes(self) -> int:
        return math.prod(len(self.pattern.targets[s]) + 1 for s in self.sources)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        return np.array([len(own) for own in self.permutations], dtype=np.int64)

    @cached_property
    def lows(self) -> int:
        return int(np.prod(self.counts[: self.half], dtype=np.int64))

    def orders(self, number: int) -> tuple[tuple[int, ...], ...]:
        """Targets of every endpoint in the order of sending."""
        found: list[tuple[int, ...]] = [()] * len(self.pattern.targets)
        for s, own in zip(self.sources, self.permutations, strict=True):
            number, digit = divmod(number, len(own))
            found[s] = tuple(self.pattern.targets[s][choice] for choice in own[digit])
        return tuple(found)

    def combine(self, digit: Callable[[int, int], NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sum what each source adds for its permutation, over the low and over the high sources."""
        halves = []
        for part in (range(self.half), range(self.half, len(self.sources))):
            rows = np.zeros((1, digit(0, 0).size), dtype=np.int64)
            for place in part:
                own = np.stack([digit(place, k) for k in range(int(self.counts[place]))])
                rows = (own[:, None, :] + rows[None, :, :]).reshape(-1, rows.shape[1])
            halves.append(rows)
        return halves[0], halves[1]

    def step_codes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Codes of all steps, of the low and of the high sources, shape (schedules of half, steps)."""

        def digit(place: int, k: int) -> NDArray[np.int64]:
            codes = np.zeros(self.pattern.steps, dtype=np.int64)
            for step, choice in enumerate(self.permutations[place][k]):
                codes[step] = self.weights[place] * (choice + 1)
            return codes

        return self.combine(digit)

    def active_sets(self, codes: NDArray[np.int64], *, sized: bool) -> CongestionGraphs:
        """Return the communications of steps as congestion graphs."""
        digits = [codes // weight % (len(self.pattern.targets[s]) + 1) for s, weight in self._weighted]
        active = np.stack([digit > 0 for digit in digits], axis=1)
        target = np.stack(
            [np.array((0, *self.pattern.targets[s]))[digit] for s, digit in zip(self.sources, digits, strict=True)],
            axis=1,
        )
        size = np.stack(
            [
                np.array((1.0, *self.pattern.size_bytes[s]))[digit] if sized else np.ones(codes.size)
                for s, digit in zip(self.sources, digits, strict=True)
            ],
            axis=1,
        )
        source = np.broadcast_to(np.array(self.sources), active.shape)
        count = int(active.sum())
        return CongestionGraphs(
            names=("",) * codes.size,
            families=("user",) * codes.size,
            offset=np.concatenate([[0], np.cumsum(active.sum(axis=1))]).astype(np.int64),
            source=source[active].astype(np.int64),
            target=target[active].astype(np.int64),
            size_bytes=size[active].astype(np.float64),
            start_s=np.zeros(count, dtype=np.float64),
        )

    @property
    def _weighted(self) -> list[tuple[int, int]]:
        return [(s, int(weight)) for s, weight in zip(self.sources, self.weights, strict=True)]


def _space(pattern: Pattern) -> _Space:
    sources = tuple(s for s, own in enumerate(pattern.targets) if own)
    permutations = tuple(tuple(itertools.permutations(range(len(pattern.targets[s])))) for s in sources)
    weights, weight = [], 1
    for s in sources:
        weights.append(weight)
        weight *= len(pattern.targets[s]) + 1
    return _Space(pattern, sources, permutations, np.array(weights, dtype=np.int64), len(sources) // 2)


@dataclass(frozen=True)
class _Run:
    """Parameters of the model under which schedules are evaluated."""

    tree: PcieTree
    model: Model
    bandwidth_bytes_per_s: float
    tau: float
    crossing_cost: float
    latency_s: float
    threads: int

    def evaluate(self, graphs: CongestionGraphs, *, after: NDArray[np.int64] | None = None, first: bool = False):  # type: ignore[no-untyped-def]
        return evaluate(
            self.tree, graphs, self.model, bandwidth_bytes_per_s=self.bandwidth_bytes_per_s, tau=self.tau,
            crossing_cost=self.crossing_cost, threads=self.threads, after=after, latency_s=self.latency_s,
            first_phase_only=first,
        )  # fmt: skip


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
    """Evaluate one schedule through the general event loop.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    pattern : Pattern
        The communications.
    order : sequence of sequence of int
        Targets of every endpoint in the order of sending.
    mode : {'synchronised', 'asynchronous'}
        How sends follow each other.
    model : Model
        The rule.
    bandwidth_bytes_per_s, tau, crossing_cost : float
        Its parameters.
    latency_s : float, default 0
        Pause before each send.

    Returns
    -------
    SchedulePlan
        The schedule with its times.

    Examples
    --------
    >>> from fabricast.pcie.tree import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> pattern = halo_pattern((2, 2, 2), 8, size_bytes=1.0)
    >>> plan = run_schedule(storm8, pattern, pattern.targets, "asynchronous", bandwidth_bytes_per_s=1.0, tau=0.1735)
    >>> plan.text("01234567")[:23]
    '0>1 1>0 2>3 3>2 4>5 5>4'
    """
    run = _Run(tree, model, bandwidth_bytes_per_s, tau, crossing_cost, latency_s, 1)
    return _plans(run, pattern, [order], mode)[0]


def _plans(run: _Run, pattern: Pattern, orders: Sequence[Sequence[Sequence[int]]], mode: Mode) -> list[SchedulePlan]:
    """Evaluate schedules through the event loop, all at once."""
    size_of = {
        (s, t): size
        for s, (own, sizes) in enumerate(zip(pattern.targets, pattern.size_bytes, strict=True))
        for t, size in zip(own, sizes, strict=True)
    }
    arcs: list[list[Arc]] = []
    after: list[int] = []
    for order in orders:
        if mode == "synchronised":
            steps_of = itertools.zip_longest(*order)
            arcs.extend([(s, t) for s, t in enumerate(step) if t is not None] for step in steps_of)
        else:
            graph: list[Arc] = []
            for s, own in enumerate(order):
                for k, t in enumerate(own):
                    after.append(len(graph) - 1 if k else -1)
                    graph.append((s, t))
            arcs.append(graph)
    sizes = np.array([size_of[arc] for graph in arcs for arc in graph], dtype=np.float64)
    graphs = from_arcs(arcs, size_bytes=1.0)
    graphs = CongestionGraphs(
        graphs.names, graphs.families, graphs.offset, graphs.source, graphs.target, sizes, graphs.start_s
    )
    predecessors = np.array(after, dtype=np.int64) if mode == "asynchronous" else None
    end_s = run.evaluate(graphs, after=predecessors).end_s
    plans, position = [], 0
    for order in orders:
        kept = tuple(tuple(own) for own in order)
        steps = max(len(own) for own in kept)
        if mode == "synchronised":
            ends = [
                float(end_s[graphs.offset[position + k] : graphs.offset[position + k + 1]].max()) + run.latency_s
                for k in range(steps)
            ]
            position += steps
            plans.append(SchedulePlan(kept, math.fsum(ends), tuple(ends)))
        else:
            own_ends = iter(end_s[graphs.offset[position] : graphs.offset[position + 1]].tolist())
            last = [0.0] * steps
            for own in kept:
                for k, _ in enumerate(own):
                    # The first send waits too, which the event loop does not know.
                    last[k] = max(last[k], next(own_ends) + run.latency_s)
            position += 1
            plans.append(SchedulePlan(kept, max(last), tuple(last)))
    return plans


def _symmetries(run: _Run, space: _Space) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Symmetries of the tree that keep the pattern and its sizes, as what each adds to the number."""
    pattern = space.pattern
    if len(pattern.targets) > 8:
        return []
    size_of = {
        (s, t): size for s in space.sources for t, size in zip(pattern.targets[s], pattern.size_bytes[s], strict=True)
    }
    scales = dict(
        zip(space.sources, itertools.accumulate([1, *space.counts.tolist()], lambda a, b: a * b), strict=False)
    )
    place_of = {s: place for place, s in enumerate(space.sources)}
    found = []
    for image in run.tree.automorphisms.tolist():
        if {(image[s], image[t]): size for (s, t), size in size_of.items()} != size_of:
            continue

        def digit(place: int, k: int, image: list[int] = image) -> NDArray[np.int64]:
            source = space.sources[place]
            other = image[source]
            moved = [image[pattern.targets[source][choice]] for choice in space.permutations[place][k]]
            choices = tuple(pattern.targets[other].index(target) for target in moved)
            return np.array([scales[other] * space.permutations[place_of[other]].index(choices)], dtype=np.int64)

        low, high = space.combine(digit)
        found.append((low[:, 0], high[:, 0]))
    return found


def can_enumerate(pattern: Pattern) -> bool:
    """Return whether a pattern has few enough schedules to evaluate them all.

    Examples
    --------
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
    """Evaluate every schedule of a pattern.

    Synchronised schedules are sums of few distinct steps. Asynchronous ones are run on a
    table of the congestion factors of every set of sends that can be active, one for each
    class of schedules that the symmetries of tree and pattern make.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    pattern : Pattern
        The communications.
    mode : {'synchronised', 'asynchronous'}
        How sends follow each other.
    model : Model
        The rule.
    bandwidth_bytes_per_s, tau, crossing_cost : float
        Its parameters.
    latency_s : float, default 0
        Pause before each send.
    top : int, default 100
        How many of the fastest to return.
    threads : int, default 1
        Threads to use.

    Returns
    -------
    ScheduleSearch
        Times of all schedules, the fastest, the slowest and the naive one.

    Raises
    ------
    InputError
        If there are more than 20,000,000 schedules.

    Examples
    --------
    >>> from fabricast.pcie.tree import regular_tree
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
    space = _space(pattern)
    run = _Run(tree, model, bandwidth_bytes_per_s, tau, crossing_cost, latency_s, threads)
    elapsed_s = _synchronised(run, space) if mode == "synchronised" else _asynchronous(run, space)
    count = min(top, elapsed_s.size)
    edge = np.partition(elapsed_s, count - 1)[count - 1] * (1 + _SAME)
    near = np.flatnonzero(elapsed_s <= edge)
    # Times that differ by rounding are ties: the smaller number comes first.
    fastest = near[np.lexsort((near, np.round(elapsed_s[near] / elapsed_s.min(), 9)))][:count]
    chosen = [space.orders(int(number)) for number in (*fastest, np.argmax(elapsed_s))]
    *best, worst, naive = _plans(run, pattern, [*chosen, pattern.targets], mode)
    bound_s = lower_bound_s(tree, pattern, bandwidth_bytes_per_s=bandwidth_bytes_per_s, latency_s=latency_s)
    return ScheduleSearch(mode, pattern.schedules, bound_s, tuple(best), naive, elapsed_s, worst, pattern.schedules)


def _over_threads(work: Callable[[int, int], None], count: int, threads: int, block: int) -> None:
    bounds = [(first, min(first + block, count)) for first in range(0, count, block)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda bound: work(*bound), bounds))


def _synchronised(run: _Run, space: _Space) -> NDArray[np.float64]:
    from fabricast.pcie.schedules_kernels import synchronised_times

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
    _over_threads(
        lambda first, last: synchronised_times(first, last, low, high, step_s, elapsed_s),
        high.shape[0], run.threads, max(1, high.shape[0] // (4 * run.threads)),
    )  # fmt: skip
    return elapsed_s


def _asynchronous(run: _Run, space: _Space) -> NDArray[np.float64]:
    from fabricast.pcie.schedules_kernels import asynchronous_times, smallest_images

    codes = np.arange(1, space.codes)
    graphs = space.active_sets(codes, sized=False)
    rates = np.zeros((space.codes, len(space.sources)), dtype=np.float64)
    place = np.full(len(space.pattern.targets), -1, dtype=np.int64)
    place[list(space.sources)] = np.arange(len(space.sources))
    rho = run.evaluate(graphs, first=True).initial_rho
    rates[1 + graphs.graph_of_communication, place[graphs.source]] = rho
    symmetries = _symmetries(run, space)
    if len(symmetries) > 1:
        smallest = smallest_images(np.stack([low for low, _ in symmetries]), np.stack([high for _, high in symmetries]))
        numbers = np.flatnonzero(smallest == np.arange(smallest.size))
    else:
        numbers = np.arange(space.pattern.schedules)
    most = max(len(own) for own in space.pattern.targets)
    choices = np.full((len(space.sources), int(space.counts.max()), most), -1, dtype=np.int64)
    sizes = np.ones((len(space.sources), most), dtype=np.float64)
    degrees = np.array([len(space.pattern.targets[s]) for s in space.sources], dtype=np.int64)
    for row, (s, own) in enumerate(zip(space.sources, space.permutations, strict=True)):
        choices[row, : len(own), : degrees[row]] = own
        sizes[row, : degrees[row]] = space.pattern.size_bytes[s]
    found = np.empty(numbers.size, dtype=np.float64)
    _over_threads(
        lambda first, last: asynchronous_times(
            first, last, numbers, space.counts, degrees, choices, space.weights, sizes, rates,
            run.bandwidth_bytes_per_s, run.latency_s, found,
        ),
        numbers.size, run.threads, 4096,
    )  # fmt: skip
    if numbers.size == space.pattern.schedules:
        return found
    elapsed_s = np.empty(space.pattern.schedules, dtype=np.float64)
    elapsed_s[numbers] = found
    expanded: NDArray[np.float64] = elapsed_s[smallest]
    return expanded


def search_schedules(
    tree: PcieTree,
    pattern: Pattern,
    mode: Mode,
    *,
    model: Model = MODELS["congestion_factor"],
    bandwidth_bytes_per_s: float,
    tau: float,
    crossing_cost: float = 1.0,
    latency_s: float = 0.0,
    top: int = 10,
    evaluations: int = 40_000,
    seed: int = 20161113,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> ScheduleSearch:
    """Search a space that is too large to enumerate; the gap to a proved bound is told.

    A population of schedules is improved by exchanging two sends of one source, keeping
    exchanges that do not slow a schedule down; it ends early when the bound is reached,
    which proves the optimum.

    Parameters
    ----------
    tree, pattern, mode, model, bandwidth_bytes_per_s, tau, crossing_cost, latency_s, top, threads
        As for `enumerate_schedules`.
    evaluations : int, default 40000
        Schedules to evaluate at most.
    seed : int
        Root seed.
    progress : callable, optional
        Called with the number of schedules evaluated since the last call.

    Returns
    -------
    ScheduleSearch
        The fastest found; `gap` is 0 if they are proved optimal.

    Examples
    --------
    >>> from fabricast.pcie.tree import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> pattern = halo_pattern((4, 2), 8, size_bytes=1.0)
    >>> found = search_schedules(storm8, pattern, "asynchronous", bandwidth_bytes_per_s=1.0, tau=0.1735)
    >>> round(found.gap, 9)
    0.0
    """
    run = _Run(tree, model, bandwidth_bytes_per_s, tau, crossing_cost, latency_s, threads)
    bound_s = lower_bound_s(tree, pattern, bandwidth_bytes_per_s=bandwidth_bytes_per_s, latency_s=latency_s)
    generator = stream(seed, f"pcie.schedules.{tree.name}.{pattern.name}.{mode}")
    movable = [s for s, own in enumerate(pattern.targets) if len(own) > 1]
    population = 64

    def shuffled() -> list[list[int]]:
        return [generator.permutation(own).tolist() if own else [] for own in pattern.targets]

    current: list[list[list[int]]] = [[list(own) for own in pattern.targets]]
    current += [shuffled() for _ in range(population - 1)]
    plans = _plans(run, pattern, current, mode)
    naive = plans[0]
    known = {plan.order: plan for plan in plans}
    evaluated = len(plans)
    stale = np.zeros(population, dtype=np.int64)
    while movable and evaluated < evaluations and min(p.elapsed_s for p in plans) > bound_s * (1 + _SAME):
        moved = []
        for order in current:
            other = [list(own) for own in order]
            for _ in range(1 + int(generator.integers(0, 3))):
                own = other[movable[int(generator.integers(len(movable)))]]
                i, j = generator.choice(len(own), 2, replace=False)
                own[i], own[j] = own[j], own[i]
            moved.append(other)
        tried = _plans(run, pattern, moved, mode)
        evaluated += population
        if progress is not None:
            progress(population)
        for k, plan in enumerate(tried):
            known.setdefault(plan.order, plan)
            stale[k] += 1
            if plan.elapsed_s <= plans[k].elapsed_s * (1 + _SAME):
                if plan.elapsed_s < plans[k].elapsed_s * (1 - _SAME):
                    stale[k] = 0
                plans[k], current[k] = plan, moved[k]
        # A schedule that no longer improves gives way to the best of all.
        best = min(range(population), key=lambda k: plans[k].elapsed_s)
        for k in np.flatnonzero(stale > 120).tolist():
            if k != best:
                plans[k], current[k] = plans[best], [list(own) for own in current[best]]
            stale[k] = 0
    fastest = sorted(known.values(), key=lambda plan: (round(plan.elapsed_s / bound_s, 9), plan.order))[:top]
    return ScheduleSearch(mode, pattern.schedules, bound_s, tuple(fastest), naive, None, None, evaluated)
