"""Which figures the max-rate study has, and the tables each is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from fabricast.figures import maxrate

__all__ = ["pictures"]


def pictures(read: Callable[[str], pd.DataFrame], values: dict[str, Any]) -> dict[str, Callable[[], Figure]]:
    """Return the figures of the study by name, each as a function that draws it.

    Parameters
    ----------
    read : callable
        Returns the table behind an input of the rule, by its name.
    values : dict
        dataset.

    Returns
    -------
    dict
        Functions that draw, by figure name.
    """
    measurement, fit, prediction = "maxrate_measurement", "maxrate_fit", "prediction"
    shown = values["dataset"]
    # A run on other data shows the first of them.
    known = sorted(set(read(measurement)["dataset"]))
    shown = shown if shown in known else known[0]
    return {
        "time_surfaces": lambda: maxrate.plot_time_surfaces(read(measurement), read(prediction), shown),
        "time_curves": lambda: maxrate.plot_time_curves(read(measurement), read(prediction), shown),
        "parameter_intervals": lambda: maxrate.plot_parameter_intervals(read(fit)),
        "this_machine": lambda: maxrate.plot_this_machine(read(measurement)),
        "rates": lambda: maxrate.plot_rates(read(measurement), read(fit), shown),
        "small_messages": lambda: maxrate.plot_small_messages(read(measurement), read(fit), shown),
        "error_surface": lambda: maxrate.plot_error_surface(read(measurement), shown),
        "model_errors": lambda: maxrate.plot_model_errors(read(fit)),
    }
