"""Claims of a finished run: terminal output, and comparison with a recorded baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Group
from rich.markup import escape
from rich.table import Column, Table

from fabricast.core.errors import InputError, unknown_name
from fabricast.core.number_text import number_text
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.files import write_text
from fabricast.results.claims import BY_CONSTRUCTION
from fabricast.results.tables import open_run
from fabricast.results.verdicts import HOLDS

#: Display names of the verdicts.
VERDICT_WORDS = {
    "reproduced": "reproduced",
    "decided_by_tolerance": "within our tolerance",
    "source_contradicted": "source contradicted",
    "model_differs": "model differs",
    "depends_on_reading": "depends on reading",
    "follows_from_inputs": "consistent with its inputs",
    "does_not_discriminate": "does not discriminate",
    "not_testable": "not testable",
}
#: Verdict of statements that cannot fail but by an arithmetic error: no tests.
CONSISTENT = "follows_from_inputs"
_STYLES = {"reproduced": "green", "source_contradicted": "yellow", "model_differs": "yellow"}
#: Verdicts by beginnings of the name of the evidence, with the title of a column and the words of a headline.
_RESULTS = (
    ("reproduced", ("independent",), "independent data", "hold in independent data"),
    ("reproduced", ("in_sample",), "in sample", "hold in data to which the model or our reading was fitted"),
    ("reproduced", ("own_simulator",), "our simulator", "hold in our simulator"),
    ("decided_by_tolerance", ("",), "our tolerance", "hold within our tolerance"),
    ("source_contradicted", ("independent",), "data contradict", "are contradicted by measurements"),
    (
        "source_contradicted",
        ("published", "definition"),
        "source contradicts itself",
        "disagree with other numbers of the same source",
    ),
    ("model_differs", ("own", "independent", "in_sample"), "our model differs", "are not confirmed by our model"),
    ("model_differs", BY_CONSTRUCTION, "does not follow from inputs", "do not follow from recalled or assumed inputs"),
    ("depends_on_reading", ("",), "depends on reading", "depend on the reading or on assumed values"),
    ("does_not_discriminate", ("",), "does not discriminate", "hold for trivial models too"),
    (CONSISTENT, ("",), "consistent with inputs", "only agree with their inputs"),
    ("not_testable", ("",), "not testable", "cannot be tested"),
)
#: SQL expression of the result of a target, beside the verdicts of claims.
TARGET_RESULT = "CASE WHEN met IS NULL THEN 'not_testable' WHEN met THEN 'met' ELSE 'missed' END"
#: Verdicts of claims, and whether targets are met.
_VERDICTS = (
    "SELECT claim, study, verdict::VARCHAR AS verdict FROM claim "
    f"UNION ALL SELECT target, study, {TARGET_RESULT} FROM target"
)
#: Values of smaller magnitude are rounding errors and are shown as 0.
_ROUNDING = 1e-9
#: Number of claims up to which source, reading, range and note are printed.
_MOST_DETAILED = 3
#: Relative difference of values of two runs that are equal.
_SAME_VALUE = 1e-6
#: Width of the column of names in a terminal, which folds long ones; elsewhere they are whole, for search.
_NAME_WIDTH = 17
_RELATIONS = {"at_least": "at least", "at_most": "at most"}


def bound_text(relation: str, low: float | None, high: float | None, unit: str) -> str:
    """Format the bounds of a statement in the unit of the statement.

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


def headline(rows: Iterable[tuple[str, str]], study: str = "") -> str:
    """Summarise the verdicts on published statements in one sentence, with those that were not tested at its end.

    >>> headline([("reproduced", "independent_fit"), ("model_differs", "own_simulator")], "max-rate")
    'of 2 tested statements of the max-rate study, 1 holds in independent data and 1 is not confirmed by our model'
    """
    rows = list(rows)
    tested = [row for row in rows if is_tested(*row)]
    of_study = f" of the {study} study" if study else ""
    others = _counts_text([row for row in rows if not is_tested(*row)])
    if not tested:
        return f"no statement{of_study} is tested with data other than its inputs: {others}"
    found = f"of {_counted(len(tested), 'tested statement')}{of_study}, {_counts_text(tested)}"
    return f"{found}; of the others, {others}" if others else found


def is_tested(verdict: str, evidence: str) -> bool:
    """Return whether a simulator, or data other than its inputs, could confirm and refute a statement.

    >>> is_tested("model_differs", "own_simulator"), is_tested("model_differs", "assumed_inputs")
    (True, False)
    """
    return verdict != "not_testable" and evidence not in BY_CONSTRUCTION


def _counts_text(rows: Iterable[tuple[str, str]]) -> str:
    """Return the number of statements with each result in the words of a headline."""
    parts = [
        f"{count} {_singular(words) if count == 1 else words}"
        for (_, _, _, words), count in zip(_RESULTS, result_counts(rows).values(), strict=True)
        if count
    ]
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def result_counts(rows: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Count statements by verdict, with reproductions and contradictions separated by evidence.

    >>> counts = result_counts([("reproduced", "in_sample"), ("source_contradicted", "definition")])
    >>> {title: count for title, count in counts.items() if count}
    {'in sample': 1, 'source contradicts itself': 1}
    """
    rows = list(rows)
    return {
        title: sum(v == verdict and e.startswith(evidence) for v, e in rows) for verdict, evidence, title, _ in _RESULTS
    }


def _singular(words: str) -> str:
    verb, _, rest = words.partition(" ")
    if verb == "only":
        return f"only {_singular(rest).replace('their', 'its')}"
    return f"{ {'are': 'is', 'do': 'does', 'cannot': 'cannot'}.get(verb, f'{verb}s') } {rest}"


def targets_text(targets: Iterable[tuple[bool | None, bool | None]]) -> str:
    """Summarise how many targets of this project are met.

    >>> targets_text([(True, True), (True, False), (False, True), (None, None)])
    '2 of 3 testable targets of this project are met, 1 of them by a trivial model, too'
    """
    tested = [(met, discriminates) for met, discriminates in targets if met is not None]
    count = sum(bool(met) for met, _ in tested)
    trivial = sum(bool(met) and discriminates is False for met, discriminates in tested)
    text = f"{count} of {len(tested)} testable targets of this project {'is' if count == 1 else 'are'} met"
    return f"{text}, {trivial} of them by a trivial model, too" if trivial else text


def _finished_claims(database: Path, query: str) -> list[tuple[Any, ...]]:
    with open_run(database) as connection:
        return connection.execute(query).fetchall()


def read_baseline(path: Path | str) -> dict[str, str]:
    """Return the recorded verdict of each claim in the baseline."""
    return {row["claim"]: row["verdict"] for row in read_csv(path, ("claim", "verdict"))}


def write_baseline(database: Path, path: Path) -> int:
    """Record the verdicts of the claims that hold in a finished run; return their number."""
    lost = lost_claims(database, read_baseline(path)) if path.is_file() else []
    if lost:
        raise InputError(
            f"{len(lost)} claims of the baseline have lost their verdict, such as {lost[0][0]}; run the default "
            f"study, or remove these claims from the baseline ({path})",
            path=database,
        )
    rows = _finished_claims(database, f"SELECT claim, verdict FROM ({_VERDICTS}) ORDER BY study, claim")
    kept = [(name, verdict) for name, verdict in rows if verdict in (*HOLDS, "met")]
    text = "# Claims that hold in the default study; 'fabricast claims --strict' refuses to lose one.\nclaim,verdict\n"
    write_text(path, text + "".join(f"{name},{verdict}\n" for name, verdict in kept))
    return len(kept)


def lost_claims(database: Path, baseline: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return the claims of a baseline that have another verdict in a finished run."""
    current = dict(_finished_claims(database, f"SELECT claim, verdict FROM ({_VERDICTS})"))
    verdicts = [(name, before, current.get(name, "missing")) for name, before in baseline.items()]
    return [(name, before, now) for name, before, now in verdicts if now not in (before, "reproduced")]


def claim_rows(
    database: Path, *, study: str | None = None, verdict: str | None = None, name: str | None = None
) -> pd.DataFrame:
    """Return the claims of a finished run, with all columns of the table claim but the query."""
    wanted_words = None if verdict is None else verdict.strip().lower().replace("_", " ")
    codes = (code for code, words in VERDICT_WORDS.items() if wanted_words in (words, code.replace("_", " ")))
    verdict = next(codes, verdict)
    with open_run(database) as connection:
        rows = connection.execute(
            "SELECT * EXCLUDE (query) FROM claim WHERE ($study IS NULL OR study::VARCHAR = $study) "
            "AND ($verdict IS NULL OR verdict::VARCHAR = $verdict) "
            "AND ($name IS NULL OR contains(claim, $name)) ORDER BY study, claim",
            {"study": study, "verdict": verdict, "name": name},
        ).df()
        known = connection.execute("SELECT DISTINCT study::VARCHAR, verdict::VARCHAR FROM claim").fetchall()
    if not known:
        raise InputError("has no claims, expected the database of a run of the published studies", path=database)
    if rows.empty:
        for option, value, place in (("study", study, 0), ("verdict", verdict, 1)):
            names = sorted({row[place] for row in known})
            if value is not None and value not in names:
                raise unknown_name(option, value, names)
        wanted = [f"a name with '{name}'"] * (name is not None) + [f"the verdict '{verdict}'"] * (verdict is not None)
        of_study = "" if study is None else f" of study '{study}'"
        raise InputError(f"no claim{of_study} has {' and '.join(wanted)}")
    return rows


def claim_text(
    database: Path,
    *,
    study: str | None = None,
    verdict: str | None = None,
    name: str | None = None,
    folds_names: bool = True,
    is_narrow: bool = False,
) -> Group:
    """Format the claims of a finished run for the terminal: as a table, or if it is narrow as lines."""
    frame = claim_rows(database, study=study, verdict=verdict, name=name)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    # The table fits 100 columns; evidence and notes are in the CSV output.
    longest = max(frame["claim"].str.len())
    widths = {
        "claim": _NAME_WIDTH if folds_names else longest,
        "statement": None,
        "published": 11,
        "observed": 9,
        "verdict": 11,
        "holds in": 9,
    }
    columns = (
        Column(title, overflow="fold", width=width, ratio=1 if width is None else None)
        for title, width in widths.items()
    )
    table = Table(*columns, expand=True)
    for row in rows:
        style = _STYLES.get(row["verdict"], "dim")
        observed = "" if row["observed"] is None else escape(observed_text(row["observed"], row["unit"]))
        table.add_row(
            escape(row["claim"]),
            escape(row["statement"]),
            bound_text(row["relation"], row["low"], row["high"], row["unit"]),
            observed,
            f"[{style}]{VERDICT_WORDS[row['verdict']]}[/{style}]\n{row['evidence'].replace('_', ' ')}",
            holds_text(row["readings"], row["holds_in"], row["share_of_draws"]),
        )
    shown = [_claim_lines(row) for row in rows] if is_narrow else [table]
    parts: list[Table | str] = [*shown, *(_details(row) for row in rows if len(rows) <= _MOST_DETAILED)]
    parts.append(_verdict_table([(row["study"], row["verdict"]) for row in rows]))
    parts.append(headline(((row["verdict"], row["evidence"]) for row in rows), study or ""))
    if verdict is None and name is None:
        targets = _finished_claims(
            database, "SELECT target, study::VARCHAR, met, discriminates FROM target ORDER BY study, target"
        )
        targets = [row for row in targets if study in (None, row[1])]
        missed = [name for name, _, met, _ in targets if met is False]
        parts.append(targets_text(row[2:] for row in targets) + (f"; missed: {', '.join(missed)}" if missed else ""))
    return Group(*parts)


def _claim_lines(row: Mapping[Any, Any]) -> str:
    """Return a claim as lines: name and verdict, statement, published and observed value."""
    style = _STYLES.get(row["verdict"], "dim")
    verdict = f"[{style}]{VERDICT_WORDS[row['verdict']]}[/{style}] ({row['evidence'].replace('_', ' ')})"
    values = [f"published {bound_text(row['relation'], row['low'], row['high'], row['unit'])}"]
    if row["observed"] is not None:
        values.append(f"observed {escape(observed_text(row['observed'], row['unit']))}")
    holds = holds_text(row["readings"], row["holds_in"], row["share_of_draws"])
    values += [f"holds in {holds}"] if holds else []
    return f"[bold]{escape(row['claim'])}[/bold]: {verdict}\n  {escape(row['statement'])}\n  {', '.join(values)}"


def _details(row: Mapping[Any, Any]) -> str:
    """Return source, reading, range and note of a claim, for few claims."""
    low, high = row["observed_low"], row["observed_high"]
    ends = [observed_text(one, row["unit"]) for one in (low, high) if one is not None]
    parts = {
        "source": row["source"],
        "reading": row["primary_reading"],
        "over all readings": " to ".join(ends) if low != high else "",
        "note": row["note"],
    }
    return escape("\n".join([row["claim"], *(f"  {name}: {text}" for name, text in parts.items() if text)]))


def holds_text(readings: int, holds: float | None, draws: float | None) -> str:
    """Format how many interpretations and samples of assumed values a claim holds for.

    >>> holds_text(4, 0.75, None), holds_text(1, 1.0, 0.442)
    ('3 of 4 readings', '44 % of draws')
    """
    parts = [f"{round(holds * readings)} of {readings} readings"] if holds is not None and readings > 1 else []
    return ", ".join(parts + ([] if draws is None else [f"{100 * draws:.0f} % of draws"]))


def _verdict_table(pairs: list[tuple[str, str]]) -> Table:
    """Return a terminal table of the number of claims by study and verdict."""
    shown = [verdict for verdict in VERDICT_WORDS if any(v == verdict for _, v in pairs)]
    table = Table("study", *(Column(VERDICT_WORDS[verdict], justify="right") for verdict in shown))
    for study in dict.fromkeys(study for study, _ in pairs):
        counts = [pairs.count((study, verdict)) for verdict in shown]
        table.add_row(study, *(str(count) if count else "" for count in counts))
    return table


def changed_claims(database: Path, other: Path, *, study: str | None = None) -> pd.DataFrame:
    """Return the claims whose value or verdict differs from that of another run: before is the other run."""
    columns = ["study", "claim", "unit", "observed", "verdict"]
    now, before = (claim_rows(path, study=study)[columns] for path in (database, other))
    both = before.merge(now, on=["study", "claim", "unit"], how="outer", suffixes=("_before", "_now"), sort=True)
    value, earlier = (both[f"observed_{when}"].to_numpy(float) for when in ("now", "before"))
    is_equal = np.isclose(value, earlier, rtol=_SAME_VALUE, atol=_ROUNDING, equal_nan=True)
    is_same_verdict = both["verdict_before"].astype(str) == both["verdict_now"].astype(str)
    changed: pd.DataFrame = both[~(is_equal & is_same_verdict)].reset_index(drop=True)
    return changed


def changes_text(changed: pd.DataFrame) -> Table | str:
    """Format the claims that differ between two runs for the terminal."""
    if changed.empty:
        return "no claim differs between the two runs"
    table = Table(Column("claim", no_wrap=True), "before", "now", "verdict before", "verdict now")
    for row in changed.astype(object).where(changed.notna(), None).to_dict("records"):
        values = (observed_text(row[f"observed_{when}"], row["unit"]) for when in ("before", "now"))
        verdicts = (row[f"verdict_{when}"] for when in ("before", "now"))
        table.add_row(
            escape(row["claim"]),
            *map(escape, values),
            *(VERDICT_WORDS.get(one, one) if one else "–" for one in verdicts),
        )
    return table
