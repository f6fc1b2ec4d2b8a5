"""Which figures the study of two-level networks has, and the tables each is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from fabricast.figures import percs

__all__ = ["pictures"]


def pictures(read: Callable[[str], pd.DataFrame], values: dict[str, Any]) -> dict[str, Callable[[], Figure]]:
    """Return the figures of the study by name, each as a function that draws it.

    Parameters
    ----------
    read : callable
        Returns the table behind an input of the rule, by its name.
    values : dict
        workloads of the run.

    Returns
    -------
    dict
        Functions that draw, by figure name.
    """
    case, kind = "network_case", "network_link_class"
    small = [name for name in values["workloads"] if name.endswith("-64") and not name.startswith("MCs")]
    large = [name for name in values["workloads"] if name.endswith("-300")]
    usage = {
        f"usage_{name.split('-')[0].lower()}": (lambda name=name: percs.plot_link_usage(read(case), read(kind), name))  # type: ignore[misc]
        for name in ("4D-64", "MChalf-64", "2D-64")
    }
    return {
        "link_counts": lambda: percs.plot_counts(read("network_count")),
        **usage,
        "times_small": lambda: percs.plot_times(read(case), small),
        "times_large": lambda: percs.plot_times(read(case), large),
        "placement": lambda: percs.plot_placement(read(case)),
        "sensitivity": lambda: percs.plot_sensitivity(read(case)),
        "packets": lambda: percs.plot_packets(read("comparison")),
        "mapping_search": lambda: percs.plot_search(read("network_search"), read(case)),
        "time_features": lambda: percs.plot_importance(read("error_feature")),
    }
