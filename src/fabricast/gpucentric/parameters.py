"""Parameters of the GPU-centric study, and random samples of the assumed parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fabricast.core.errors import InputError, unknown_name
from fabricast.core.resources import published
from fabricast.inputs.parameters import Parameter, read_parameters


@cache
def read_all() -> tuple[Parameter, ...]:
    """Return all parameters of the study, from a cached read of the file."""
    return tuple(read_parameters(published() / "gpucentric_parameters.csv"))


def read_values(system: str) -> dict[str, float]:
    """Return the parameter values of a system by name.

    >>> read_values("k20_extoll")["network_rate"]
    1248000000.0
    """
    rows = read_all()
    if system not in {row.system for row in rows}:
        systems = dict.fromkeys(row.system for row in rows)
        raise unknown_name("system", system, systems)
    return {row.name: row.value for row in rows if row.system == system}


def assumed_names(system: str) -> list[str]:
    """Return the names of the parameters of a system that this project assumes."""
    return [row.name for row in read_all() if row.system == system and row.tag == "assumed"]


def changed(system: str, changes: Mapping[str, float], *, published_too: bool = False) -> dict[str, float]:
    """Return the parameter values of a system with some values replaced."""
    values, assumed = read_values(system), set(assumed_names(system))
    for name in changes:
        if name not in values:
            raise unknown_name("parameter", name, values)
        if name not in assumed and not published_too:
            raise InputError(
                f"parameter '{name}' is published, expected an assumed one; set published_too to change it"
            )
    return {**values, **changes}


def read_measured(path: Path | str) -> dict[str, float]:
    """Read measured values that replace assumed parameter values."""
    parameters = {row.name: row for row in read_all()}
    values = {}
    for row in read_parameters(path):
        if row.name not in parameters:
            raise InputError(f"parameter '{row.name}' is not a parameter of the GPU-centric models", path=path)
        if row.unit != parameters[row.name].unit or not 0 < row.value < math.inf:
            raise InputError(
                f"parameter '{row.name}' is {row.value:g} {row.unit}, expected a positive number in "
                f"{parameters[row.name].unit}",
                path=path,
            )
        if parameters[row.name].tag == "assumed":
            values[row.name] = row.value
    return values


def draw_values(system: str, draws: int, generator: np.random.Generator) -> dict[str, Any]:
    """Sample each assumed parameter log-uniformly from half to double its value."""
    values: dict[str, Any] = dict(read_values(system))
    for name in assumed_names(system):
        drawn = values[name] * np.exp2(generator.uniform(-1, 1, size=(draws, 1)))
        share = name.startswith("overlap_") or name.endswith("_efficiency")
        values[name] = np.minimum(drawn, 1.0) if share else drawn
    return values
