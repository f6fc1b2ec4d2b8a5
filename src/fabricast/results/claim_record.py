"""Claims of a finished run: terminal output, and comparison with a recorded baseline."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Group
from rich.markup import escape
from rich.table import Column, Table

from fabricast.core.errors import InputError, unknown_name
from fabricast.core.number_text import number_text
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.files import write_text
from fabricast.results.claims import EVIDENCE
from fabricast.results.tables import open_run
from fabricast.results.verdicts import HOLDS

__all__ = [
    "VERDICT_WORDS",
    "bound_text",
    "claim_rows",
    "claim_text",
    "evidence_table",
    "headline",
    "holds_text",
    "lost_claims",
    "observed_text",
    "read_baseline",
    "write_baseline",
]

#: Display names of the verdicts.
VERDICT_WORDS = {
    "reproduced": "reproduced",
    "decided_by_tolerance": "decided by our tolerance",
    "does_not_discriminate": "does not discriminate",
    "follows_from_inputs": "follows from its inputs",
    "deviates": "deviates",
    "not_testable": "not testable",
}
_STYLES = {"reproduced": "green", "deviates": "yellow"}
#: Values of smaller magnitude are rounding errors and are shown as 0.
_ROUNDING = 1e-9
_RELATIONS = {"at_least": "at least", "at_most": "at most"}


def bound_text(relation: str, low: float | None, high: float | None, unit: str) -> str:
    """Format the bounds of a statement in the unit of the statement.

    Examples
    --------
    >>> bound_text("at_least", 95.0, None, "%"), bound_text("between", 60.0, 80.0, "%")
    ('at least 95 %', '60 to 80 %')
    """
    if relation == "first" or unit == "holds":
        return "first" if relation == "first" else "holds"
    unit = {"1": "", "times": "×", "percentages": ""}.get(unit, f" {unit}")
    if relation == "between":
        assert low is not None and high is not None
        return f"{number_text(low)} to {number_text(high)}{unit}"
    number = low if low is not None else high
    if number is None:
        return "–"
    return " ".join(filter(None, (_RELATIONS.get(relation), f"{number_text(number)}{unit}")))


def observed_text(value: float | None, unit: str) -> str:
    """Format an observed value with its unit for display.

    Examples
    --------
    >>> observed_text(97.09, "%"), observed_text(1.0, "holds"), observed_text(39.0, "rank"), observed_text(None, "ms")
    ('97.09 %', 'holds', 'rank 39', '–')
    """
    if value is None:
        return "–"
    if unit == "holds":
        return "holds" if value else "does not hold"
    # Rounding errors are shown as 0.
    number = number_text(0.0 if abs(value) < _ROUNDING else value)
    return {"1": number, "rank": f"rank {number}", "times": f"{number}×", "percentages": number}.get(
        unit, f"{number} {unit}".rstrip()
    )


def headline(rows: Iterable[tuple[str, str, bool]]) -> str:
    """Summarise the verdicts of a run in one sentence, independent evidence first.

    Parameters
    ----------
    rows : iterable of (str, str, bool)
        Verdict and evidence of each claim, and whether the statement is this project's rather than a published one.

    Examples
    --------
    >>> headline([("reproduced", "independent_fit", False), ("deviates", "own_simulator", False)])
    'independent data reproduce 1 of the 1 published statement that they can test; of 2 claims in all, 1 deviates'
    """
    rows = list(rows)
    count = {verdict: sum(v == verdict for v, *_ in rows) for verdict in VERDICT_WORDS}
    not_independent = sum(v == "reproduced" and not evidence.startswith("independent") for v, evidence, _ in rows)
    parts = [
        _counted(
            not_independent,
            "is reproduced in our simulator or in sample",
            "are reproduced in our simulator or in sample",
        ),
        _counted(count["deviates"], "deviates", "deviate"),
        _counted(count["follows_from_inputs"], "follows from its inputs", "follow from their inputs"),
        _counted(count["decided_by_tolerance"], "is decided by our tolerance", "are decided by our tolerance"),
        _counted(count["does_not_discriminate"], "does not discriminate", "do not discriminate"),
        _counted(count["not_testable"], "is not testable", "are not testable"),
    ]
    published, ours = (
        [
            v
            for v, evidence, of_ours in rows
            if evidence.startswith("independent") and v != "not_testable" and of_ours is o
        ]
        for o in (False, True)
    )
    noun = "statement" if len(published) == 1 else "statements"
    text = f"independent data reproduce {published.count('reproduced')} of the {len(published)} published {noun} "
    text += "that they can test" + (f", and {ours.count('reproduced')} of our {len(ours)} own" if ours else "")
    return f"{text}; of {len(rows)} claims in all, {', '.join(filter(None, parts))}"


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}" if count else ""


def _finished_claims(database: Path, query: str) -> list[tuple[Any, ...]]:
    with open_run(database) as connection:
        return connection.execute(query).fetchall()


def read_baseline(path: Path | str) -> dict[str, str]:
    """Return the recorded verdict of each claim in the baseline."""
    return {row["claim"]: row["verdict"] for row in read_csv(path, ("claim", "verdict"))}


def write_baseline(database: Path, path: Path) -> int:
    """Record the verdicts of the claims that hold in a finished run; return their number.

    Raises
    ------
    InputError
        If a claim of the recorded baseline does not hold in this run, for example because the study is smaller.
    """
    lost = lost_claims(database, read_baseline(path)) if path.is_file() else []
    if lost:
        raise InputError(
            f"{len(lost)} claims of the baseline have lost their verdict, such as {lost[0][0]}; run the default "
            f"study, or remove these claims from the baseline ({path})",
            path=database,
        )
    rows = _finished_claims(database, "SELECT claim, verdict::VARCHAR FROM claim ORDER BY study, claim")
    kept = [(name, verdict) for name, verdict in rows if verdict in HOLDS]
    text = "# Claims that hold in the default study; 'fabricast claims --strict' refuses to lose one.\nclaim,verdict\n"
    write_text(path, text + "".join(f"{name},{verdict}\n" for name, verdict in kept))
    return len(kept)


def lost_claims(database: Path, baseline: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return the claims of a baseline that have another verdict in a finished run.

    Parameters
    ----------
    database : Path
        Database of the run.
    baseline : dict
        Recorded verdict by claim.

    Returns
    -------
    list of (str, str, str)
        Claim, recorded verdict and verdict in the run; ``missing`` if the claim is not in the run. Claims that have
        become ``reproduced`` are not included.
    """
    current = dict(_finished_claims(database, "SELECT claim, verdict::VARCHAR FROM claim"))
    verdicts = [(name, before, current.get(name, "missing")) for name, before in baseline.items()]
    return [(name, before, now) for name, before, now in verdicts if now not in (before, "reproduced")]


def claim_rows(database: Path, *, study: str | None = None, verdict: str | None = None) -> pd.DataFrame:
    """Return the claims of a finished run, with all columns of the table claim but the query.

    Parameters
    ----------
    database : Path
        Database of the run.
    study, verdict : str, optional
        Return only claims of this study, or with this verdict.

    Raises
    ------
    InputError
        If the database is not that of a run, or no claim has this study and verdict.
    """
    with open_run(database) as connection:
        rows = connection.execute(
            "SELECT * EXCLUDE (query) FROM claim WHERE ($study IS NULL OR study::VARCHAR = $study) "
            "AND ($verdict IS NULL OR verdict::VARCHAR = $verdict) ORDER BY study, claim",
            {"study": study, "verdict": verdict},
        ).df()
        known = connection.execute("SELECT DISTINCT study::VARCHAR, verdict::VARCHAR FROM claim").fetchall()
    if rows.empty:
        for option, value, place in (("study", study, 0), ("verdict", verdict, 1)):
            names = sorted({row[place] for row in known})
            if value is not None and value not in names:
                raise unknown_name(option, value, names)
        raise InputError(f"no claim of study '{study}' has the verdict '{verdict}'")
    return rows


def claim_text(database: Path, *, study: str | None = None, verdict: str | None = None) -> Group:
    """Format the claims of a finished run for the terminal.

    Parameters
    ----------
    database : Path
        Database of the run.
    study, verdict : str, optional
        Format only claims of this study, or with this verdict.

    Returns
    -------
    rich.console.Group
        Table with one row per claim, table of verdicts by evidence, and headline.

    Raises
    ------
    InputError
        If the database does not exist or is not a database of fabricast.
    """
    frame = claim_rows(database, study=study, verdict=verdict)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    # The table fits 100 columns; evidence and notes are in the CSV output.
    titles = {"claim": 18, "statement": 26, "published": 10, "observed": 9, "verdict": 8, "holds in": 8}
    table = Table(*(Column(title, overflow="fold", min_width=width) for title, width in titles.items()))
    for row in rows:
        style = _STYLES.get(row["verdict"], "dim")
        observed = "" if row["observed"] is None else escape(observed_text(row["observed"], row["unit"]))
        table.add_row(
            escape(row["claim"]),
            escape(row["statement"]),
            bound_text(row["relation"], row["low"], row["high"], row["unit"]),
            observed,
            f"[{style}]{VERDICT_WORDS[row['verdict']]}[/{style}]",
            holds_text(row["readings"], row["holds_in"], row["share_of_draws"]),
        )
    pairs = [(row["verdict"], row["evidence"]) for row in rows]
    return Group(
        table, evidence_table(pairs), headline((*pair, row["of_ours"]) for pair, row in zip(pairs, rows, strict=True))
    )


def holds_text(readings: int, holds: float | None, draws: float | None) -> str:
    """Format how many interpretations and samples of assumed values a claim holds for.

    Examples
    --------
    >>> holds_text(4, 0.75, None), holds_text(1, 1.0, 0.442)
    ('3 of 4 readings', '44 % of draws')
    """
    parts = [f"{round(holds * readings)} of {readings} readings"] if holds is not None and readings > 1 else []
    return ", ".join(parts + ([] if draws is None else [f"{100 * draws:.0f} % of draws"]))


def evidence_table(pairs: list[tuple[str, str]]) -> Table:
    """Return a terminal table of the number of claims by evidence and verdict."""
    shown = [verdict for verdict in VERDICT_WORDS if any(v == verdict for v, _ in pairs)]
    table = Table("evidence", *(Column(VERDICT_WORDS[verdict], justify="right") for verdict in shown))
    for evidence in EVIDENCE:
        counts = [sum(pair == (verdict, evidence) for pair in pairs) for verdict in shown]
        if sum(counts):
            table.add_row(evidence.replace("_", " "), *(str(count) if count else "" for count in counts))
    return table
