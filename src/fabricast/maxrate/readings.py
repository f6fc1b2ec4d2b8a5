"""Times that parsers of benchmark output yield, and rows of numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabricast.core.errors import InputError
from fabricast.maxrate.measurements import MOST_PROCESSES

__all__ = ["Reading", "count_of", "numbers_of"]

_NUMBER = r"[-+]?((\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][-+]?\d{1,3})?|nan|inf)"
#: Words of prose that may follow a number in program output.
_WORDS_BEHIND_NUMBERS = frozenset({"processes", "process", "bytes", "repetitions", "usecs", "additional", "pairs"})


@dataclass(frozen=True)
class Reading:
    """Time of one cell as yielded by a parser.

    Parameters
    ----------
    line : int
        Line of the output, for error messages.
    path : str
        Test or path of the messages.
    processes : int
        Number of communicating pairs.
    size_bytes, time_s : float
        Message size, and time in the convention of the program.
    convention : str
        ``one_way``, ``round_trip`` or ``windowed``.
    """

    line: int
    path: str
    processes: int
    size_bytes: float
    time_s: float
    convention: str


def numbers_of(text: str, line: int) -> list[float] | None:
    """Return the numbers of a table row; None for other lines."""
    words = text.split()
    if words and words[-1] == "Pass":
        # OSU output with validation.
        words.pop()
    if not words or not re.fullmatch(_NUMBER, words[0]):
        return None
    for word in words:
        if not re.fullmatch(_NUMBER, word):
            if word in _WORDS_BEHIND_NUMBERS:
                return None
            raise InputError(f"contains '{word}' in a row of numbers, expected a number", line=line)
    return [float(word) for word in words]


def count_of(text: str, name: str, line: int) -> int:
    """Parse a number of processes or pairs in a header."""
    count = int(text) if len(text) <= 9 else 0
    if not 1 <= count <= MOST_PROCESSES:
        raise InputError(f"{name} is {text}, expected 1 to {MOST_PROCESSES:,}", line=line)
    return count
