"""Findings: causes of lost time, each with its evidence and a remedy."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Weights of findings without a forecast gain: at most the first, or at least the second.
MINOR_WEIGHT, LEAST_WEIGHT = 0.5, 49.0


@dataclass(frozen=True)
class Finding:
    """A cause of lost time.

    Parameters
    ----------
    cause : str
        Stable identifier of the cause.
    text : str
        Evidence and effect, in one or two sentences.
    remedy : str
        Command or setting that changes or determines the cause.
    rank : float
        Findings are sorted by it. For a change that the model forecasts, the ratio of the time now to the time after it
        (1 if the change only determines the cause); for what files state or measurements show, a weight of the kind of
        cause.
    sizes : tuple of float, optional
        Range of sizes of collective operations that it affects, in bytes.
    origin : str
        File, and line if one is known; empty if it has none.
    host, device : str
        Host, and GPU, card or port that it is about; empty if the text names none, or several hosts.
    """

    cause: str
    text: str
    remedy: str
    rank: float
    sizes: tuple[float, float] | None = None
    origin: str = ""
    host: str = ""
    device: str = ""

    def __post_init__(self) -> None:
        """Make the cause a plain text: the identifiers of several enumerations."""
        object.__setattr__(self, "cause", str(self.cause))

    @property
    def gain(self) -> float:
        """Ratio of the time now to the time after the change, if a model forecasts it; else NaN."""
        return self.rank if MINOR_WEIGHT < self.rank < LEAST_WEIGHT else math.nan

    def is_in(self, answer: str) -> bool:
        """Return whether an answer names the cause in full, with its place."""
        return self.text in answer and self.origin in answer

    def lines(self, number: int) -> list[str]:
        """Return its numbered lines: cause, evidence and remedy."""
        evidence = [f"   evidence: {self.origin}"] if self.origin else []
        return [f"{number}. {self.text} [{self.cause}]", *evidence, f"   try: {self.remedy}"]
