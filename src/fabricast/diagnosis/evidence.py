"""Findings of a diagnosis with their origin."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabricast.diagnosis.sources import Source

__all__ = ["ACCESS", "CONTRADICTION", "FIRST", "LINK", "Evidence", "place"]

#: Weight of a finding without a forecast gain, by kind: contradictions of measured copies, then links, then transports.
CONTRADICTION, LINK, ACCESS = 1.9, 1.8, 1.7
#: Weight of findings that come before all others: wrong results, and hops over the network within a host.
FIRST = 100.0


@dataclass(frozen=True)
class Evidence:
    """A finding with its origin.

    Parameters
    ----------
    cause : str
        Stable identifier of the cause.
    text : str
        Evidence and effect.
    origin : str
        File, and line if one is known.
    remedy : str
        Command or setting that changes or determines the cause.
    cost : float
        Forecast ratio of the time now to the time after the change, or a weight of the kind of cause.
    """

    cause: str
    text: str
    origin: str
    remedy: str
    cost: float


def place(source: Source, pattern: re.Pattern[str]) -> str:
    """Return the file, with the first line that has a pattern."""
    match = pattern.search(source.text)
    return str(source.path) if match is None else f"{source.path}:{source.text.count(chr(10), 0, match.start()) + 1}"
