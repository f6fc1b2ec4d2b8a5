"""Numbers a model needs, with unit, provenance tag and source."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fabricast.errors import InputError

__all__ = ["Parameter", "parameter_table", "read_parameters"]

_COLUMNS = ["study", "system", "name", "value", "unit", "tag", "source"]


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
    path = Path(path)
    numbered = [
        (number, line)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if line and not line.startswith("#")
    ]
    rows = list(csv.reader(line for _, line in numbered))
    if not rows or rows[0] != _COLUMNS:
        raise InputError(f"has other columns, expected {','.join(_COLUMNS)}", path=path, line=1)
    parameters = []
    for (line, _), row in zip(numbered[1:], rows[1:], strict=True):
        try:
            study, system, name, value, unit, tag, source = row
            parameters.append(Parameter(study, system, name, float(value), unit, tag, source))
        except ValueError as error:
            raise InputError(f"is not a parameter: {error}", path=path, line=line) from error
    return parameters


def parameter_table(parameters: list[Parameter]) -> pd.DataFrame:
    """Return parameters as rows of the table ``parameter``.

    Examples
    --------
    >>> one = Parameter("pcie", "storm8", "tau", 0.1735, "1", "published", "slide")
    >>> parameter_table([one])["value"].tolist()
    [0.1735]
    """
    return pd.DataFrame([vars(parameter) for parameter in parameters])
