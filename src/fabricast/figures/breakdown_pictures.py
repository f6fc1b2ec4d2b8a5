"""Which figures the breakdown study has, and the tables each is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from fabricast.figures import breakdown

__all__ = ["pictures"]


def pictures(read: Callable[[str], pd.DataFrame], values: dict[str, Any]) -> dict[str, Callable[[], Figure]]:
    """Return the figures of the study by name, each as a function that draws it.

    Parameters
    ----------
    read : callable
        Returns the table behind an input of the rule, by its name.
    values : dict
        system, tolerance.

    Returns
    -------
    dict
        Functions that draw, by figure name.
    """
    system, tolerance = values["system"], values["tolerance"]
    injection = ("slide 34 injection", "slide 35 post", "slide 35 progress", "slide 36 LLP post")
    latency = (
        "slide 39 latency", "slide 39 CPU", "slide 39 I/O", "slide 39 Network", "slide 39 on-node",
        "slide 39 initiator", "slide 39 target", "slide 39 target I/O",
    )  # fmt: skip
    return {
        "totals": lambda: breakdown.plot_totals(read("breakdown_component"), read("what_if")),
        "injection_shares": lambda: breakdown.plot_shares(read("breakdown_share"), system, injection),
        "latency_shares": lambda: breakdown.plot_shares(read("breakdown_share"), system, latency),
        "what_if": lambda: breakdown.plot_what_if(read("what_if"), system),
        "accuracy": lambda: breakdown.plot_accuracy(read("breakdown_total"), tolerance),
        "sensitivity": lambda: breakdown.plot_sensitivity(
            read("what_if"), read("breakdown_component"), read("breakdown_total"), system
        ),
    }
