"""Copies that ran together, with the rate that they reached."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CALIBRATION", "HOST", "JUDGED", "SET_ASIDE", "TEST", "MeasuredGraph"]

#: Host memory, next to the GPU of the copy.
HOST = "H"
#: Role of measurements from which parameters may be taken.
CALIBRATION = "calibration"
#: Role of measurements that are judged, even where they are of a copy alone or of an opposite pair.
TEST = "test"
#: Roles of rows that are judged, as those without a role, but for copies alone and opposite pairs, which give
#: parameters unless they are of the first; also with `test_` before the name of a class.
JUDGED = (TEST, "few_flows", "all_to_all", "host")
#: Roles of rows that a file lists and does not want judged.
SET_ASIDE = ("impossible_over_line_rate", "circular_topology", "collapse", "partial_collapse")


@dataclass(frozen=True)
class MeasuredGraph:
    """Copies that ran together, and the rate that they reached.

    Parameters
    ----------
    name : str
        Of the graph.
    flows : tuple of (str, str)
        Names of source and target; `HOST` is host memory.
    total_bytes_per_s : float
        Rate of all flows together: the median over repetitions.
    program : str
        Name of the program that copied (`fabricast.pcie.programs.PROGRAMS`).
    role : str
        ``calibration`` if parameters may be taken from it, what else the file says, or nothing.
    repetitions : int
        Measurements behind the rate.
    spread : float
        Half of their relative range.
    line : int
        Line of the file where it stands first.
    rates_summed : bool
        Whether the rate is the sum of what each copy reached until its own end, not all bytes until the last end.
    """

    name: str
    flows: tuple[tuple[str, str], ...]
    total_bytes_per_s: float
    program: str
    role: str = ""
    repetitions: int = 1
    spread: float = 0.0
    line: int = 0
    rates_summed: bool = False

    @property
    def may_calibrate(self) -> bool:
        """Whether parameters may be taken from it, if it is of copies that tell any."""
        return self.role not in (TEST, *SET_ASIDE)
