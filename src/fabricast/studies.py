"""The five studies: what is published about them."""

from __future__ import annotations

from pathlib import Path

from fabricast.csv_files import read_csv
from fabricast.errors import InputError

__all__ = ["study_tolerance"]

_COLUMNS = ("study", "title", "authors", "year", "venue", "tolerance")


def study_tolerance(path: Path | str, study: str) -> float:
    """Return the tolerance that a study states for its errors.

    Parameters
    ----------
    path : Path or str
        The table of studies, config/published/studies.csv.
    study : str
        Name of the study.

    Returns
    -------
    float
        Half width of its band.

    Raises
    ------
    InputError
        If the table has no such study.

    Examples
    --------
    >>> from fabricast.resources import published
    >>> study_tolerance(published() / "studies.csv", "breakdown")
    0.05
    """
    rows = {row["study"]: row for row in read_csv(path, _COLUMNS)}
    if study not in rows:
        raise InputError(f"study is '{study}', expected one of {', '.join(rows)}", path=path)
    return rows[study].number("tolerance")
