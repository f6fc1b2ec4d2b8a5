"""Predicted rates and completion times of concurrent copies with engines and barriers.

A GPU executes one peer copy at a time, and the benchmark program issues copies in some order. As soon as a GPU is
the source or target of several copies, both determine the rates. A model with link sharing only then predicts
up to twice the measured rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.pcie.engines.links import LinkNames, LinkRates, SharedLimit, links_of, named_links_of
from fabricast.pcie.graphs.programs import CopyProgram
from fabricast.pcie.topology.paths import link_labels
from fabricast.pcie.topology.tree import PcieTree

if TYPE_CHECKING:
    from fabricast.pcie.engines.kernels.engines import Links

__all__ = [
    "MOST_FLOWS",
    "CopyTimes",
    "TotalRate",
    "check_flows",
    "copy_times",
    "isolated_rate",
    "total_rate",
    "total_rates",
]

#: Upper limit on the number of flows: the time of a prediction grows with its square.
MOST_FLOWS = 4096


@dataclass(frozen=True)
class TotalRate:
    """Aggregate rate of concurrent flows.

    Parameters
    ----------
    bytes_per_s, low_bytes_per_s, high_bytes_per_s : float
        Median, minimum and maximum over random draws of order and pauses, in bytes/s; equal for a deterministic
        program.
    flow_bytes_per_s : ndarray of float64, shape (flows,)
        Mean rate of each flow until its last copy ends in bytes/s, median over draws.
    """

    bytes_per_s: float
    low_bytes_per_s: float
    high_bytes_per_s: float
    flow_bytes_per_s: NDArray[np.float64]


@dataclass(frozen=True)
class CopyTimes:
    """Completion times of copies in seconds.

    Parameters
    ----------
    end_s, earliest_s, latest_s : ndarray of float64, shape (copies,)
        Mean, minimum and maximum over random draws of order and pauses; equal for a deterministic program.
    bottleneck : tuple of str, one per copy
        Label of the link of its route at which each copy waits longest, for its share or for a copy engine of that
        endpoint; empty tuple unless requested.
    caused_by : tuple of str, one per copy
        Name of the shared resource that limits the copy there, such as host memory; empty text otherwise.
    """

    end_s: NDArray[np.float64]
    earliest_s: NDArray[np.float64]
    latest_s: NDArray[np.float64]
    bottleneck: tuple[str, ...] = ()
    caused_by: tuple[str, ...] = ()


def total_rate(
    tree: PcieTree,
    flows: Sequence[tuple[int, int]],
    program: CopyProgram,
    rates: LinkRates,
    *,
    over_peer_links: bool = False,
    limits: Sequence[SharedLimit] = (),
    repeats: int = 20,
    draws: int = 9,
    seed: int = 0,
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
    rates : LinkRates
        Calibrated link rates of the machine.
    over_peer_links : bool, default False
        Whether copies use the direct links whose bandwidth the topology specifies.
    limits : sequence of SharedLimit, default ()
        Limits on the aggregate rate of some flows, such as all flows that read one memory.
    repeats : int, default 20
        Copies of each flow. All copies have the same size, which does not affect the rate.
    draws : int, default 9
        Number of runs with different random numbers; a deterministic program runs once.
    seed : int, default 0
        Seed of the first draw; each further draw adds 1.

    Returns
    -------
    TotalRate
        Aggregate rate with its range over draws.

    Raises
    ------
    InputError
        If there are no flows or more than `MOST_FLOWS`, or a flow has the same source and target.

    References
    ----------
    Links are shared max-min fairly. The capacity of a direction is B - (B / Bd - 1) times the traffic in the reverse
    direction, with B the rate of an isolated copy and Bd the rate of each copy of a bidirectional pair. Engines and
    barriers are inferred from public measurements of five machines (config/published/pcie_concurrent_copies.csv).

    Examples
    --------
    One source copies to a near and a far destination. Its single engine alternates; each flow gets half the rate.

    >>> from fabricast.pcie.graphs.programs import PROGRAMS
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("flat4x2", (2, 4))
    >>> rates = LinkRates(50e9, 50e9)
    >>> total = total_rate(tree, [(0, 1), (0, 4)], PROGRAMS["unordered_writes"], rates)
    >>> round(total.bytes_per_s / 1e9), bool((total.flow_bytes_per_s < 30e9).all())
    (50, True)
    """
    (total,) = total_rates(
        tree, flows, [program], rates, over_peer_links=over_peer_links, limits=limits, repeats=repeats, draws=draws,
        seed=seed,
    )  # fmt: skip
    return total


def total_rates(
    tree: PcieTree,
    flows: Sequence[tuple[int, int]],
    programs: Sequence[CopyProgram],
    rates: LinkRates,
    *,
    over_peer_links: bool = False,
    limits: Sequence[SharedLimit] = (),
    repeats: int = 20,
    draws: int = 9,
    seed: int = 0,
) -> list[TotalRate]:
    """Predict the aggregate rate of several flows under several programs.

    Parameters
    ----------
    tree, flows, rates, over_peer_links, limits, repeats, draws, seed
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
    >>> tree, rates = regular_tree("flat4x2", (2, 4)), LinkRates(50e9, 50e9)
    >>> one, other = total_rates(tree, [(0, 1), (0, 4)], list(PROGRAMS.values())[:2], rates)
    >>> one.bytes_per_s == total_rate(tree, [(0, 1), (0, 4)], PROGRAMS["ordered_writes"], rates).bytes_per_s
    True
    """
    check_flows(flows)
    size = np.full(len(flows), rates.one_way_bytes_per_s)
    links = links_of(tree, flows, rates, over_peer_links, limits)
    results = []
    for program in programs:
        ends_s, _ = _ends_s(tree, links, flows, program, size, np.zeros(len(flows)), repeats, draws, seed)
        totals = len(flows) * repeats * size[0] / ends_s.max(axis=1)
        by_flow = np.median(repeats * size / ends_s, axis=0)
        results.append(TotalRate(float(np.median(totals)), float(totals.min()), float(totals.max()), by_flow))
    return results


def copy_times(
    tree: PcieTree,
    flows: Sequence[tuple[int, int]],
    program: CopyProgram,
    rates: LinkRates,
    *,
    size_bytes: NDArray[np.float64],
    start_s: NDArray[np.float64],
    over_peer_links: bool = False,
    limits: Sequence[SharedLimit] = (),
    draws: int = 101,
    seed: int = 0,
    explain: bool = False,
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
    rates : LinkRates
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

    Returns
    -------
    CopyTimes
        Completion times with their range over draws. If the program does not define an order of copies, the order of
        `flows` does not affect them.

    Raises
    ------
    InputError
        If there are no copies or more than `MOST_FLOWS`, or a copy has the same source and target.

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
    >>> rates, size, start = LinkRates(50e9, 50e9), np.full(2, 50e9), np.zeros(2)
    >>> independent = PROGRAMS["independent"]
    >>> copy_times(tree, [(0, 1), (2, 1)], independent, rates, size_bytes=size, start_s=start).end_s.tolist()
    [2.0, 2.0]
    >>> in_turns = replace(PROGRAMS["unordered_writes"], random_turns=False)
    >>> copy_times(tree, [(0, 1), (0, 4)], in_turns, rates, size_bytes=size, start_s=start).end_s.tolist()
    [1.0, 2.0]
    """
    check_flows(flows)
    links, names = named_links_of(tree, flows, rates, over_peer_links, limits)
    queues = _queues(tree, links, names, flows, program) if explain else None
    ends_s, waited_s = _ends_s(tree, links, flows, program, size_bytes, start_s, 1, draws, seed, queues)
    low, high = ends_s.min(axis=0), ends_s.max(axis=0)
    explanation = _explanation(tree, names, waited_s) if explain else ((), ())
    # Rounding can move the mean of equal numbers outside their range.
    return CopyTimes(np.clip(ends_s.mean(axis=0), low, high), low, high, *explanation)


def isolated_rate(tree: PcieTree, flow: tuple[int, int], rates: LinkRates, *, over_peer_links: bool = False) -> float:
    """Return the rate of an isolated copy in bytes/s, limited by its narrowest link.

    Examples
    --------
    >>> from fabricast.pcie.graphs.programs import PROGRAMS
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> isolated_rate(regular_tree("flat4x2", (2, 4)), (0, 4), LinkRates(50e9, 50e9, crossing_bytes_per_s=40e9))
    40000000000.0
    """
    links = links_of(tree, [flow], rates, over_peer_links)
    return float(links.capacity[links.link].min())


def _ends_s(
    tree: PcieTree, links: Links, flows: Sequence[tuple[int, int]], program: CopyProgram, size: NDArray[np.float64],
    start_s: NDArray[np.float64], repeats: int, draws: int, seed: int, queues: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """Return the completion time of each flow in s, shape (draws, flows), and its waiting time at each link.

    `queues` is the link at which each flow waits for its engine; without it, waiting times are not determined.
    """
    from fabricast.pcie.engines.kernels.engines import Program, Waits, run_program

    pairs = np.array(flows, dtype=np.int64)
    others = np.array([tree.vertex(name).host_memory or tree.vertex(name).network_card for name in tree.endpoint_names])
    alone = np.minimum.reduceat(links.capacity[links.link], links.offset[:-1])
    # Random numbers must not depend on the order of copies that the program does not order.
    order = np.arange(len(flows))
    if program.random_turns and not program.serialised:
        order = np.lexsort((start_s, size, pairs[:, 1], pairs[:, 0]))
    executed = Program(
        program.engines(pairs, others)[order], program.barriers(pairs, others)[order], size[order], start_s[order],
        repeats, program.random_turns, program.switch_share,
    )  # fmt: skip
    sorted_links = _in_order(links, order)
    waits = Waits(np.zeros((0, 0)), np.zeros(0, dtype=np.int64))
    if queues is not None:
        waits = Waits(np.zeros((len(flows), links.capacity.size)), queues[order])
    runs = range(draws if program.is_random else 1)
    endpoints, back = tree.routes.endpoints, np.argsort(order)
    ends_s = [run_program(sorted_links, executed, endpoints, alone[order], seed + draw, waits) for draw in runs]
    return np.stack(ends_s)[:, back], waits.waited_s[back] if queues is not None else waits.waited_s


def _in_order(links: Links, order: NDArray[np.int64]) -> Links:
    """Return links with their flows in another order."""
    lengths = np.diff(links.offset)[order]
    begins = np.cumsum(lengths) - lengths
    places = np.arange(lengths.sum()) + np.repeat(links.offset[order] - begins, lengths)
    offset = np.append(begins, lengths.sum()).astype(np.int64)
    return links._replace(offset=offset, link=links.link[places], crosses=links.crosses[order])


def _queues(
    tree: PcieTree, links: Links, names: LinkNames, flows: Sequence[tuple[int, int]], program: CopyProgram
) -> NDArray[np.int64]:
    """Return the link at which each flow waits for its engine: the first of its route for writes, else the last."""
    is_first = program.executor == "source"
    queues = []
    for flow in range(len(flows)):
        route = links.link[links.offset[flow] : links.offset[flow + 1]]
        on_tree = route[route < names.tree_links]
        queues.append(route[0] if on_tree.size == 0 else on_tree[0 if is_first else -1])
    return np.array(queues, dtype=np.int64)


def _explanation(
    tree: PcieTree, names: LinkNames, waited_s: NDArray[np.float64]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the label of the link at which each flow waits longest, and the shared resource that limits it there."""
    labels = link_labels(tree)
    bottlenecks, causes = [], []
    for place, link in zip(names.places, waited_s.argmax(axis=1).tolist(), strict=True):
        on_tree = link < names.tree_links
        bottlenecks.append(labels[link] if on_tree else labels[place] if place >= 0 else names.names[link])
        causes.append("" if on_tree or place < 0 else names.names[link])
    return tuple(bottlenecks), tuple(causes)


def check_flows(flows: Sequence[tuple[int, int]]) -> None:
    """Raise `InputError` for no flows, too many flows, or equal source and target."""
    if not flows or len(flows) > MOST_FLOWS:
        raise InputError(f"number of flows is {len(flows)}, expected 1 to {MOST_FLOWS:,}")
    loop = next((flow for flow in flows if flow[0] == flow[1]), None)
    if loop is not None:
        raise InputError(f"flow is {loop[0]} to {loop[1]}, expected two different endpoints")
