"""Parameters of the GPU-centric study, with tags, and draws of the assumed ones."""

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

__all__ = ["assumed_names", "changed", "draw_values", "read_all", "read_measured", "read_values"]


@cache
def read_all() -> tuple[Parameter, ...]:
    """Return every parameter of the study; the file is read once."""
    return tuple(read_parameters(published() / "gpucentric_parameters.csv"))


def read_values(system: str) -> dict[str, float]:
    """Return the values of a system by name.

    Raises
    ------
    InputError
        If there is no such system.

    Examples
    --------
    >>> read_values("k20_extoll")["network_rate"]
    1248000000.0
    """
    rows = read_all()
    if system not in {row.system for row in rows}:
        known = dict.fromkeys(row.system for row in rows)
        raise unknown_name("system", system, known)
    return {row.name: row.value for row in rows if row.system == system}


def assumed_names(system: str) -> list[str]:
    """Return the parameters of a system that are our assumptions."""
    return [row.name for row in read_all() if row.system == system and row.tag == "assumed"]


def changed(system: str, changes: Mapping[str, float], *, published_too: bool = False) -> dict[str, float]:
    """Return the values of a system with some changed.

    Parameters
    ----------
    system : str
        System.
    changes : mapping
        New values.
    published_too : bool, default False
        Whether numbers of the talk may be changed.

    Raises
    ------
    InputError
        If a name is unknown, or a published number is changed without leave.
    """
    values, assumed = read_values(system), set(assumed_names(system))
    for name in changes:
        if name not in values:
            raise unknown_name("parameter", name, values)
        if name not in assumed and not published_too:
            raise InputError(f"parameter '{name}' is published, expected an assumed one; or allow it explicitly")
    return {**values, **changes}


def read_measured(path: Path | str) -> dict[str, float]:
    """Return measured values that stand in for assumed ones.

    Parameters
    ----------
    path : Path or str
        Parameters of a run on a GPU, ``this_gpu.parameters.csv``.

    Returns
    -------
    dict
        Values by name; measured parameters that the talk gives a number for are left out.

    Raises
    ------
    InputError
        On a name that the models do not know, a unit that is not theirs, or a value that is not
        positive.
    """
    known = {row.name: row for row in read_all()}
    found = {}
    for row in read_parameters(path):
        if row.name not in known:
            raise InputError(f"parameter '{row.name}' is none of the GPU-centric models", path=path)
        if row.unit != known[row.name].unit or not 0 < row.value < math.inf:
            raise InputError(
                f"parameter '{row.name}' is {row.value:g} {row.unit}, expected a positive number in "
                f"{known[row.name].unit}",
                path=path,
            )
        if known[row.name].tag == "assumed":
            found[row.name] = row.value
    return found


def draw_values(system: str, draws: int, generator: np.random.Generator) -> dict[str, Any]:
    """Draw every assumed parameter from half to double its value, evenly in logarithms.

    Parameters
    ----------
    system : str
        System.
    draws : int
        Number of draws.
    generator : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    dict
        Published numbers, and arrays of shape (draws, 1) for the assumed ones; shares stay at most 1.
    """
    values: dict[str, Any] = dict(read_values(system))
    for name in assumed_names(system):
        drawn = values[name] * np.exp2(generator.uniform(-1, 1, size=(draws, 1)))
        share = name.startswith("overlap_") or name.endswith("_efficiency")
        values[name] = np.minimum(drawn, 1.0) if share else drawn
    return values
