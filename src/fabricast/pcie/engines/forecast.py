"""Predicted rates and completion times of concurrent copies with engines and barriers.

A GPU executes one peer copy at a time, and the benchmark program issues copies in some order. As soon as a GPU is
the source or target of several copies, both determine the rates. A model with link sharing only then predicts
up to twice the measured rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.engines.links import SharedLimit, links_of, named_links_of
from fabricast.pcie.engines.ports import link_order, new_ports, no_ports, reordered
from fabricast.pcie.graphs.programs import CopyProgram
from fabricast.pcie.graphs.rates import CopyTimes, Rates, Statistic, TotalRate, check_flows, printed_rates
from fabricast.pcie.topology.paths import link_labels
from fabricast.pcie.topology.tree import PcieTree

if TYPE_CHECKING:
    from fabricast.pcie.engines.kernels.engines import Explanation
    from fabricast.pcie.engines.kernels.links import Links

__all__ = ["Sharing", "copy_times", "isolated_rate", "total_rate", "total_rates"]

#: Rule by which running copies share links: max-min fairly, or by arbitration at ports with back-pressure.
Sharing = Literal["max_min", "ports"]


def total_rate(
    tree: PcieTree,
    flows: Sequence[tuple[int, int]],
    program: CopyProgram,
    rates: Rates,
    *,
    over_peer_links: bool = False,
    limits: Sequence[SharedLimit] = (),
    repeats: int | None = None,
    draws: int = 9,
    seed: int = 0,
    sharing: Sharing = "max_min",
    statistic: Statistic = "total",
) -> TotalRate:
    """Predict the aggregate rate of repeated copies in several flows.

    Each flow repeats copies of one size. Copies of different flows share links max-min fairly, and the program decides
    which of them run at the same time.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    flows : sequence of (int, int)
        Source and target of each flow as endpoint numbers, in the order in which the program issues them.
    program : CopyProgram
        Execution engine, barriers and order of the copies.
    rates : Rates
        Calibrated link rates of the machine.
    over_peer_links : bool, default False
        Whether copies use the direct links whose bandwidth the topology specifies.
    limits : sequence of SharedLimit, default ()
        Limits on the aggregate rate of some flows, such as all flows that read one memory.
    repeats : int, optional
        Copies of each flow; by default the repetitions of the program. All copies have the same size, which does not
        affect the rate.
    draws : int, default 9
        Number of runs with different random numbers; a deterministic program runs once.
    seed : int, default 0
        Seed of the first draw; each further draw adds 1.
    sharing : {'max_min', 'ports'}, default 'max_min'
        Rule by which running copies share links.
    statistic : str, default 'total'
        Rate that the benchmark prints, see `fabricast.pcie.graphs.rates.printed_rates`.

    Returns
    -------
    TotalRate
        Aggregate rate with its range over draws.

    Raises
    ------
    InputError
        If there are no flows or more than `MOST_COPIES`, or a flow has the same source and target.

    References
    ----------
    Links are shared max-min fairly. The capacity of a direction is B - (B / Bd - 1) times the traffic in the reverse
    direction, with B the rate of an isolated copy and Bd the rate of each copy of a bidirectional pair. Engines and
    barriers are inferred from public measurements of five machines (config/published/pcie_concurrent_copies.csv).

    Examples
    --------
    One source copies to a near and a far destination. Its single engine alternates; each flow gets half the rate.

    >>> from dataclasses import replace
    >>> from fabricast.pcie.graphs.programs import PROGRAMS
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("flat4x2", (2, 4))
    >>> rates = Rates(50e9, 50e9)
    >>> total = total_rate(tree, [(0, 1), (0, 4)], replace(PROGRAMS["unordered_writes"], switch_share=0.0), rates)
    >>> round(total.bytes_per_s / 1e9), bool((total.flow_bytes_per_s < 30e9).all())
    (50, True)
    """
    (total,) = total_rates(
        tree,
        flows,
        [program],
        rates,
        over_peer_links=over_peer_links,
        limits=limits,
        repeats=repeats,
        draws=draws,
        seed=seed,
        sharing=sharing,
        statistic=statistic,
    )
    return total


def total_rates(
    tree: PcieTree,
    flows: Sequence[tuple[int, int]],
    programs: Sequence[CopyProgram],
    rates: Rates,
    *,
    over_peer_links: bool = False,
    limits: Sequence[SharedLimit] = (),
    repeats: int | None = None,
    draws: int = 9,
    seed: int = 0,
    sharing: Sharing = "max_min",
    statistic: Statistic = "total",
) -> list[TotalRate]:
    """Predict the aggregate rate of several flows under several programs.

    Parameters
    ----------
    tree, flows, rates, over_peer_links, limits, repeats, draws, seed, sharing, statistic
        See `total_rate`.
    programs : sequence of CopyProgram
        Programs to compare.

    Returns
    -------
    list of TotalRate
        Aggregate rate for each program, in the order of `programs`.

    Raises
    ------
    InputError
        See `total_rate`.

    Examples
    --------
    >>> from fabricast.pcie.graphs.programs import PROGRAMS
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree, rates = regular_tree("flat4x2", (2, 4)), Rates(50e9, 50e9)
    >>> one, other = total_rates(tree, [(0, 1), (0, 4)], list(PROGRAMS.values())[:2], rates)
    >>> one.bytes_per_s == total_rate(tree, [(0, 1), (0, 4)], PROGRAMS["ordered_writes"], rates).bytes_per_s
    True
    """
    check_flows(flows)
    runs = _Runs(tree, flows, rates, over_peer_links, limits, sharing)
    size = np.full(len(flows), rates.one_way_bytes_per_s)
    results = []
    for program in programs:
        count = program.repetitions if repeats is None else repeats
        ends_s = runs.ends_s(program, size, np.zeros(len(flows)), count, draws, seed)
        totals = printed_rates(runs.pairs, count * size[0], ends_s, statistic)
        by_flow = np.median(count * size / ends_s, axis=0)
        results.append(TotalRate(float(np.median(totals)), float(totals.min()), float(totals.max()), by_flow))
    return results


def copy_times(
    tree: PcieTree,
    flows: Sequence[tuple[int, int]],
    program: CopyProgram,
    rates: Rates,
    *,
    size_bytes: NDArray[np.float64],
    start_s: NDArray[np.float64],
    over_peer_links: bool = False,
    limits: Sequence[SharedLimit] = (),
    draws: int = 101,
    seed: int = 0,
    explain: bool = False,
    sharing: Sharing = "max_min",
) -> CopyTimes:
    """Predict the completion time of each copy of a program that runs once.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    flows : sequence of (int, int)
        Source and target of each copy as endpoint numbers, in the order in which the program issues them.
    program : CopyProgram
        Execution engine, barriers and order of the copies.
    rates : Rates
        Calibrated link rates of the machine.
    size_bytes, start_s : ndarray of float64, shape (copies,)
        Size of each copy in bytes, and its issue time in s.
    over_peer_links : bool, default False
        Whether copies use the direct links whose bandwidth the topology specifies.
    limits : sequence of SharedLimit, default ()
        Limits on the aggregate rate of some copies, such as all copies that read one memory.
    draws : int, default 101
        Number of runs with different random numbers; a deterministic program runs once.
    seed : int, default 0
        Seed of the first draw; each further draw adds 1.
    explain : bool, default False
        Whether to determine the bottleneck of each copy.
    sharing : {'max_min', 'ports'}, default 'max_min'
        Rule by which running copies share links.

    Returns
    -------
    CopyTimes
        Completion times with their range over draws. If the program does not define an order of copies, the order of
        `flows` does not affect them.

    Raises
    ------
    InputError
        If there are no copies or more than `MOST_COPIES`, or a copy has the same source and target.

    References
    ----------
    See `total_rate`.

    Examples
    --------
    Two copies into one destination share its link. Two copies from one engine run one after the other.

    >>> from fabricast.pcie.graphs.programs import PROGRAMS
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("flat4x2", (2, 4))
    >>> from dataclasses import replace
    >>> rates, size, start = Rates(50e9, 50e9), np.full(2, 50e9), np.zeros(2)
    >>> independent = PROGRAMS["independent"]
    >>> copy_times(tree, [(0, 1), (2, 1)], independent, rates, size_bytes=size, start_s=start).end_s.tolist()
    [2.0, 2.0]
    >>> in_turns = replace(PROGRAMS["unordered_writes"], random_turns=False, switch_share=0.0)
    >>> copy_times(tree, [(0, 1), (0, 4)], in_turns, rates, size_bytes=size, start_s=start).end_s.tolist()
    [1.0, 2.0]
    """
    check_flows(flows)
    runs = _Runs(tree, flows, rates, over_peer_links, limits, sharing)
    explanation = _Explanation(runs, program) if explain else None
    ends_s = runs.ends_s(program, size_bytes, start_s, 1, draws, seed, explanation)
    low, high = ends_s.min(axis=0), ends_s.max(axis=0)
    # Rounding can move the mean of equal numbers outside their range.
    times = np.clip(ends_s.mean(axis=0), low, high), low, high
    return CopyTimes(*times) if explanation is None else CopyTimes(*times, *explanation.texts())


def isolated_rate(tree: PcieTree, flow: tuple[int, int], rates: Rates, *, over_peer_links: bool = False) -> float:
    """Return the rate of an isolated copy in bytes/s, limited by its narrowest link.

    Examples
    --------
    >>> from fabricast.pcie.graphs.programs import PROGRAMS
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> isolated_rate(regular_tree("flat4x2", (2, 4)), (0, 4), Rates(50e9, 50e9, crossing_bytes_per_s=40e9))
    40000000000.0
    """
    links = links_of(tree, [flow], rates, over_peer_links)
    return float(links.capacity[links.link].min())


class _Runs:
    """Runs of copy programs over the same flows.

    Parameters
    ----------
    tree, flows, rates, over_peer_links, limits, sharing
        See `total_rate`.
    """

    def __init__(
        self,
        tree: PcieTree,
        flows: Sequence[tuple[int, int]],
        rates: Rates,
        over_peer_links: bool,
        limits: Sequence[SharedLimit],
        sharing: Sharing,
    ) -> None:
        self.tree, self.rates, self.sharing = tree, rates, sharing
        self.pairs = np.array(flows, dtype=np.int64)
        self.links, self.names = named_links_of(tree, flows, rates, over_peer_links, limits)
        self.alone = np.minimum.reduceat(self.links.capacity[self.links.link], self.links.offset[:-1])
        # Pauses are known for copies over the tree only.
        self.pausing = np.where(np.array(self.names.places) >= 0, self.alone, np.inf)
        self.order = np.arange(self.links.capacity.size)
        if sharing == "ports":
            self.order = link_order(self.names, self.links.capacity.size, tree)
            self.links = reordered(self.links, self.order)

    def ends_s(
        self,
        program: CopyProgram,
        size: NDArray[np.float64],
        start_s: NDArray[np.float64],
        repeats: int,
        draws: int,
        seed: int,
        explanation: _Explanation | None = None,
    ) -> NDArray[np.float64]:
        """Return the completion time of each flow in s, shape (draws, flows)."""
        from fabricast.pcie.engines.kernels.engines import Explanation, Program, run_program
        from fabricast.pcie.models.kernels.bottlenecks import Waits

        others = ~np.isin(self.tree.endpoint_names, self.tree.accelerator_names)
        # Random numbers must not depend on the order of copies that the program does not order.
        order = np.arange(len(self.pairs))
        if program.random_turns and program.serialised == "none":
            order = np.lexsort((start_s, size, self.pairs[:, 1], self.pairs[:, 0]))
        links, pairs = _in_order(self.links, order), self.pairs[order]
        executed = Program(
            program.engines(pairs, others),
            program.barriers(pairs, others),
            size[order],
            start_s[order],
            repeats,
            program.occupancy(self.alone[order] / self.rates.one_way_bytes_per_s),
            program.random_turns,
            program.switch_share,
            program.random_pauses,
        )
        if explanation is None:
            no_waits = Waits(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0), dtype=np.int64))
            waits = Explanation(no_waits, np.zeros(0, dtype=np.int64))
        else:
            waits = explanation.arrays(order)
        ports = new_ports(self.tree, links, self.order, self.rates) if self.sharing == "ports" else no_ports(self.tree)
        runs, endpoints = range(draws if program.is_random else 1), self.tree.routes.endpoints
        ends_s = [
            run_program(links, executed, endpoints, self.pausing[order], seed + draw, ports, waits) for draw in runs
        ]
        return np.stack(ends_s)[:, np.argsort(order)]


class _Explanation:
    """Waiting times of flows at links over all runs.

    Parameters
    ----------
    runs : _Runs
        Flows and links.
    program : CopyProgram
        Program that is run.
    """

    def __init__(self, runs: _Runs, program: CopyProgram) -> None:
        from fabricast.pcie.models.kernels.bottlenecks import Waits

        self._runs, self._is_first = runs, program.executor == "source"
        shape = len(runs.pairs), runs.links.capacity.size
        self._waits = Waits(np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64))
        self._flows = np.arange(len(runs.pairs))

    def arrays(self, order: NDArray[np.int64]) -> Explanation:
        """Return the arguments of the kernel for flows in another order."""
        from fabricast.pcie.engines.kernels.engines import Explanation

        self._flows = order
        return Explanation(self._waits, self._queues()[order])

    def _queues(self) -> NDArray[np.int64]:
        """Return the link at which each flow waits for its engine: the first of its route for writes, else the last."""
        links, tree_links, order = self._runs.links, self._runs.names.tree_links, self._runs.order
        queues = []
        for flow in range(len(self._runs.pairs)):
            route = links.link[links.offset[flow] : links.offset[flow + 1]]
            on_tree = sorted(route[order[route] < tree_links], key=lambda link: int(order[link]))
            queues.append(on_tree[0 if self._is_first else -1] if on_tree else route[0])
        return np.array(queues, dtype=np.int64)

    def texts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the label of the link at which each flow waits longest, and the cause of the wait there."""
        from fabricast.pcie.models.kernels.bottlenecks import cause_of

        waits, names, order = self._waits, self._runs.names, self._runs.order
        labels = dict(enumerate(link_labels(self._runs.tree))) | dict(names.names)
        bottlenecks, causes = [""] * len(self._flows), [""] * len(self._flows)
        for row, flow in enumerate(self._flows.tolist()):
            longest = int(waits.limited_s[row].argmax())
            link, place = int(order[longest]), names.places[flow]
            cause = cause_of(row, longest, waits)
            cause = int(order[cause]) if cause >= 0 else -1
            if link >= names.tree_links and place >= 0:
                link, cause = place, link
            bottlenecks[flow] = labels[link]
            causes[flow] = labels[cause] if cause >= 0 else ""
        return tuple(bottlenecks), tuple(causes)


def _in_order(links: Links, order: NDArray[np.int64]) -> Links:
    """Return links with their flows in another order."""
    lengths = np.diff(links.offset)[order]
    begins = np.cumsum(lengths) - lengths
    places = np.arange(lengths.sum()) + np.repeat(links.offset[order] - begins, lengths)
    offset = np.append(begins, lengths.sum()).astype(np.int64)
    return links._replace(offset=offset, link=links.link[places])
