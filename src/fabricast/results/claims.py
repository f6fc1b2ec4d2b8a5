"""Published statements as checkable rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, model_validator
from rich.markup import escape
from rich.table import Column, Table

from fabricast.core.errors import InputError
from fabricast.core.resources import published
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.files import write_text
from fabricast.inputs.studies import study_names
from fabricast.inputs.yaml_files import load_model
from fabricast.results.tables import connect, open_run, report_damaged_files

__all__ = ["Claim", "claim_table", "evaluate_claims", "lost_claims", "read_baseline", "read_claims", "write_baseline"]


class Claim(BaseModel):
    """One published statement and the query that observes it in this run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: str = Field(pattern=r"^[a-z0-9_]+$")
    study: str
    statement: str
    source: str
    expected: float | None = None
    tolerance: float | None = Field(None, ge=0)
    query: str | None = None
    #: Whether the query reads `share_within` of a simulated reference, which has a range over phases.
    over_phases: bool = False
    note: str = ""
    figure: str | None = Field(None, pattern=r"^[a-z]+\.[a-z0-9_]+$")

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        studies = study_names(published() / "studies.csv")
        if self.study not in studies:
            raise ValueError(f"study is '{self.study}', expected one of {', '.join(studies)}")
        if self.query is not None and (self.expected is None or self.tolerance is None):
            raise ValueError("a claim with a query needs 'expected' and 'tolerance'")
        if self.query is None and not self.note:
            raise ValueError("a claim without a query needs a 'note' that says why")
        return self


class _ClaimFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    claims: list[Claim]


def read_claims(path: Path | str) -> list[Claim]:
    """Read the claims of a YAML file."""
    return load_model(path, _ClaimFile).claims


def evaluate_claims(claims: list[Claim], tables: dict[str, list[Path]]) -> pd.DataFrame:
    """Observe every claim in the tables of this run and give its verdict.

    Parameters
    ----------
    claims : list of Claim
        The claims. A query returns one number; no row or NULL means that this run
        does not hold what the claim needs.
    tables : dict
        Parquet files of each table.

    Returns
    -------
    pandas.DataFrame
        Rows of the table claim. ``reproduced`` needs a value computed in this run.
    """
    rows = []
    parts = [path for paths in tables.values() for path in paths]
    with connect() as connection, report_damaged_files(parts):
        for name, paths in tables.items():
            connection.read_parquet([str(path) for path in paths], union_by_name=True).create_view(name)
        for claim in claims:
            observed = _observe(connection, claim, claim.query)
            row = claim.model_dump(exclude={"over_phases"}) | {"observed": observed}
            row |= {"observed_low": None, "observed_high": None}
            if observed is None:
                row["verdict"] = "not_testable"
                if claim.query is not None:
                    row["note"] = f"this run holds no value for it. {claim.note}".strip()
            else:
                assert claim.expected is not None and claim.tolerance is not None
                hit = abs(observed - claim.expected) <= claim.tolerance
                row["verdict"] = "reproduced" if hit else "deviates"
                if claim.over_phases:
                    row |= _range_over_phases(connection, claim, hit)
            rows.append(row)
    frame = pd.DataFrame(rows)
    for column in ("expected", "tolerance", "observed", "observed_low", "observed_high"):
        frame[column] = frame[column].astype("float64")
    return frame


def _range_over_phases(connection: duckdb.DuckDBPyConnection, claim: Claim, hit: bool) -> dict[str, Any]:
    """Observe a share in every and in any phase of the simulator's arbiters."""
    assert claim.query is not None and claim.expected is not None and claim.tolerance is not None
    ends = [
        _observe(connection, claim, re.sub(r"\bshare_within\b", f"share_within_{end}", claim.query))
        for end in ("least", "most")
    ]
    assert ends[0] is not None and ends[1] is not None
    text = f"{claim.note}; over the phases of the simulated arbiters {ends[0]:.4f} to {ends[1]:.4f}"
    if any((abs(end - claim.expected) <= claim.tolerance) != hit for end in ends if end is not None):
        text += ", which decides the verdict"
    return {"observed_low": ends[0], "observed_high": ends[1], "note": text.removeprefix("; ")}


def _observe(connection: duckdb.DuckDBPyConnection, claim: Claim, query: str | None) -> float | None:
    if query is None:
        return None
    rows = connection.execute(query).fetchall()
    if len(rows) > 1 or (rows and len(rows[0]) != 1):
        raise InputError(f"claim '{claim.claim}': the query gives {len(rows)} rows, expected one number")
    return None if not rows or rows[0][0] is None else float(rows[0][0])


_STYLES = {"reproduced": "green", "deviates": "yellow", "not_testable": "dim"}


def _finished_claims(database: Path, query: str) -> list[tuple[Any, ...]]:
    with open_run(database) as connection:
        return connection.execute(query).fetchall()


def read_baseline(path: Path | str) -> list[str]:
    """Return the claims that the recorded baseline reproduces."""
    return [row["claim"] for row in read_csv(path, ("claim",))]


def write_baseline(database: Path, path: Path) -> int:
    """Record the claims that a finished run reproduces, and return how many.

    Raises
    ------
    InputError
        If a claim of the baseline would be lost, as with the database of a smaller study.
    """
    lost = lost_claims(database, read_baseline(path)) if path.is_file() else []
    if lost:
        raise InputError(
            f"reproduces {len(lost)} claims of the baseline no longer, such as {lost[0][0]}; expected a default study "
            f"that loses none, or a baseline ({path}) without them",
            path=database,
        )
    rows = _finished_claims(database, "SELECT claim FROM claim WHERE verdict = 'reproduced' ORDER BY study, claim")
    text = "# Claims that the default study reproduces; 'fabricast claims --strict' refuses to lose one.\nclaim\n"
    write_text(path, text + "".join(f"{name}\n" for (name,) in rows))
    return len(rows)


def lost_claims(database: Path, baseline: list[str]) -> list[tuple[str, str]]:
    """Return the claims of a baseline that a finished run does not reproduce, with their verdicts.

    Parameters
    ----------
    database : Path
        The run's database.
    baseline : list of str
        Claims that were reproduced.

    Returns
    -------
    list of (str, str)
        Claim and verdict; ``missing`` if the run does not know the claim.
    """
    found = dict(_finished_claims(database, "SELECT claim, verdict::VARCHAR FROM claim"))
    verdicts = [(name, found.get(name, "missing")) for name in baseline]
    return [(name, verdict) for name, verdict in verdicts if verdict != "reproduced"]


def claim_table(database: Path) -> Table:
    """Return the claims of a finished run as a table for the terminal.

    Parameters
    ----------
    database : Path
        The run's database.

    Returns
    -------
    rich.table.Table
        One line a claim.

    Raises
    ------
    InputError
        If there is no such database.
    """
    query = "SELECT claim, statement, expected, observed, verdict::VARCHAR, note FROM claim ORDER BY study, claim"
    rows = _finished_claims(database, query)
    table = Table(
        Column("claim", overflow="fold", min_width=24), "statement", "expected", "observed", "verdict", "note"
    )
    for claim, statement, expected, observed, verdict, note in rows:
        shown = ["" if value is None else f"{value:.6g}" for value in (expected, observed)]
        style = _STYLES[verdict]
        table.add_row(escape(claim), escape(statement), *shown, f"[{style}]{verdict}[/{style}]", escape(note))
    return table
