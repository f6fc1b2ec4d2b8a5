"""Model parameters of a configured graph set and their provenance, as table rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from fabricast.core.errors import InputError
from fabricast.core.units import GIB
from fabricast.inputs.parameters import parameter_table
from fabricast.pcie.models.parameters import MachineParameters, machine_parameters
from fabricast.pcie.topology.tree import PcieTree


def graph_set_parameters(name: str, entry: Mapping[str, Any], tree: PcieTree) -> MachineParameters:
    """Return the model parameters of a graph set."""
    bandwidth = entry["bandwidth_gib_per_s"]
    try:
        return machine_parameters(
            tree,
            bandwidth_bytes_per_s=None if bandwidth is None else bandwidth * GIB,
            tau=entry["tau"],
            crossing_cost=entry["crossing_cost"],
            parameters_file=entry["parameters"],
        )
    except InputError as error:
        keys = "" if bandwidth is not None else "; set bandwidth_gib_per_s or parameters"
        raise InputError(f"pcie.graph_sets.{name}: {error}{keys}") from error


def parameter_rows(name: str, parameters: MachineParameters) -> pd.DataFrame:
    """Return the parameters of a graph set as rows of the table parameter."""
    return parameter_table([replace(row, system=f"graph_set.{name}") for row in parameters.rows])
