"""Constants of the time model of NCCL over NVLink and between nodes, the same for all machines."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from fabricast.core.resources import published
from fabricast.inputs.csv_files import read_csv

COLUMNS = ("name", "value", "unit", "low", "high", "least", "most", "meaning")
#: Values of the constants by name, in s, GB/s or 1.
Known = MappingProxyType[str, float]


class FittedConstant(NamedTuple):
    """Value of a constant, its unit, the bounds of its fit, its range with one machine left out, and its meaning."""

    value: float
    unit: str
    low: float
    high: float
    least: float
    most: float
    meaning: str


@cache
def fitted_constants() -> dict[str, FittedConstant]:
    """Return the constants of config/published/collectives/cluster_constants.csv by name."""
    return {
        row["name"]: FittedConstant(
            row.number("value"),
            row["unit"],
            row.number("low"),
            row.number("high"),
            row.number("least"),
            row.number("most"),
            row["meaning"],
        )
        for row in read_csv(published() / "collectives" / "cluster_constants.csv", COLUMNS)
    }


@cache
def known_constants() -> Known:
    """Return the values of the constants.

    >>> known_constants()["start"] > 0
    True
    """
    return MappingProxyType({name: one.value for name, one in fitted_constants().items()})
