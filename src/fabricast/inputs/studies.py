"""Metadata of the studies."""

from __future__ import annotations

from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import read_csv

_COLUMNS = ("study", "title", "authors", "year", "venue", "tolerance")


def study_names(path: Path | str) -> tuple[str, ...]:
    """Return the names of the studies.

    >>> from fabricast.core.resources import published
    >>> "pcie" in study_names(published() / "studies.csv")
    True
    """
    return tuple(row["study"] for row in read_csv(path, _COLUMNS))


def study_tolerance(path: Path | str, study: str) -> float:
    """Return the error tolerance that a study states.

    >>> from fabricast.core.resources import published
    >>> study_tolerance(published() / "studies.csv", "breakdown")
    0.05
    """
    rows = {row["study"]: row for row in read_csv(path, _COLUMNS)}
    if study not in rows:
        raise InputError(f"study is '{study}', expected one of {', '.join(rows)}", path=path)
    return rows[study].number("tolerance")
