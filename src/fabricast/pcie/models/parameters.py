"""Model parameters of a machine (bandwidth, tau, crossing cost) and their provenance.

A value comes, in this order, from the user, from probes of the machine (`calibrate`), from published values of a
built-in machine, or from the links of the topology. A bandwidth that none of them specifies is an error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from fabricast.core.errors import InputError, UnknownSpeedError
from fabricast.core.resources import published
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.pair_rates import PublicShare, host_link_share, pcie_share
from fabricast.inputs.parameters import Parameter, read_parameter_rows, read_parameters
from fabricast.pcie.models.catalogue import Model
from fabricast.pcie.models.user_model import UserModel
from fabricast.pcie.topology.tree import PcieTree

_UNITS = {"bandwidth": "bytes/s", "tau": "1", "crossing_cost": "1"}
#: Bounds of the parameters; `tau` must be below its upper bound.
_BOUNDS = {"bandwidth": (1e6, 1e13), "tau": (0.0, 1.0), "crossing_cost": (1.0, 100.0)}


@dataclass(frozen=True)
class MachineParameters:
    """Parameters of the models on one machine.

    Parameters
    ----------
    bandwidth_bytes_per_s : float
        Bandwidth of a single copy over links of capacity 1, in bytes/s.
    tau : float
        Performance reduction for crossing the root complex.
    crossing_cost : float
        Time per byte behind the root complex, relative to other bytes.
    rows : tuple of Parameter
        The three parameters with tags and sources.
    """

    bandwidth_bytes_per_s: float
    tau: float
    crossing_cost: float
    rows: tuple[Parameter, ...]

    def warnings(self, model: Model | UserModel) -> list[CodedWarning]:
        """Return warnings about default values and about unused parameters.

        A default value was neither measured, user-supplied nor published.
        """
        used = model.parameters
        warnings = [
            CodedWarning(
                WarningCode.PARAMETER_UNUSED,
                f"crossing_cost {row.value:g} is not used by model '{model.name}', which predicts the full rate for a "
                "single copy across the root complex; ports_and_engines, back_pressure and endpoint_engines use it",
            )
            for row in self.rows
            if row.name == "crossing_cost" and row.name not in used and row.value > 1
        ]
        for row in self.rows:
            if row.name in used and row.is_default:
                value = f"{row.value / 1e9:.2f} GB/s" if row.unit == "bytes/s" else f"{row.value:g}"
                warnings.append(CodedWarning(WarningCode.DEFAULT_PARAMETER, f"{row.name} {value}: {row.source}"))
        return warnings


def read_machine_parameters(path: Path | str, system: str) -> dict[str, Parameter]:
    """Read the calibrated parameters of one machine."""
    parameters: dict[str, Parameter] = {}
    for row, parameter in read_parameter_rows(path):
        if (parameter.study, parameter.system) != ("pcie", system):
            raise row.error(
                f"contains a parameter of '{parameter.study} {parameter.system}', expected those of 'pcie {system}'; "
                "calibrate this topology, or correct the column 'system'"
            )
        if parameter.name not in _UNITS or parameter.name in parameters or parameter.unit != _UNITS[parameter.name]:
            raise row.error(
                f"name is '{parameter.name}' in '{parameter.unit}', expected each of "
                f"{', '.join(f'{name} ({unit})' for name, unit in _UNITS.items())} at most once"
            )
        try:
            _check(parameter.name, parameter.value)
        except InputError as error:
            raise row.error(str(error)) from error
        parameters[parameter.name] = parameter
    return parameters


def _check(name: str, value: float) -> None:
    low, high = _BOUNDS[name]
    if not low <= value <= high or (name == "tau" and value == high):
        raise InputError(f"{name} is {value:g}, expected {low:g} to {'below ' if name == 'tau' else ''}{high:g}")


def machine_parameters(
    tree: PcieTree,
    *,
    bandwidth_bytes_per_s: float | None = None,
    tau: float | None = None,
    crossing_cost: float | None = None,
    parameters_file: Path | str | None = None,
) -> MachineParameters:
    """Return the parameters of a machine with their provenance.

    >>> from fabricast.pcie.topology.builtin import load_tree
    >>> machine_parameters(load_tree("storm8")).tau
    0.1735
    >>> machine_parameters(load_tree("flat4x2"), bandwidth_bytes_per_s=50e9).rows[1].tag
    'assumed'
    """
    user_values = {"bandwidth": bandwidth_bytes_per_s, "tau": tau, "crossing_cost": crossing_cost}
    values = _from_links(tree)
    if tree.builtin:
        values |= _from_publication(tree.name)
    if tree.bandwidth_bytes_per_s is not None:
        source = values["bandwidth"].source if tree.builtin and "bandwidth" in values else tree.source
        values["bandwidth"] = Parameter(
            "pcie",
            tree.name,
            "bandwidth",
            tree.bandwidth_bytes_per_s,
            "bytes/s",
            tree.tag,
            source or "bandwidth_bytes_per_s of the topology",
        )
    if parameters_file is not None:
        values |= read_machine_parameters(parameters_file, tree.name)
    for name, value in user_values.items():
        if value is not None:
            _check(name, value)
            # A user-supplied value that equals the present value does not change its provenance.
            if name in values and math.isclose(values[name].value, value, rel_tol=1e-9):
                continue
            values[name] = Parameter(
                "pcie", tree.name, name, value, _UNITS[name], "assumed", "user-supplied option or configuration"
            )
    if "bandwidth" not in values:
        raise UnknownSpeedError(
            f"topology '{tree.name}' has no link speed, expected it or the bandwidth of a single copy"
        )
    bandwidth = values["bandwidth"]
    if tree.link_bytes_per_s is not None and bandwidth.value > tree.link_bytes_per_s:
        raise InputError(
            f"bandwidth is {bandwidth.value / 1e9:.2f} GB/s ({bandwidth.value / 2**30:.4g} GiB/s), expected at most "
            f"the {tree.link_bytes_per_s / 1e9:.2f} GB/s of the links of '{tree.name}'"
        )
    rows = tuple(values[name] for name in _UNITS)
    bandwidth_value, tau_value, cost_value = (row.value for row in rows)
    return MachineParameters(bandwidth_value, tau_value, cost_value, rows)


#: Rate in bytes/s above that of any PCIe link.
_FASTEST_PCIE = 200e9


def link_generation(tree: PcieTree) -> int | None:
    """Return the PCIe generation of the fastest links of the accelerators; None if it is unknown."""
    known = [vertex.generation for name in tree.accelerator_names if (vertex := tree.vertex(name)).generation]
    return max(known, default=None)


def has_superchips(tree: PcieTree) -> bool:
    """Return whether NVLink-C2C connects the GPUs with the host: no PCIe link is as fast."""
    return (tree.link_bytes_per_s or 0) > _FASTEST_PCIE and link_generation(tree) is None


def default_share_of(tree: PcieTree) -> PublicShare:
    """Return the share of the links of a tree that single copies reach on public machines."""
    return host_link_share() if has_superchips(tree) else pcie_share(link_generation(tree))


def _from_links(tree: PcieTree) -> dict[str, Parameter]:
    """Return the defaults without measurements: the share of the links on public machines, no penalty."""
    defaults = {
        "tau": (0.0, "assumed, the topology specifies none; a probe with a local and a crossing copy determines it"),
        "crossing_cost": (1.0, "assumed, the topology specifies none; a single crossing copy determines it"),
    }
    parameters = {
        name: Parameter("pcie", tree.name, name, value, "1", "assumed", source, is_default=True)
        for name, (value, source) in defaults.items()
    }
    if tree.link_bytes_per_s is not None:
        share = default_share_of(tree)
        parameters["bandwidth"] = Parameter(
            "pcie",
            tree.name,
            "bandwidth",
            tree.link_bytes_per_s * share.median,
            "bytes/s",
            "derived",
            f"links of {tree.link_bytes_per_s / 1e9:.2f} GB/s times {share.median:.3f}, the median share on "
            f"{share.words} ({share.lowest:.2f} to {share.highest:.2f})",
            is_default=True,
        )
    return parameters


def _from_publication(topology: str) -> dict[str, Parameter]:
    rows = read_parameters(published() / "parameters.csv")
    return {row.name: row for row in rows if (row.study, row.system) == ("pcie", topology) and row.name in _UNITS}
