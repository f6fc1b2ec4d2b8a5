"""Which figures the GPU-centric study has, and the tables each is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from fabricast.figures import gpucentric

__all__ = ["pictures"]


def pictures(read: Callable[[str], pd.DataFrame], values: dict[str, Any]) -> dict[str, Callable[[], Figure]]:
    """Return the figures of the study by name, each as a function that draws it.

    Parameters
    ----------
    read : callable
        Returns the table behind an input of the rule, by its name.
    values : dict
        system of the map.

    Returns
    -------
    dict
        Functions that draw, by figure name.
    """
    return {
        "controls": lambda: gpucentric.plot_controls(read("gpucentric_control")),
        "curves": lambda: gpucentric.plot_curves(read("parameter")),
        "allreduce_power": lambda: gpucentric.plot_allreduce_power(read("parameter")),
        "workload_performance": lambda: gpucentric.plot_workloads(read("gpucentric_workload"), "performance_ratio"),
        "workload_energy": lambda: gpucentric.plot_workloads(read("gpucentric_workload"), "energy_ratio"),
        "robustness": lambda: gpucentric.plot_robustness(read("gpucentric_statement")),
        "observations": lambda: gpucentric.plot_observations(read("gpucentric_observation")),
        "choice_map": lambda: gpucentric.plot_map(read("gpucentric_choice"), values["system"]),
        "measured_paths": lambda: gpucentric.plot_measured_paths(read("gpucentric_path")),
        "this_gpu": lambda: gpucentric.plot_this_gpu(read("gpu_gpucentric_measurement"), read("gpu_prediction")),
        "feasible_rates": lambda: gpucentric.plot_feasible(read("gpucentric_feasible"), read("parameter")),
    }
