"""Times of messages that benchmarks print."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fabricast.core.errors import InputError

#: Convention of the time of a collective or one-sided operation of all processes.
OPERATION = "operation"


@dataclass(frozen=True)
class MessageTime:
    """Time of one cell as a benchmark prints it.

    Parameters
    ----------
    line : int
        Line of the output.
    path : str
        Test or path of the messages.
    processes : int or None
        Number of communicating pairs; None if the output does not state it.
    size_bytes, time_s : float
        Message size, and time in the convention of the program.
    convention : str
        ``one_way``, ``round_trip``, ``windowed`` or ``operation``.
    is_total : bool
        Whether the printed rate is that of all pairs, so that an unknown number of pairs multiplies the time.
    device : str
        Network card that the output names; empty if it names none.
    buffers : str
        Memory of the buffers of sender and receiver, such as ``D H`` (device, host); empty if it is not stated.
    shortest_s : float or None
        Time of the fastest process or repetition, if it is printed.
    """

    line: int
    path: str
    processes: int | None
    size_bytes: float
    time_s: float
    convention: str
    is_total: bool = False
    device: str = ""
    buffers: str = ""
    shortest_s: float | None = None

    @property
    def in_gpu_memory(self) -> bool:
        """Whether a buffer is in the memory of a GPU."""
        return "D" in self.buffers

    @property
    def bytes_per_s(self) -> float:
        """Rate of all pairs in bytes/s."""
        return self.size_bytes * (self.processes or 1) / self.time_s

    def of_processes(self, processes: int | None, node_pairs: int) -> MessageTime:
        """Return the time of the processes of one pair of nodes; `processes` counts pairs that are not stated."""
        pairs = self.processes
        if pairs is None and processes is None:
            raise InputError(
                "is unspecified, and the header names no pairs (for one of several files: 4=FILE)", argument="processes"
            )
        if pairs is None:
            pairs = processes or 1
            time_s = self.time_s * (pairs if self.is_total else 1)
        else:
            time_s = self.time_s
        if pairs % node_pairs:
            raise InputError(
                f"is {node_pairs}, expected a divisor of the {pairs} pairs of processes", argument="node_pairs"
            )
        return replace(self, processes=pairs // node_pairs, time_s=time_s)
