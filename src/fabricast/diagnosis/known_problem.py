"""Messages of libraries whose meaning and remedy are known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class KnownProblem(NamedTuple):
    """Meaning of a message."""

    words: str  # Regular expression of the message
    meaning: str  # Cause in a few words
    remedy: str  # Setting or command that changes it
    is_failure: bool = True  # Whether the run fails; otherwise it may be slower
    is_costly: bool = False  # Whether a run that has results after it is slower
    is_consequence: bool = False  # Whether another message names the cause, if there is one
    is_general: bool = False  # Whether it says only that a call failed
    same_as: str = ""  # Meaning of a message that states the same more exactly, if there is one


def first_match(problems: Iterable[KnownProblem], message: str) -> KnownProblem | None:
    """Return the first problem whose expression a message contains; None if there is none."""
    return next((one for one in problems if re.search(one.words, message)), None)
