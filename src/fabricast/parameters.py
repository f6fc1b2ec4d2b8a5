"""Numbers a model needs, with unit, provenance tag and source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fabricast.csv_files import read_csv

__all__ = ["PARAMETER_COLUMNS", "Parameter", "parameter_table", "read_parameters"]

PARAMETER_COLUMNS = ["study", "system", "name", "value", "unit", "tag", "source"]


@dataclass(frozen=True)
class Parameter:
    """One parameter.

    Parameters
    ----------
    study, system, name : str
        What it belongs to and what it is called.
    value : float
        Its value.
    unit : str
        Its unit; ``1`` for a pure number.
    tag : str
        Provenance tag: published, quoted, derived, assumed or measured.
    source : str
        Where it was read.
    """

    study: str
    system: str
    name: str
    value: float
    unit: str
    tag: str
    source: str


def read_parameters(path: Path | str) -> list[Parameter]:
    """Read parameters from CSV; lines that start with ``#`` are comments.

    Parameters
    ----------
    path : Path or str
        File with the columns study, system, name, value, unit, tag, source.

    Returns
    -------
    list of Parameter
        In file order.

    Raises
    ------
    InputError
        If a column is missing or a value is not a number.
    """
    return [
        Parameter(**{**row.fields, "value": row.number("value")})  # type: ignore[arg-type]
        for row in read_csv(path, PARAMETER_COLUMNS)
    ]


def parameter_table(parameters: list[Parameter]) -> pd.DataFrame:
    """Return parameters as rows of the table ``parameter``.

    Examples
    --------
    >>> one = Parameter("pcie", "storm8", "tau", 0.1735, "1", "published", "slide")
    >>> parameter_table([one])["value"].tolist()
    [0.1735]
    """
    return pd.DataFrame([vars(parameter) for parameter in parameters])
