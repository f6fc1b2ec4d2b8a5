"""Schedules and what is known of all of them."""

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

__all__ = ["SAME", "Mode", "Run", "SchedulePlan", "ScheduleSearch"]

Mode = Literal["synchronised", "asynchronous"]
SAME = 1e-9


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
        return int((self.elapsed_s <= self.elapsed_s.min() * (1 + SAME)).sum())

    def rank_of(self, elapsed_s: float) -> int | None:
        """Return one more than the number of faster schedules; None if not enumerated."""
        if self.elapsed_s is None:
            return None
        return 1 + int((self.elapsed_s < elapsed_s * (1 - SAME)).sum())


@dataclass(frozen=True)
class Run:
    """Parameters of the model under which schedules are evaluated."""

    tree: PcieTree
    model: Model
    bandwidth_bytes_per_s: float
    tau: float
    crossing_cost: float
    latency_s: float
    threads: int

    def evaluate(self, graphs: CongestionGraphs, *, after: NDArray[np.int64] | None = None, first: bool = False):  # type: ignore[no-untyped-def]
        """Evaluate graphs with the model and the machine of this search."""
        return evaluate(
            self.tree, graphs, self.model, bandwidth_bytes_per_s=self.bandwidth_bytes_per_s, tau=self.tau,
            crossing_cost=self.crossing_cost, threads=self.threads, after=after, latency_s=self.latency_s,
            first_phase_only=first,
        )  # fmt: skip
