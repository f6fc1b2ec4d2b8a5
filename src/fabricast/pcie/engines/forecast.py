"""Programs that copy between GPUs, and the rates they reach together: engines, barriers and order beside links.

A GPU executes one peer copy at a time, and the measuring program orders copies. Both decide rates as soon as a GPU
takes part in several copies; sharing on the tree alone then forecasts up to twice what is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.pcie.engines.links import LinkRates, SharedLimit, links_of
from fabricast.pcie.graphs.programs import CopyProgram
from fabricast.pcie.topology.tree import PcieTree

if TYPE_CHECKING:
    from fabricast.pcie.engines.kernels.engines import Links

__all__ = [
    "MOST_FLOWS",
    "CopyTimes",
    "TotalRate",
    "check_flows",
    "copy_times",
    "rate_alone",
    "total_rate",
    "total_rates",
]

#: Flows beyond are no probe: the time of a forecast grows with their square.
MOST_FLOWS = 4096


@dataclass(frozen=True)
class TotalRate:
    """Rate of all flows together.

    Parameters
    ----------
    bytes_per_s, low_bytes_per_s, high_bytes_per_s : float
        Median, least and largest over draws of the order and the pauses; equal where nothing is random.
    flow_bytes_per_s : ndarray of float64, shape (flows,)
        Rate of each flow until its last copy ends, median over draws.
    """

    bytes_per_s: float
    low_bytes_per_s: float
    high_bytes_per_s: float
    flow_bytes_per_s: NDArray[np.float64]


@dataclass(frozen=True)
class CopyTimes:
    """When copies end, in s.

    Parameters
    ----------
    end_s, earliest_s, latest_s : ndarray of float64, shape (copies,)
        Mean, least and largest over draws of the order and the pauses; equal where nothing is random.
    """

    end_s: NDArray[np.float64]
    earliest_s: NDArray[np.float64]
    latest_s: NDArray[np.float64]


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
    """Forecast the rate that repeated copies of several flows reach together.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    flows : sequence of (int, int)
        Source and target of each flow as endpoint numbers, in the order in which the program issues them.
    program : CopyProgram
        Who executes copies, in which order.
    rates : LinkRates
        Of the machine.
    over_peer_links : bool, default False
        Whether copies take direct links of which the topology tells a rate.
    limits : sequence of SharedLimit, default ()
        What some flows carry together, such as those that read one memory.
    repeats : int, default 20
        Copies of each flow; all of one size, that does not matter.
    draws : int, default 9
        Runs with other random numbers, where the program has any.
    seed : int, default 0
        Of the first draw.

    Returns
    -------
    TotalRate
        Total rate with its range over draws.

    Raises
    ------
    InputError
        If there is no flow, or a flow has one end.

    References
    ----------
    Links share evenly; capacity of a direction is B - (B / Bd - 1) times the traffic of the other, with B one way
    alone and Bd each of two ways. Engines and barriers as found on public measurements of five machines
    (config/published/pcie_concurrent_copies.csv).

    Examples
    --------
    One source to a near and a far destination: one engine takes turns, so that both get half.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree = regular_tree("flat4x2", (2, 4))
    >>> rates = LinkRates(50e9, 50e9)
    >>> total = total_rate(tree, [(0, 1), (0, 4)], PROGRAMS["unordered_writes"], rates)
    >>> round(total.bytes_per_s / 1e9), bool((total.flow_bytes_per_s < 30e9).all())
    (50, True)
    """
    (found,) = total_rates(
        tree, flows, [program], rates, over_peer_links=over_peer_links, limits=limits, repeats=repeats, draws=draws,
        seed=seed,
    )  # fmt: skip
    return found


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
    """Forecast the rate of several flows under several programs, as `total_rate` does under one.

    Parameters
    ----------
    tree, flows, rates, over_peer_links, limits, repeats, draws, seed
        As for `total_rate`.
    programs : sequence of CopyProgram
        The programs.

    Returns
    -------
    list of TotalRate
        In the order of the programs.

    Raises
    ------
    InputError
        As `total_rate`.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> tree, rates = regular_tree("flat4x2", (2, 4)), LinkRates(50e9, 50e9)
    >>> one, other = total_rates(tree, [(0, 1), (0, 4)], list(PROGRAMS.values())[:2], rates)
    >>> one.bytes_per_s == total_rate(tree, [(0, 1), (0, 4)], PROGRAMS["ordered_writes"], rates).bytes_per_s
    True
    """
    check_flows(flows)
    size = np.full(len(flows), rates.one_way_bytes_per_s)
    links = links_of(tree, flows, rates, over_peer_links, limits)
    found = []
    for program in programs:
        ends_s = _ends_s(tree, links, flows, program, size, np.zeros(len(flows)), repeats, draws, seed)
        totals = len(flows) * repeats * size[0] / ends_s.max(axis=1)
        by_flow = np.median(repeats * size / ends_s, axis=0)
        found.append(TotalRate(float(np.median(totals)), float(totals.min()), float(totals.max()), by_flow))
    return found


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
    draws: int = 31,
    seed: int = 0,
) -> CopyTimes:
    """Forecast when each of several copies ends that a program executes once.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    flows : sequence of (int, int)
        Source and target of each copy as endpoint numbers, in the order in which the program issues them.
    program : CopyProgram
        Who executes copies, in which order.
    rates : LinkRates
        Of the machine.
    size_bytes, start_s : ndarray of float64, shape (copies,)
        Size of each copy, and when it is issued.
    over_peer_links : bool, default False
        Whether copies take direct links of which the topology tells a rate.
    limits : sequence of SharedLimit, default ()
        What some flows carry together, such as those that read one memory.
    draws : int, default 31
        Runs with other random numbers, where the program has any.
    seed : int, default 0
        Of the first draw.

    Returns
    -------
    CopyTimes
        Ends with their range over draws.

    Raises
    ------
    InputError
        If there is no copy, or a copy has one end.

    References
    ----------
    As for `total_rate`.

    Examples
    --------
    One engine executes one copy after the other; two sources share the link into their destination.

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
    links = links_of(tree, flows, rates, over_peer_links, limits)
    found = _ends_s(tree, links, flows, program, size_bytes, start_s, 1, draws, seed)
    low, high = found.min(axis=0), found.max(axis=0)
    # The mean of equal numbers may be rounded past them.
    return CopyTimes(np.clip(found.mean(axis=0), low, high), low, high)


def rate_alone(tree: PcieTree, flow: tuple[int, int], rates: LinkRates, *, over_peer_links: bool = False) -> float:
    """Return the rate of a copy alone in bytes/s: that of its narrowest link.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> rate_alone(regular_tree("flat4x2", (2, 4)), (0, 4), LinkRates(50e9, 50e9, crossing_bytes_per_s=40e9))
    40000000000.0
    """
    links = links_of(tree, [flow], rates, over_peer_links)
    return float(links.capacity[links.link].min())


def _ends_s(
    tree: PcieTree, links: Links, flows: Sequence[tuple[int, int]], program: CopyProgram, size: NDArray[np.float64],
    start_s: NDArray[np.float64], repeats: int, draws: int, seed: int,
) -> NDArray[np.float64]:  # fmt: skip
    """Return when the last copy of each flow ends, a row a draw."""
    from fabricast.pcie.engines.kernels.engines import Program, run_program

    ends = np.array(flows, dtype=np.int64)
    others = np.array([tree.vertex(name).host_memory or tree.vertex(name).network_card for name in tree.endpoint_names])
    alone = np.minimum.reduceat(links.capacity[links.link], links.offset[:-1])
    executed = Program(
        program.engines(ends, others), program.barriers(ends, others), size, start_s, repeats, program.random_turns,
        program.switch_share,
    )  # fmt: skip
    runs = range(draws if program.is_random else 1)
    return np.stack([run_program(links, executed, tree.routes.endpoints, alone, seed + draw) for draw in runs])


def check_flows(flows: Sequence[tuple[int, int]]) -> None:
    """Refuse no flows, too many, and flows from an endpoint to itself."""
    if not flows or len(flows) > MOST_FLOWS:
        raise InputError(f"{len(flows)} flows, expected 1 to {MOST_FLOWS:,}")
    own = next((flow for flow in flows if flow[0] == flow[1]), None)
    if own is not None:
        raise InputError(f"flow {own[0]} to {own[1]}, expected two endpoints")
