"""Model parameters from user-supplied numbers, parameter files or measured copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fabricast.api.quantities import to_bytes_per_s
from fabricast.core.errors import InputError
from fabricast.pcie.machines.engine_model import ENDPOINT_ENGINES, EngineModel, measured_calibration
from fabricast.pcie.models.parameters import MachineParameters, machine_parameters
from fabricast.pcie.topology.tree import PcieTree, single_copy_rate_of

__all__ = ["engine_model", "user_parameters"]


def user_parameters(tree: PcieTree, given: Mapping[str, Any]) -> MachineParameters:
    """Return machine parameters, with the user-supplied values among them.

    `given` contains bandwidth, tau, crossing_cost and parameters (a file); None if unspecified.
    """
    bandwidth = given["bandwidth"]
    return machine_parameters(
        tree, bandwidth_bytes_per_s=None if bandwidth is None else to_bytes_per_s(bandwidth), tau=given["tau"],
        crossing_cost=given["crossing_cost"], parameters_file=given["parameters"],
    )  # fmt: skip


def engine_model(
    tree: PcieTree, given: Mapping[str, Any], program: str | None, measurements: str | Path | None, system: str | None,
    pcie_only: bool,
) -> EngineModel:  # fmt: skip
    """Return the engine model of a machine, calibrated with measured copies if specified.

    Without measurements, the rates come from the machine parameters.
    """
    if given["tau"] is not None:
        raise InputError(
            f"is not a parameter of '{ENDPOINT_ENGINES}'; use crossing_cost for the slowdown across the root complex",
            argument="tau",
        )
    if measurements is None:
        if system is not None:
            raise InputError("is specified without measurements", argument="system")
        return EngineModel(tree, user_parameters(tree, given), program=program, pcie_only=pcie_only)
    for name, value in given.items():
        if value is not None:
            raise InputError(f"excludes {name}: both specify the rates of copies", argument="measurements")
    calibration, warnings = measured_calibration(
        tree, measurements, system=system, one_way_bytes_per_s=single_copy_rate_of(tree)
    )
    tree = replace(tree, warnings=(*tree.warnings, *warnings))
    return EngineModel(tree, calibration, program=program, pcie_only=pcie_only)
