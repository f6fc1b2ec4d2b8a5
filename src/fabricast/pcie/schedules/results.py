"""Results of schedule enumeration and search."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.models.catalogue import Model
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.topology.tree import PcieTree

Mode = Literal["synchronised", "asynchronous"]
SAME = 1e-9


@dataclass(frozen=True)
class SchedulePlan:
    """Schedule with its times."""

    order: tuple[tuple[int, ...], ...]  # Targets of each source in the order of its copies
    elapsed_s: float  # Time from the common start to the end of the last copy in s
    #: Time of each step in s (synchronised), or time until all k-th copies have ended in s (asynchronous).
    steps_s: tuple[float, ...]

    def text(self, names: Sequence[str]) -> str:
        """Return the steps as text such as ``0>1 1>0 | 0>2``."""
        steps = itertools.zip_longest(*self.order)
        return " | ".join(
            " ".join(f"{names[s]}>{names[t]}" for s, t in enumerate(step) if t is not None) for step in steps
        )


@dataclass(frozen=True)
class ScheduleSearch:
    """Result of an enumeration or search of the schedules of a pattern."""

    mode: Mode  # Whether all sources start each step together, or independently: 'synchronised', 'asynchronous'
    schedules: int  # Number of schedules of the pattern
    bound_s: float  # Proved lower bound on the time of all schedules in s
    best: tuple[SchedulePlan, ...]  # Fastest evaluated schedules, in ascending order of time
    naive: SchedulePlan  # Schedule in the order in which the pattern lists its copies
    elapsed_s: NDArray[np.float64] | None  # Times of all schedules in s by schedule number; None after a search
    worst: SchedulePlan | None  # Slowest schedule; None after a search
    evaluated: int  # Number of evaluated schedules

    @property
    def gap(self) -> float:
        """Relative distance of the best schedule from the proved optimum or lower bound."""
        floor = self.best[0].elapsed_s if self.elapsed_s is not None else self.bound_s
        return self.best[0].elapsed_s / floor - 1

    @property
    def ties(self) -> int | None:
        """Number of schedules that are as fast as the fastest; None after a search."""
        if self.elapsed_s is None:
            return None
        return int((self.elapsed_s <= self.elapsed_s.min() * (1 + SAME)).sum())

    def rank_of(self, elapsed_s: float) -> int | None:
        """Return 1 plus the number of faster schedules, or None after a search."""
        if self.elapsed_s is None:
            return None
        return 1 + int((self.elapsed_s < elapsed_s * (1 - SAME)).sum())


@dataclass(frozen=True)
class Run:
    """Topology, model and parameters for the evaluation of schedules."""

    tree: PcieTree
    model: Model
    bandwidth_bytes_per_s: float
    tau: float
    crossing_cost: float
    latency_s: float
    threads: int

    def evaluate(self, graphs: CongestionGraphs, *, after: NDArray[np.int64] | None = None, first: bool = False):  # type: ignore[no-untyped-def]
        """Evaluate graphs with this model and topology."""
        return evaluate(
            self.tree,
            graphs,
            self.model,
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s,
            tau=self.tau,
            crossing_cost=self.crossing_cost,
            threads=self.threads,
            after=after,
            latency_s=self.latency_s,
            first_phase_only=first,
        )
