"""Inputs of the models: user-supplied numbers, parameter files and measured copies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fabricast.core.errors import InputError, unknown_name
from fabricast.core.quantities import to_bytes_per_s
from fabricast.pcie.machines.engine_model import ENDPOINT_ENGINES, ENGINE_MODELS, PORTS_AND_ENGINES, EngineModel
from fabricast.pcie.machines.measured_rates import measured_calibration
from fabricast.pcie.measurements.peer_access import has_direct_copies, staged_rates, with_measured_access
from fabricast.pcie.models.catalogue import MODELS, Model
from fabricast.pcie.models.parameters import MachineParameters, machine_parameters
from fabricast.pcie.topology.tree import PcieTree, single_copy_rate_of

__all__ = ["DEFAULT_MODEL", "ModelInputs", "check_parameters"]

#: Model of forecasts if none is specified: the most accurate one on measured machines.
DEFAULT_MODEL = PORTS_AND_ENGINES
#: Maximum number of copies for which limiting copies are determined by default, and that of models with engines.
_MOST_EXPLAINED, _MOST_WITH_ENGINES = 1_000_000, 5_000
#: Models that a parameter affects.
_USERS = {
    "tau": "ports_and_engines, back_pressure and the models of congestion factors",
    "crossing_cost": "ports_and_engines, endpoint_engines and back_pressure",
}


def check_parameters(model: Model, tau: float | None, crossing_cost: float | None) -> None:
    """Refuse a value other than the neutral one of a parameter that does not affect a model."""
    for name, value, neutral in (("tau", tau, 0.0), ("crossing_cost", crossing_cost, 1.0)):
        if value not in (None, neutral) and name not in model.parameters:
            raise InputError(f"is not a parameter of '{model.name}'; {_USERS[name]} use it", argument=name)


@dataclass(frozen=True)
class ModelInputs:
    """Model and parameters of a prediction; None if unspecified.

    Parameters
    ----------
    model, bandwidth, tau, crossing_cost, parameters, pcie_only, program, measurements, system
        See `fabricast.predict`.

    Raises
    ------
    InputError
        If the model is unknown, or an input is not supported by the model.
    """

    model: str | Model = DEFAULT_MODEL
    bandwidth: float | str | None = None
    tau: float | None = None
    crossing_cost: float | None = None
    parameters: str | Path | None = None
    pcie_only: bool = False
    program: str | None = None
    measurements: str | Path | None = None
    system: str | None = None

    def __post_init__(self) -> None:
        if self.is_engine_model:
            if self.tau is not None and self.name == ENDPOINT_ENGINES:
                raise InputError(
                    f"is not a parameter of '{ENDPOINT_ENGINES}'; use crossing_cost for the slowdown across the root "
                    "complex",
                    argument="tau",
                )
            if self.system is not None and self.measurements is None:
                raise InputError("is specified without measurements", argument="system")
            return
        for name in ("program", "measurements", "system"):
            if getattr(self, name) is not None:
                raise InputError(f"is only supported by {' and '.join(ENGINE_MODELS)}", argument=name)
        if not isinstance(self.model, Model) and self.model not in MODELS:
            raise unknown_name("model", str(self.model), [*ENGINE_MODELS, *MODELS])
        check_parameters(self.chosen_model(), self.tau, self.crossing_cost)

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model if isinstance(self.model, str) else self.model.name

    @property
    def is_engine_model(self) -> bool:
        """Whether the model executes copies with engines."""
        return isinstance(self.model, str) and self.model in ENGINE_MODELS

    @property
    def most_explained(self) -> int:
        """Number of copies up to which limiting copies are determined by default."""
        return _MOST_WITH_ENGINES if self.is_engine_model else _MOST_EXPLAINED

    def chosen_model(self) -> Model:
        """Return the model from the catalogue."""
        return MODELS[self.model] if isinstance(self.model, str) else self.model

    def machine_parameters(self, tree: PcieTree) -> MachineParameters:
        """Return the parameters of a machine, with the user-supplied values among them."""
        return machine_parameters(
            tree,
            bandwidth_bytes_per_s=None if self.bandwidth is None else to_bytes_per_s(self.bandwidth),
            tau=self.tau,
            crossing_cost=self.crossing_cost,
            parameters_file=self.parameters,
        )

    def with_measured_access(self, tree: PcieTree) -> PcieTree:
        """Return a topology with the pairs that have no peer access in the measurements."""
        return tree if self.measurements is None else with_measured_access(tree, self.measurements)

    def staged_rates(self, tree: PcieTree, *, both_ways: bool = False) -> dict[tuple[str, str], float]:
        """Return the measured rates of single copies, or the totals of pairs of copies, through host memory.

        By source and target, in bytes/s.
        """
        return {} if self.measurements is None else staged_rates(tree, self.measurements, both_ways=both_ways)

    def engine_model(self, tree: PcieTree) -> EngineModel:
        """Return the model with engines of a machine, calibrated with measured copies if specified.

        Without measurements, the rates come from the machine parameters.
        """
        if self.measurements is None or not has_direct_copies(self.measurements):
            return EngineModel(
                tree, self.machine_parameters(tree), program=self.program, pcie_only=self.pcie_only, model=self.name
            )
        for name in ("bandwidth", "tau", "crossing_cost", "parameters"):
            if getattr(self, name) is not None:
                raise InputError(f"excludes {name}: both specify the rates of copies", argument="measurements")
        found = measured_calibration(
            tree, self.measurements, system=self.system, one_way_bytes_per_s=single_copy_rate_of(tree)
        )
        tree = replace(tree, warnings=(*tree.warnings, *found.warnings))
        return EngineModel(
            tree,
            found.calibration,
            program=self.program,
            pcie_only=self.pcie_only,
            model=self.name,
            measured=found.graphs,
        )
