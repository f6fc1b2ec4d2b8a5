"""Aggregate rate of the processes of a node: max-rate model of Gropp et al."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class NodeRates:
    """Unidirectional rates of a node in bytes/s."""

    #: Rate of the node, of its first process and of each further process in bytes/s.
    r_n: float
    r_b: float
    r_i: float
    #: Largest number of processes, or GPUs, of a node that was measured; the rates are not validated beyond it.
    most_processes: int


def node_rate_bytes_per_s(processes: ArrayLike, r_n: float, r_b: float, r_i: float) -> NDArray[np.float64]:
    """Return the aggregate rate of a node in the refined max-rate model.

    Gropp, Olson, Samfass, "Modeling MPI communication performance on SMP nodes", EuroMPI 2016.

    >>> node_rate_bytes_per_s([1, 2, 16], 5.7, 2.9, 1.0).tolist()
    [2.9, 3.9, 5.7]
    """
    rate: NDArray[np.float64] = np.minimum(r_n, r_b + (np.asarray(processes, dtype=np.float64) - 1) * r_i)
    return rate
