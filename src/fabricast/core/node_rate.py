"""The rate that processes of one node reach together: the max-rate of Gropp et al., for other studies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["NodeRates", "node_rate_bytes_per_s"]


@dataclass(frozen=True)
class NodeRates:
    """Rates of a node in bytes/s, one way.

    Parameters
    ----------
    r_n, r_b, r_i : float
        Rate of the node, of the first process and of each further one.
    most_processes : int
        Most processes, or GPUs, of a node that were measured together; beyond them nothing is known.
    """

    r_n: float
    r_b: float
    r_i: float
    most_processes: int


def node_rate_bytes_per_s(processes: ArrayLike, r_n: float, r_b: float, r_i: float) -> NDArray[np.float64]:
    """Return the refined max-rate of a node.

    Parameters
    ----------
    processes : array-like
        Processes, or GPUs, that send.
    r_n, r_b, r_i : float
        Rate of the node, of the first process and of each further one, in bytes/s.

    Returns
    -------
    ndarray of float64
        ``min(r_n, r_b + (processes - 1) r_i)``.

    References
    ----------
    Gropp, Olson, Samfass, "Modeling MPI communication performance on SMP nodes", EuroMPI 2016.

    Examples
    --------
    >>> node_rate_bytes_per_s([1, 2, 16], 5.7, 2.9, 1.0).tolist()
    [2.9, 3.9, 5.7]
    """
    rate: NDArray[np.float64] = np.minimum(r_n, r_b + (np.asarray(processes, dtype=np.float64) - 1) * r_i)
    return rate
