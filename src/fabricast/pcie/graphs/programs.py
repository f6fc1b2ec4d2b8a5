"""Copy programs: engines, barriers and order of the copies of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import unknown_name

__all__ = ["PROGRAMS", "CopyProgram", "program_of"]


@dataclass(frozen=True)
class CopyProgram:
    """Rules by which a program executes the copies of a graph.

    Programs repeat each copy of a graph many times; the repetitions form a flow.

    Parameters
    ----------
    name, text : str
        Identifier and description.
    executor : {'source', 'target', 'none'}
        GPU whose copy engine executes a copy: the source (writes), the target (reads), or none if the number of
        concurrent copies is not limited by engines.
    serialised : bool
        Whether copies into one destination wait for each other, in the order in which they are issued.
    random_turns : bool
        Whether an engine selects ready copies at random instead of in round-robin order.
    switch_share : float
        Mean pause of an engine between copies of different flows, as a fraction of the duration of an isolated copy.
        Pauses are exponentially distributed.
    """

    name: str
    text: str
    executor: Literal["source", "target", "none"]
    serialised: bool
    random_turns: bool
    switch_share: float

    @property
    def is_random(self) -> bool:
        """True if repeated runs may differ."""
        return self.random_turns or self.switch_share > 0

    def engines(self, ends: NDArray[np.int64], others: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return the endpoint whose engine executes each copy; -1 if no engine limits it.

        Copies with host memory or a network card are not limited: GPUs use separate engines for copies of host memory,
        and network cards execute copies themselves.

        Parameters
        ----------
        ends : ndarray of int64, shape (copies, 2)
            Endpoint numbers of source and target.
        others : ndarray of bool, shape (endpoints,), optional
            Endpoints that are not GPUs.
        """
        column = {"source": 0, "target": 1}.get(self.executor)
        if column is None:
            return np.full(len(ends), -1, dtype=np.int64)
        executors = np.ascontiguousarray(ends[:, column])
        return executors if others is None else np.where(others[ends].any(axis=1), -1, executors)

    def barriers(self, ends: NDArray[np.int64], others: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return the destination at which each copy waits for earlier copies, or -1.

        -1 means that a copy does not wait. The barrier is a stream of the destination GPU, so copies into host memory
        or network cards do not wait.

        Parameters
        ----------
        ends : ndarray of int64, shape (copies, 2)
            Endpoint numbers of source and target.
        others : ndarray of bool, shape (endpoints,), optional
            Endpoints that are not GPUs.
        """
        if not self.serialised:
            return np.full(len(ends), -1, dtype=np.int64)
        destinations = np.ascontiguousarray(ends[:, 1])
        return destinations if others is None else np.where(others[destinations], -1, destinations)


#: Copy programs by name. The pause of `ordered_writes` is fitted to all-to-all copies on four machines; it is the only
#: fitted value.
PROGRAMS = {
    program.name: program
    for program in (
        CopyProgram(
            "ordered_writes",
            "writes by the source; copies into one destination wait for each other, as with tensor.copy_ of PyTorch",
            "source", True, False, 0.05,
        ),
        CopyProgram(
            "unordered_reads", "reads by the destination without barriers, as in p2pmark",
            "target", False, True, 0.0,
        ),
        CopyProgram(
            "unordered_writes", "writes by the source without barriers, on separate streams", "source", False, True, 0.0
        ),
        CopyProgram(
            "independent", "every copy has a separate engine: copies share only the links of the tree",
            "none", False, False, 0.0,
        ),
    )
}  # fmt: skip


#: Copy program of each benchmark, by the names used in input files.
_ALIASES = {
    "torch": "ordered_writes", "pytorch": "ordered_writes", "p2pmark": "unordered_reads",
    "nvbandwidth": "unordered_writes", "fabricast": "unordered_writes", "host copies": "independent",
}  # fmt: skip


def program_of(name: str) -> CopyProgram:
    """Return a copy program by its name or by the name of a benchmark that uses it.

    Parameters
    ----------
    name : str
        Name of a copy program (`PROGRAMS`) or of a benchmark such as ``torch`` or ``p2pmark``.

    Raises
    ------
    InputError
        If the name is unknown.

    Examples
    --------
    >>> program_of("torch").name
    'ordered_writes'
    """
    program = _ALIASES.get(name.strip().lower(), name.strip())
    if program not in PROGRAMS:
        raise unknown_name("program", name, [*PROGRAMS, *_ALIASES])
    return PROGRAMS[program]
