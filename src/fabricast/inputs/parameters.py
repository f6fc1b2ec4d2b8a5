"""Model parameters with unit, provenance tag and source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from fabricast.inputs.csv_files import CsvRow, read_csv

PARAMETER_COLUMNS = ["study", "system", "name", "value", "unit", "tag", "source"]
_INTERVAL_COLUMNS = ["ci_low", "ci_high"]
#: Provenance of numbers that are not computed here: read in the cited source (published), attributed to it by a
#: second source (quoted) or from memory (recalled), arithmetic on such numbers (derived), a choice of this project
#: (assumed), or measured.
Tag = Literal["published", "quoted", "recalled", "derived", "assumed", "measured"]
TAGS: tuple[Tag, ...] = get_args(Tag)


@dataclass(frozen=True)
class Parameter:
    """A model parameter."""

    #: Study and system of the parameter, and its name.
    study: str
    system: str
    name: str
    value: float  # Value in `unit`
    unit: str  # Unit of the value; ``1`` if dimensionless
    tag: str  # Provenance tag, one of `TAGS`
    source: str  # Source of the value
    is_default: bool = False  # Whether the value is a default that was neither measured, user-supplied nor published


def read_parameters(path: Path | str) -> list[Parameter]:
    """Read parameters from CSV; lines that start with ``#`` are comments."""
    return [parameter for _, parameter in read_parameter_rows(path)]


def read_parameter_rows(path: Path | str) -> list[tuple[CsvRow, Parameter]]:
    """Read parameters as `read_parameters` does, each with its row for error messages."""
    parameters = []
    for row in read_csv(path, PARAMETER_COLUMNS, _INTERVAL_COLUMNS):
        if row["tag"] not in TAGS:
            raise row.error(f"tag is '{row['tag']}', expected one of {', '.join(TAGS)}")
        _check_interval(row)
        study, system, name, unit, tag, source = (row[column] for column in PARAMETER_COLUMNS if column != "value")
        parameters.append((row, Parameter(study, system, name, row.number("value"), unit, tag, source)))
    return parameters


def _check_interval(row: CsvRow) -> None:
    """Check that the ends of an interval are numbers in order, if the row has them."""
    low, high = (row.number(name) if row.get(name) else None for name in _INTERVAL_COLUMNS)
    if low is not None and high is not None and low > high:
        raise row.error(f"ci_low is {low:g} and ci_high is {high:g}, expected ci_low at most ci_high")


def parameter_table(parameters: list[Parameter]) -> pd.DataFrame:
    """Return parameters as rows of the results table ``parameter``.

    >>> one = Parameter("pcie", "storm8", "tau", 0.1735, "1", "published", "slide")
    >>> parameter_table([one])["value"].tolist()
    [0.1735]
    """
    return pd.DataFrame([vars(parameter) for parameter in parameters]).drop(columns="is_default", errors="ignore")
