"""Copy programs: execution engine, barriers and order of the copies of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import unknown_name

__all__ = ["PROGRAMS", "CopyProgram", "program_of"]


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

    def engines(self, ends: NDArray[np.int64], others: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return whose engine executes each copy, given source and target in each row; -1 for none.

        Memory has no engine, GPUs have others for copies of host memory than for those between GPUs, and network cards
        execute their own: `others` tells which endpoints are no GPUs.
        """
        column = {"source": 0, "target": 1}.get(self.executor)
        if column is None:
            return np.full(len(ends), -1, dtype=np.int64)
        found = np.ascontiguousarray(ends[:, column])
        return found if others is None else np.where(others[ends].any(axis=1), -1, found)

    def barriers(self, ends: NDArray[np.int64], others: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return the destination for which each copy waits its turn; -1 for none.

        Copies wait for streams of a GPU: those into memory, or to what else is no GPU (`others`), wait for nothing.
        """
        if not self.serialised:
            return np.full(len(ends), -1, dtype=np.int64)
        found = np.ascontiguousarray(ends[:, 1])
        return found if others is None else np.where(others[found], -1, found)


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
