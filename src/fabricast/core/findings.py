"""Findings: causes of lost time, each with its evidence and a remedy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A cause of lost time."""

    cause: str  # Stable identifier of the cause
    text: str  # Evidence and effect, in one or two sentences
    remedy: str  # Command or setting that changes or determines the cause
    #: Forecast ratio of the time now to the time after the change, 1 if the change only determines the cause; or a
    #: weight of the kind of cause.
    gain: float
    sizes: tuple[float, float] | None = None  # Range of sizes of collective operations that it affects, in bytes
    origin: str = ""  # File, and line if one is known; empty if it has none
