"""Findings: causes of lost time, each with its evidence and a remedy."""

from __future__ import annotations

from dataclasses import dataclass


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
    gain : float
        Rank: findings are sorted by it. For a change that the model forecasts, the ratio of the time now to the time
        after it (1 if the change only determines the cause); for what files state or measurements show, a weight of
        the kind of cause, 50 to 100, and no ratio.
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
    gain: float
    sizes: tuple[float, float] | None = None
    origin: str = ""
    host: str = ""
    device: str = ""
