"""The model and the machine under which schedules are evaluated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.graphs import CongestionGraphs
from fabricast.pcie.models import Model, evaluate
from fabricast.pcie.tree import PcieTree

__all__ = ["Run"]


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
