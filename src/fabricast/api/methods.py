"""Methods of forecasts: the model with what depends on it, and checks of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fabricast.core.errors import InputError, unknown_name
from fabricast.machine.machine import Machine
from fabricast.machine.options import MachineOptions
from fabricast.pcie.machines.engine_model import ENDPOINT_ENGINES, ENGINE_MODELS, PORTS_AND_ENGINES, EngineModel
from fabricast.pcie.models.catalogue import MODELS, Model
from fabricast.pcie.models.user_model import UserModel, UserRates, named_function

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
class Method:
    """Model of a forecast, and what depends on it."""

    #: Model or its name, or a function ``rates(tree, copies)`` of the user.
    model: str | Model | UserRates = DEFAULT_MODEL
    program: str | None = None  # Copy program of graphs that specify none
    pcie_only: bool = False  # Whether copies between directly linked endpoints use the PCIe tree

    def __post_init__(self) -> None:
        if isinstance(self.model, str) and ":" in self.model:
            # The name of a function of the user, as in the configuration.
            object.__setattr__(self, "model", named_function(self.model))
        if self.is_engine_model:
            return
        if self.program is not None:
            raise InputError(f"is only supported by {' and '.join(ENGINE_MODELS)}", argument="program")
        if isinstance(self.model, str) and self.model not in MODELS:
            raise unknown_name("model", str(self.model), [*ENGINE_MODELS, *MODELS])

    @property
    def name(self) -> str:
        """Name of the model."""
        if isinstance(self.model, str):
            return self.model
        return self.model.name if isinstance(self.model, Model) else getattr(self.model, "__name__", "user function")

    @property
    def is_engine_model(self) -> bool:
        """Whether the model executes copies with engines."""
        return isinstance(self.model, str) and self.model in ENGINE_MODELS

    @property
    def is_of_user(self) -> bool:
        """Whether the model is a function of the user."""
        return not self.is_engine_model and isinstance(self.chosen, UserModel)

    def transport(self, asked: str) -> str:
        """Return the transport of copies: a function of the user gets all of them, and decides what limits them."""
        return "p2p" if asked == "auto" and self.is_of_user else asked

    @property
    def most_explained(self) -> int:
        """Number of copies up to which limiting copies are determined by default."""
        return _MOST_WITH_ENGINES if self.is_engine_model else _MOST_EXPLAINED

    @property
    def chosen(self) -> Model | UserModel:
        """Model of the catalogue, or that of the user."""
        if isinstance(self.model, str):
            return MODELS[self.model]
        return self.model if isinstance(self.model, Model) else UserModel(self.model)

    def engines(self, machine: Machine) -> EngineModel:
        """Return the model with engines of a machine."""
        rates = machine.rates if machine.is_measured else machine.parameters
        return EngineModel(machine.tree, rates, program=self.program, pcie_only=self.pcie_only, model=self.name)


def check_question(method: Method, options: MachineOptions, measurements: Sequence[object]) -> None:
    """Refuse options that the model of a forecast does not use."""
    if method.is_engine_model:
        if options.tau is not None and method.name == ENDPOINT_ENGINES:
            raise InputError(
                f"is not a parameter of '{ENDPOINT_ENGINES}'; use crossing_cost for the slowdown across the root "
                "complex",
                argument="tau",
            )
        return
    for name, value in (("measurements", measurements), ("system", options.system)):
        if value:
            raise InputError(f"is only supported by {' and '.join(ENGINE_MODELS)}", argument=name)
    if isinstance(method.chosen, Model):
        check_parameters(method.chosen, options.tau, options.crossing_cost)
        return
    for name, parameter in (("tau", options.tau), ("crossing_cost", options.crossing_cost)):
        if parameter is not None:
            raise InputError(f"is not a parameter of a function of yours; {_USERS[name]} use it", argument=name)


#: Function that is called with the number of graphs finished since the previous call.
Progress = Callable[[int], None]
