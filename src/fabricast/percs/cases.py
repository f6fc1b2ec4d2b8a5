"""Study cases: workloads, mappings, gateways, parallel links and placements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import unknown_name
from fabricast.core.seeds import random_generator
from fabricast.percs.loads import LinkLoads, Routing, Traffic, count_traffic, route_each
from fabricast.percs.mappings import PLACEMENTS, RANDOM_MAPPINGS, map_tasks, place
from fabricast.percs.network import GATEWAYS, Gateway, TwoLevelNetwork, percs
from fabricast.percs.workloads import Workload, multicast, stencil

_KIB, _MIB = 1024.0, 2.0**20
#: Grids and message sizes. 2D grids and all workloads on 300 supernodes are [assumed]; 4D-64 is from the SC11 slides.
WORKLOADS: dict[str, Workload] = {
    one.name: one
    for one in (
        stencil("2D-64", (256, 256), 64 * _KIB),
        stencil("4D-64", (16, 16, 16, 16), 2 * _MIB),
        multicast("MChalf-64", (32, 32, 64), _MIB),
        multicast("MCnear-64", (65536,), _MIB, targets="near"),
        multicast("MCrand-64", (65536,), _MIB, targets="rand"),
        multicast("MCstride-64", (65536,), _MIB, targets="stride"),
        stencil("2D-300", (480, 640), _MIB),
        stencil("4D-300", (20, 20, 24, 32), _MIB),
        multicast("MChalf-300", (48, 80, 80), _MIB),
    )
}
_BLOCKED = ("DEF", "BNM", "BDM", "BSM", "RNM", "RDM")
_IN_A_ROW = ("DEF", "RNMu", "RDMu")
#: Random mappings of rank-order chunks, in addition to random mappings of blocks: the slides do not specify either.
_CHUNKS = ("RNMu", "RDMu")
_SENSITIVE_SEEDS, _CHUNK_SEEDS = 3, 10


@dataclass(frozen=True)
class Case:
    """Workload, mapping and network of one case."""

    workload: str  # Key of `WORKLOADS`
    mapping: str  # One of `fabricast.percs.mappings.MAPPINGS`
    #: See `fabricast.percs.network.TwoLevelNetwork`.
    gateway: Gateway = "mod"
    multiplicity: int = 1
    placement: str = "whole"  # ``whole`` if the job fills the machine; otherwise a placement on 512 supernodes
    seed: int | None = None  # Index of the random mapping or placement; None if neither is random
    wrap: bool = True  # Whether the grid is a torus
    turned: bool = False  # Whether the sides of node blocks are reversed

    @property
    def supernodes(self) -> int:
        """Number of supernodes that the job fills."""
        return supernodes_of(self.workload)

    def network(self) -> TwoLevelNetwork:
        """Return the network of the case."""
        groups = self.supernodes if self.placement == "whole" else 512
        return percs(groups, gateway=self.gateway, multiplicity=self.multiplicity)

    def name(self, routing: Routing) -> str:
        """Return the identifier of the case under a routing."""
        parts = [self.workload, self.mapping, routing, self.gateway, f"m{self.multiplicity}"]
        parts += [self.placement] if self.placement != "whole" else []
        parts += [] if self.wrap else ["open"]
        parts += ["turned"] if self.turned else []
        return ".".join(parts + ([] if self.seed is None else [f"s{self.seed}"]))


def supernodes_of(name: str) -> int:
    """Return the number of supernodes in the name of a workload.

    >>> supernodes_of("4D-300")
    300
    """
    return int(name.rsplit("-", 1)[1])


def check_pattern(name: str) -> None:
    """Check that a name is a workload or a file name with an extension.

    >>> check_pattern("4D-64")
    >>> check_pattern("bytes.csv")
    """
    if name not in WORKLOADS and not Path(name).suffix and not Path(name).is_dir():
        raise unknown_name("pattern", name, WORKLOADS, otherwise=" or a .csv, .parquet, .mtx or .prof file")


def workload(name: str) -> Workload:
    """Return the workload of the study with this name."""
    if name not in WORKLOADS:
        raise unknown_name("workload", name, WORKLOADS)
    return WORKLOADS[name]


def grid_cases(workloads: list[str], seeds: int, *, sensitivity: bool) -> Iterator[Case]:
    """Yield the cases of the study.

    Each case is evaluated under both routings.
    """

    def seeded(case: Case, count: int) -> Iterator[Case]:
        if case.mapping in RANDOM_MAPPINGS or case.placement.startswith("random"):
            yield from (replace(case, seed=number) for number in range(count))
        else:
            yield case

    few = min(seeds, _SENSITIVE_SEEDS)
    for name in workloads:
        pattern = workload(name)
        mappings: tuple[str, ...] = _BLOCKED if len(pattern.grid) > 1 else _IN_A_ROW
        if sensitivity and len(pattern.grid) > 1:
            mappings += _CHUNKS
        for mapping in mappings:
            chunks = mapping in _CHUNKS and len(pattern.grid) > 1
            yield from seeded(Case(name, mapping), min(seeds, _CHUNK_SEEDS) if chunks else seeds)
            if sensitivity and len(pattern.grid) > 1:
                for gateway in GATEWAYS[1:]:
                    yield from seeded(Case(name, mapping, gateway=gateway), few)
                if mapping != "DEF" and not chunks:
                    yield from seeded(Case(name, mapping, turned=True), few)
                if name.endswith("-64"):
                    yield from seeded(Case(name, mapping, multiplicity=8), few)
                    yield from seeded(Case(name, mapping, wrap=False), few)
                if name == "4D-64":
                    for placement in PLACEMENTS:
                        yield from seeded(Case(name, mapping, placement=placement), few)


def case_router(case: Case, root_seed: int) -> NDArray[np.int32]:
    """Return the router of every task.

    The random numbers do not depend on gateways and parallel links.
    """
    pattern, network = workload(case.workload), case.network()
    generator = random_generator(root_seed, f"percs.{case.workload}.{case.mapping}.{case.seed}")
    job = network if case.placement == "whole" else percs(case.supernodes)
    router = map_tasks(case.mapping, pattern, job, generator, turned=case.turned)
    if case.placement == "whole":
        return router
    chosen = place(
        case.placement, job.routers, network, random_generator(root_seed, f"percs.{case.placement}.{case.seed}")
    )
    return np.ascontiguousarray(chosen[router])


def _case_traffic(case: Case, root_seed: int) -> tuple[Traffic, int]:
    """Return the traffic of a case and its number of messages."""
    pattern = replace(workload(case.workload), wrap=case.wrap)
    return count_traffic(pattern, case_router(case, root_seed), case.network(), seed=root_seed % 2**32)


def without_gateways(case: Case) -> Case:
    """Return the case with default gateways and links, which has the same traffic."""
    return replace(case, gateway="mod", multiplicity=1)


def evaluate_alike(cases: Sequence[Case], root_seed: int) -> list[tuple[int, dict[Routing, LinkLoads]]]:
    """Return messages and loads under both routings for cases with equal traffic."""
    traffic, messages = _case_traffic(cases[0], root_seed)
    networks = [case.network() for case in cases]
    return [(messages, route_each(traffic, network)) for network in networks]
