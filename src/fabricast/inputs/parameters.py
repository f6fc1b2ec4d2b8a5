"""Numbers a model needs, with unit, provenance tag and source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from fabricast.inputs.csv_files import CsvRow, read_csv

__all__ = ["PARAMETER_COLUMNS", "TAGS", "Parameter", "Tag", "parameter_table", "read_parameter_rows", "read_parameters"]

PARAMETER_COLUMNS = ["study", "system", "name", "value", "unit", "tag", "source"]
_INTERVAL_COLUMNS = ["ci_low", "ci_high"]
#: Provenance of numbers that are not computed here: read in the cited source, attributed to it by a second one,
#: attributed to it from memory, arithmetic on such numbers, our choice, or measured.
Tag = Literal["published", "quoted", "recalled", "derived", "assumed", "measured"]
TAGS: tuple[Tag, ...] = get_args(Tag)


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
        Provenance tag, one of `TAGS`.
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
        File with the columns study, system, name, value, unit, tag, source and, if wanted,
        ci_low and ci_high, which are not read.

    Returns
    -------
    list of Parameter
        In file order.

    Raises
    ------
    InputError
        If a column is missing, a value is not a number or a tag is unknown.
    """
    return [parameter for _, parameter in read_parameter_rows(path)]


def read_parameter_rows(path: Path | str) -> list[tuple[CsvRow, Parameter]]:
    """Read parameters as `read_parameters` does, each with the row that holds it, for messages."""
    found = []
    for row in read_csv(path, PARAMETER_COLUMNS, _INTERVAL_COLUMNS):
        if row["tag"] not in TAGS:
            raise row.error(f"tag is '{row['tag']}', expected one of {', '.join(TAGS)}")
        texts = {name: row[name] for name in PARAMETER_COLUMNS if name != "value"}
        found.append((row, Parameter(value=row.number("value"), **texts)))
    return found


def parameter_table(parameters: list[Parameter]) -> pd.DataFrame:
    """Return parameters as rows of the table ``parameter``.

    Examples
    --------
    >>> one = Parameter("pcie", "storm8", "tau", 0.1735, "1", "published", "slide")
    >>> parameter_table([one])["value"].tolist()
    [0.1735]
    """
    return pd.DataFrame([vars(parameter) for parameter in parameters])
