"""Copy programs: engines, barriers and order of the copies of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import unknown_name


@dataclass(frozen=True)
class CopyProgram:
    """Rules by which a program executes the copies of a graph.

    Programs repeat each copy of a graph many times; the repetitions form a flow.
    """

    #: Identifier and description.
    name: str
    text: str
    #: GPU whose copy engine executes a copy: the source (writes), the target (reads), or none if the number of
    #: concurrent copies is not limited by engines: 'source', 'target', 'none'.
    executor: Literal["source", "target", "none"]
    #: GPUs at which copies wait for each other, in the order in which they are issued: none, the target, or both:
    #: 'none', 'target', 'both'.
    serialised: Literal["none", "target", "both"]
    random_turns: bool  # Whether an engine selects ready copies at random instead of in round-robin order
    #: Mean pause of an engine between copies of different flows, as a fraction of the duration of an isolated copy.
    switch_share: float
    #: Whether an engine starts the next copy while the running copies would not fill its link in isolation. Otherwise
    #: it executes one copy at a time.
    overlaps: bool = False
    repetitions: int = 20  # Number of copies of each flow in a run of the benchmark
    random_pauses: bool = True  # Whether pauses are exponentially distributed; otherwise each has the mean duration

    @property
    def is_random(self) -> bool:
        """True if repeated runs may differ."""
        return self.random_turns or (self.switch_share > 0 and self.random_pauses)

    def engines(self, ends: NDArray[np.int64], others: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return the endpoint whose engine executes each copy; -1 if no engine limits it.

        Copies with host memory or a network card are not limited: GPUs use separate engines for copies of host memory,
        and network cards execute copies themselves.

        Shapes: ends (copies, 2); others (endpoints,).
        """
        column = {"source": 0, "target": 1}.get(self.executor)
        if column is None:
            return np.full(len(ends), -1, dtype=np.int64)
        executors = np.ascontiguousarray(ends[:, column])
        return executors if others is None else np.where(others[ends].any(axis=1), -1, executors)

    def occupancy(self, isolated: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of its engine that each copy occupies.

        Shapes: isolated (copies,).
        """
        return np.clip(isolated, 0.05, 1.0) if self.overlaps else np.ones(isolated.size)

    def barriers(self, ends: NDArray[np.int64], others: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return the endpoints at which each copy waits for earlier copies, shape (copies, 2); -1 for none.

        A barrier is a stream of a GPU, so copies do not wait at host memory or network cards.

        Shapes: ends (copies, 2); others (endpoints,).
        """
        waits = np.array([self.serialised == "both", self.serialised != "none"])
        is_gpu = np.ones(ends.shape, dtype=bool) if others is None else ~others[ends]
        return np.where(waits & is_gpu, ends, -1).astype(np.int64)


#: Mean pause of an engine that changes to another flow, as a share of an isolated copy. It is the only fitted value: of
#: 0.05, 0.08, 0.10, 0.12, 0.15 and 0.20, it has the smallest mean and median error for graphs with many copies of a GPU
#: (config/published/pcie_concurrent_copies.csv). Two copies of one GPU alone would suggest 0.05.
PAUSE = 0.15

#: Copy programs by name.
PROGRAMS = {
    program.name: program
    for program in (
        CopyProgram(
            "ordered_writes",
            "writes by the source; copies into one destination wait for each other, as with tensor.copy_ of PyTorch",
            "source",
            "target",
            False,
            PAUSE,
            repetitions=50,
        ),
        CopyProgram(
            "unordered_reads",
            "reads by the destination without barriers, as in p2pmark",
            "target",
            "none",
            True,
            PAUSE,
            overlaps=True,
            repetitions=40,
        ),
        CopyProgram(
            "unordered_writes",
            "writes by the source without barriers, on separate streams",
            "source",
            "none",
            True,
            PAUSE,
            repetitions=40,
        ),
        CopyProgram(
            "default_streams",
            "copies on the default streams of PyTorch: a copy starts when the previous ones at both of its GPUs ended",
            "none",
            "both",
            False,
            0.0,
            repetitions=50,
        ),
        CopyProgram(
            "listed_order",
            "writes by the source, one after the other in the order in which they are listed",
            "source",
            "none",
            False,
            PAUSE,
            random_pauses=False,
        ),
        CopyProgram(
            "independent",
            "every copy has a separate engine: copies share only the links of the tree",
            "none",
            "none",
            False,
            0.0,
        ),
    )
}


#: Copy program of each benchmark, by the names used in input files.
_ALIASES = {
    "torch": "ordered_writes",
    "pytorch": "ordered_writes",
    "torch reads": "default_streams",
    "p2pmark": "unordered_reads",
    "nvbandwidth": "unordered_writes",
    "fabricast": "unordered_writes",
    "host copies": "independent",
}


def program_of(name: str) -> CopyProgram:
    """Return a copy program by its name or by the name of a benchmark that uses it.

    >>> program_of("torch").name
    'ordered_writes'
    """
    program = _ALIASES.get(name.strip().lower(), name.strip())
    if program not in PROGRAMS:
        raise unknown_name("program", name, [*PROGRAMS, *_ALIASES])
    return PROGRAMS[program]
