"""Which figures the PCIe study has, and the tables each is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from fabricast.figures import pcie, pcie_schedules, pcie_validation
from fabricast.pcie.topology_files import load_tree

__all__ = ["pictures"]

_EXAMPLE = "storm8.example.complete"


def pictures(read: Callable[[str], pd.DataFrame], values: dict[str, Any]) -> dict[str, Callable[[], Figure]]:
    """Return the figures of the study by name, each as a function that draws it.

    Parameters
    ----------
    read : callable
        Returns the table behind an input of the rule, by its name.
    values : dict
        bandwidth_bytes_per_s, reference_time_s, tolerance, simulated_set, simulated_topology, origin, held_out.

    Returns
    -------
    dict
        Functions that draw, by figure name.
    """
    tolerance = values["tolerance"]
    shown, origin = values["simulated_set"], values["origin"]
    return {
        "topology_loads": lambda: pcie.plot_link_loads(
            load_tree("storm8"), read("example_communication"), read("example_phase"), _EXAMPLE
        ),
        "worked_example": lambda: pcie.plot_worked_example(
            read("example_communication"), read("example_phase"), _EXAMPLE
        ),
        "slowdown": lambda: pcie.plot_slowdown(
            read("prediction"), read("graph"), read("communication"), values["bandwidth_bytes_per_s"]
        ),
        "model_differences": lambda: pcie.plot_model_differences(read("prediction")),
        "measured_probes": lambda: pcie.plot_probes(read("measured"), tolerance=tolerance),
        "error_distribution": lambda: pcie_validation.plot_error_distribution(
            read("error_histogram"), f"{shown}.all", origin, tolerance
        ),
        "predicted_simulated": lambda: pcie_validation.plot_predicted_simulated(
            read("simulated"), origin, tolerance
        ),
        "error_by_size": lambda: pcie_validation.plot_error_by_size(read("error_band"), shown, origin, tolerance),
        "model_hardware": lambda: pcie_validation.plot_model_hardware(
            read("error_band"), {f"{name}.held_out": f"{name}, held out" for name in values["held_out"]}, tolerance
        ),
        "worst_case": lambda: pcie_validation.plot_worst_case(
            load_tree(values["simulated_topology"]), read("simulated_communication"), read("simulated"),
            read("parameter"), "congestion_factor",
        ),
        "schedule_distribution": lambda: pcie_schedules.plot_schedule_distribution(
            read("schedule_histogram"), read("schedule_summary"), values["reference_time_s"]
        ),
        "schedule_timeline": lambda: pcie_schedules.plot_schedule_timeline(
            read("schedule"), values["reference_time_s"]
        ),
        "error_features": lambda: pcie_validation.plot_error_features(
            read("error_feature"), f"{shown}.all", origin
        ),
    }  # fmt: skip
