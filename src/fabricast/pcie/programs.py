"""Programs that copy between GPUs, and the rates they reach together: engines, barriers and order beside links.

A GPU executes one peer copy at a time, and the measuring program orders copies. Both decide rates as soon as a GPU
takes part in several copies; sharing on the tree alone then forecasts up to twice what is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError, unknown_name
from fabricast.pcie.packet_hardware import reverse_links
from fabricast.pcie.tree import PcieTree

__all__ = ["PROGRAMS", "CopyProgram", "LinkRates", "TotalRate", "check_flows", "program_of", "total_rate"]

#: Flows beyond are no probe: the time of a forecast grows with their square.
MOST_FLOWS = 4096


@dataclass(frozen=True)
class CopyProgram:
    """How a program executes the copies of a graph, each flow again and again.

    Parameters
    ----------
    name, text : str
        Identifier and description.
    executor : {'source', 'target', 'none'}
        Whose engine executes a copy: that of the source for writes, of the reader for reads, or any number at a time.
    serialised : bool
        Whether copies into one destination wait for each other, in the order in which they are issued.
    random_turns : bool
        Whether an engine takes ready copies at random, or in turns.
    switch_share : float
        Mean pause of an engine that changes from one flow to another, as a share of a copy alone; exponential.
    """

    name: str
    text: str
    executor: Literal["source", "target", "none"]
    serialised: bool
    random_turns: bool
    switch_share: float

    @property
    def is_random(self) -> bool:
        """Whether two runs may differ."""
        return self.random_turns or self.switch_share > 0

    def engines(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return whose engine executes each copy, given source and target in each row; -1 for none."""
        column = {"source": 0, "target": 1}.get(self.executor)
        return np.full(len(ends), -1, dtype=np.int64) if column is None else np.ascontiguousarray(ends[:, column])

    def barriers(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the destination for which each copy waits its turn; -1 for none."""
        return np.ascontiguousarray(ends[:, 1]) if self.serialised else np.full(len(ends), -1, dtype=np.int64)


#: The pause of ordered writes is the one number that was fitted, to all-to-all copies of four machines.
PROGRAMS = {
    program.name: program
    for program in (
        CopyProgram(
            "ordered_writes",
            "writes by the source, copies into one destination wait for each other, as with tensor.copy_ of PyTorch",
            "source", True, False, 0.05,
        ),
        CopyProgram(
            "unordered_reads", "reads by the destination without barriers, as p2pmark issues them",
            "target", False, True, 0.0,
        ),
        CopyProgram(
            "unordered_writes", "writes by the source without barriers, on own streams", "source", False, True, 0.0
        ),
        CopyProgram(
            "independent", "every copy has an engine of its own: sharing on the tree alone", "none", False, False, 0.0
        ),
    )
}  # fmt: skip
#: What measuring programs are called in files.
_ALIASES = {
    "torch": "ordered_writes", "pytorch": "ordered_writes", "p2pmark": "unordered_reads",
    "nvbandwidth": "unordered_writes", "fabricast": "unordered_writes", "host copies": "independent",
}  # fmt: skip


@dataclass(frozen=True)
class LinkRates:
    """What one copy alone, and two opposite ones, tell of the links of a machine.

    Parameters
    ----------
    one_way_bytes_per_s : float
        Rate of a copy alone.
    two_way_bytes_per_s : float
        Rate of each of two opposite copies between the same endpoints.
    crossing_bytes_per_s : float or None, default None
        Rate of a copy alone that crosses the root complex, where it is less.
    """

    one_way_bytes_per_s: float
    two_way_bytes_per_s: float
    crossing_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        one, two = self.one_way_bytes_per_s, self.two_way_bytes_per_s
        if not 0 < one < 1e13 or not one / 2 <= two <= one * (1 + 1e-9):
            raise InputError(
                f"{one / 1e9:.4g} GB/s one way and {two / 1e9:.4g} GB/s each of two ways, expected a rate and from "
                "half of it to all of it"
            )

    @property
    def duplex_cost(self) -> float:
        """What a byte in one direction takes from the other, in bytes: acknowledgements and credits."""
        return self.one_way_bytes_per_s / min(self.two_way_bytes_per_s, self.one_way_bytes_per_s) - 1.0


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


def program_of(name: str) -> CopyProgram:
    """Return a program by its name, or by that of a measuring program.

    Examples
    --------
    >>> program_of("torch").name
    'ordered_writes'
    """
    known = _ALIASES.get(name.strip().lower(), name.strip())
    if known not in PROGRAMS:
        raise unknown_name("program", name, [*PROGRAMS, *_ALIASES])
    return PROGRAMS[known]


def total_rate(
    tree: PcieTree,
    flows: Sequence[tuple[int, int]],
    program: CopyProgram,
    rates: LinkRates,
    *,
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

    >>> from fabricast.pcie.regular_tree import regular_tree
    >>> tree = regular_tree("flat4x2", (2, 4))
    >>> rates = LinkRates(50e9, 50e9)
    >>> total = total_rate(tree, [(0, 1), (0, 4)], PROGRAMS["unordered_writes"], rates)
    >>> round(total.bytes_per_s / 1e9), bool((total.flow_bytes_per_s < 30e9).all())
    (50, True)
    """
    from fabricast.pcie.kernels.engines import Links, Program, run_program

    check_flows(flows)
    routes = tree.routes
    pairs = np.array([source * routes.endpoints + target for source, target in flows])
    counts = routes.offset[pairs + 1] - routes.offset[pairs]
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    link = np.concatenate([routes.link[routes.offset[pair] : routes.offset[pair + 1]] for pair in pairs])
    capacity = _capacities(tree, rates)
    alone = np.array([capacity[link[offset[f] : offset[f + 1]]].min() for f in range(len(flows))])
    links = Links(offset, link.astype(np.int64), reverse_links(tree), capacity, rates.duplex_cost)
    ends = np.array(flows, dtype=np.int64)
    size = np.full(len(flows), rates.one_way_bytes_per_s)
    kernel = Program(
        program.engines(ends), program.barriers(ends), size, repeats, program.random_turns, program.switch_share,
    )  # fmt: skip
    runs = range(draws if program.is_random else 1)
    found = np.stack([run_program(links, kernel, routes.endpoints, alone, seed + draw) for draw in runs])
    totals = len(flows) * repeats * size[0] / found.max(axis=1)
    return TotalRate(
        float(np.median(totals)), float(totals.min()), float(totals.max()), np.median(repeats * size / found, axis=0)
    )


def check_flows(flows: Sequence[tuple[int, int]]) -> None:
    """Refuse no flows, too many, and flows from an endpoint to itself."""
    if not flows or len(flows) > MOST_FLOWS:
        raise InputError(f"{len(flows)} flows, expected 1 to {MOST_FLOWS:,}")
    own = next((flow for flow in flows if flow[0] == flow[1]), None)
    if own is not None:
        raise InputError(f"flow {own[0]} to {own[1]}, expected two endpoints")


def _capacities(tree: PcieTree, rates: LinkRates) -> NDArray[np.float64]:
    """Return the capacity of each link in bytes/s; ports of root complexes carry what crosses them alone."""
    capacity = tree.routes.capacity * rates.one_way_bytes_per_s
    if rates.crossing_bytes_per_s is None or rates.crossing_bytes_per_s >= rates.one_way_bytes_per_s:
        return capacity
    at_root = np.array(
        ["root_complex" in (tree.vertex(lower).kind, tree.vertex(upper).kind) for lower, upper, *_ in tree.link_names]
    )
    return np.where(at_root, np.minimum(capacity, rates.crossing_bytes_per_s), capacity)
