"""Verdicts on claims, and whether targets are met, for all interpretations, trivial baselines and mutated data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from fabricast.core.errors import InputError
from fabricast.results.claims import BY_CONSTRUCTION, Claim, Reading
from fabricast.results.connections import connect_apart
from fabricast.results.tables import report_damaged_files

#: Verdicts of statements that agree with the observed value.
HOLDS = ("reproduced", "follows_from_inputs", "does_not_discriminate", "decided_by_tolerance")
#: Evidence that shows a source to be wrong if the statement fails in all interpretations: arithmetic on its numbers,
#: or measurements by others. Other evidence depends on our model or on assumptions.
_AGAINST_SOURCE = ("published_inputs", "definition", "independent_measurement")
#: Shares of draws of assumed values between which the statement depends on the draw.
_OPEN_SHARE = (0.05, 0.95)

#: Differences between baseline and model up to this fraction of the observed value are rounding errors.
_EQUAL = 1e-9
#: Relative difference of the distances from the bounds up to which the data do not distinguish baseline and model.
_AS_GOOD = 0.1
#: Tables with smaller files are loaded into memory while claims are evaluated.
_SMALL_BYTES = 1_000_000


@dataclass(frozen=True)
class ClaimTables:
    """Rows that claims add to the results tables."""

    #: Rows as in schema.sql. Targets are statements of this project; their readings, baselines and mutations are in the
    #: same tables as those of claims.
    claim: pd.DataFrame
    target: pd.DataFrame
    claim_reading: pd.DataFrame
    claim_baseline: pd.DataFrame
    claim_mutation: pd.DataFrame


def judge(claim: Claim, observed: float | None) -> str:
    """Compare an observed value with a statement, regardless of the evidence.

    >>> claim = Claim(claim="c", study="pcie", statement="s", source="t", relation="at_least", value=95, unit="%",
    ...               evidence="own_simulator", query="SELECT 1",
    ...               tolerance={"value": 2, "reason": "ours", "because": "example"})
    >>> judge(claim, 99.0), judge(claim, 94.0), judge(claim, 90.0)
    ('reproduced', 'decided_by_tolerance', 'deviates')
    """
    if observed is None:
        return "not_testable"
    low, high = claim.bounds
    beyond = max(low - observed, observed - high)
    # Bounds are decimal numbers and observations are sums, so equality allows for double rounding errors.
    printed = claim.rounding + 1e-9 * max(abs(observed), 1e-30)
    if beyond <= printed:
        return "reproduced"
    if claim.tolerance is not None and beyond <= max(claim.tolerance.value, printed):
        return "reproduced" if claim.tolerance.reason == "authors" else "decided_by_tolerance"
    return "deviates"


def evaluate_claims(claims: list[Claim], tables: dict[str, list[Path]]) -> ClaimTables:
    """Evaluate all claims with the tables of a run."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ClaimTables.__dataclass_fields__}
    parts = [path for paths in tables.values() for path in paths]
    with connect_apart() as connection, report_damaged_files(parts):
        for name, paths in tables.items():
            relation = connection.read_parquet([str(path) for path in paths], union_by_name=True)
            # Many queries read the same small tables.
            if sum(path.stat().st_size for path in paths) < _SMALL_BYTES:
                relation.create(name)
            else:
                relation.create_view(name)
        for claim in claims:
            for name, evaluated in _evaluated(connection, claim).items():
                rows[name] += evaluated
    columns = {
        "claim_reading": ["claim", "reading", "observed", "verdict", "is_default", "query"],
        "claim_baseline": ["claim", "baseline", "observed", "verdict"],
        "claim_mutation": ["claim", "mutation", "observed", "verdict"],
    }
    frames = {name: pd.DataFrame(evaluated, columns=columns.get(name)) for name, evaluated in rows.items()}
    numbers = ("low", "high", "tolerance", "observed", "observed_low", "observed_high", "holds_in", "share_of_draws")
    for frame in frames.values():
        for column in frame.columns.intersection(list(numbers)):
            frame[column] = frame[column].astype("float64")
    return ClaimTables(**frames)


def _evaluated(connection: duckdb.DuckDBPyConnection, claim: Claim) -> dict[str, list[dict[str, Any]]]:
    row = _statement(claim)
    table = "target" if claim.of_ours else "claim"
    if claim.query is None:
        return {table: [_row(claim, row | {"verdict": "not_testable"})]}
    listed = {reading.name: reading for reading in claim.all_readings()}
    readings = [_read(connection, claim, reading) for reading in listed.values()]
    candidates = [reading for reading in readings if reading["is_default"]]
    tested = [reading for reading in readings if reading["verdict"] != "not_testable"]
    # A target is shown with a reading that misses it, if there is one.
    wanted = [reading for reading in candidates if claim.of_ours and reading["verdict"] == "deviates"]
    wanted += [reading for reading in candidates if reading["verdict"] != "not_testable"]
    shown = (wanted or candidates)[0]
    row |= {"observed": shown["observed"], "query": shown["query"], "primary_reading": shown["reading"]}
    row |= {
        "readings": len(tested),
        "holds_in": sum(reading["verdict"] in HOLDS for reading in tested) / len(tested) if tested else None,
    }
    if len(tested) > 1:
        observed = [reading["observed"] for reading in tested]
        row |= {"observed_low": min(observed), "observed_high": max(observed)}
    values = listed[shown["reading"]].values
    baselines = [_baseline(connection, claim, name, values) for name in claim.baselines]
    mutations = _mutation(connection, claim, shown)
    if claim.share_of_draws is not None:
        row["share_of_draws"] = _observe(connection, claim, claim.share_of_draws)
    row["verdict"] = _verdict(claim, row, candidates, tested, baselines)
    if row["verdict"] == "not_testable":
        row["note"] = f"{_why_not_testable(claim, shown)}. {claim.note}".strip()
    elif claim.over_phases:
        row |= _range_over_phases(connection, claim, shown, row)
    changed = [one["verdict"] for one in (*mutations, *baselines)]
    row["shown_to_fail"] = any(one["verdict"] == "deviates" for one in tested) or "deviates" in changed
    return {
        table: [_row(claim, row)],
        "claim_reading": readings,
        "claim_baseline": baselines,
        "claim_mutation": mutations,
    }


def _row(claim: Claim, row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of the table claim, or of the table target with whether the target is met."""
    if not claim.of_ours:
        return row
    verdict = row["verdict"]
    met = None if verdict == "not_testable" else verdict in HOLDS
    kept = (
        "study",
        "statement",
        "source",
        "relation",
        "low",
        "high",
        "unit",
        "observed",
        "observed_low",
        "observed_high",
        "evidence",
        "readings",
        "holds_in",
        "shown_to_fail",
        "note",
        "figure",
        "query",
    )
    return {"target": row["claim"], "met": met, "discriminates": verdict != "does_not_discriminate"} | {
        name: row[name] for name in kept
    }


def _statement(claim: Claim) -> dict[str, Any]:
    """Return the columns of a claim row that do not depend on the run, and empty results."""
    kept = (
        "claim",
        "study",
        "statement",
        "source",
        "relation",
        "unit",
        "rounding",
        "source_words",
        "evidence",
        "note",
        "figure",
    )
    low, high = claim.bounds
    row = {name: getattr(claim, name) for name in kept}
    row |= {"low": low if low > -float("inf") else None, "high": high if high < float("inf") else None}
    if claim.tolerance is not None:
        tolerance = claim.tolerance
        row |= {"tolerance": tolerance.value, "tolerance_reason": tolerance.reason}
        row |= {"tolerance_because": tolerance.because, "tolerance_version": tolerance.version}
    row |= dict.fromkeys(("observed", "observed_low", "observed_high", "holds_in", "share_of_draws", "query"))
    row["primary_reading"] = ""
    return row | {"readings": 0, "shown_to_fail": False}


def _read(connection: duckdb.DuckDBPyConnection, claim: Claim, reading: Reading) -> dict[str, Any]:
    query = claim.query_with(reading.values)
    observed = _observe(connection, claim, query)
    return {
        "claim": claim.claim,
        "reading": reading.name,
        "observed": observed,
        "verdict": judge(claim, observed),
        "is_default": reading.primary,
        "query": query,
    }


def _distance(claim: Claim, observed: float | None) -> float:
    """Return the distance of an observed value from its bounds; lower is better.

    The distance is negative inside one-sided bounds and intervals.
    """
    if observed is None:
        return -float("inf")
    low, high = claim.bounds
    return abs(observed - low) if low == high else max(low - observed, observed - high)


def _is_as_good(claim: Claim, baseline: float | None, observed: float | None) -> bool:
    """Return whether a baseline is about as close to the bounds as the observed value."""
    distance = _distance(claim, observed)
    return _distance(claim, baseline) <= distance + _AS_GOOD * abs(distance) + _EQUAL * abs(observed or 0)


def _verdict(
    claim: Claim,
    row: dict[str, Any],
    candidates: list[dict[str, Any]],
    tested: list[dict[str, Any]],
    baselines: list[dict[str, Any]],
) -> str:
    """Return the verdict of a claim from its primary interpretations, evidence and baselines."""
    verdicts = [reading["verdict"] for reading in candidates if reading["verdict"] != "not_testable"]
    if not verdicts:
        return "not_testable"
    share = row["share_of_draws"]
    if claim.unquantified or (share is not None and _OPEN_SHARE[0] <= share <= _OPEN_SHARE[1]):
        return "depends_on_reading"
    holds = [verdict in HOLDS for verdict in verdicts]
    if any(holds) and not all(holds):
        return "depends_on_reading"
    if not any(holds):
        everywhere = all(reading["verdict"] == "deviates" for reading in tested)
        if claim.evidence == "recalled_inputs":
            # Numbers that are recalled from memory refute nothing.
            return "not_testable" if everywhere else "depends_on_reading"
        if claim.evidence == "assumed_inputs" and claim.is_assumption:
            return "not_testable"
        return "source_contradicted" if everywhere and claim.evidence in _AGAINST_SOURCE else "model_differs"
    if claim.evidence in BY_CONSTRUCTION:
        return "follows_from_inputs"
    compared = [one for one in baselines if one["verdict"] != "not_testable"]
    passed = [one for one in compared if one["verdict"] in HOLDS]
    as_good = [one for one in passed if _is_as_good(claim, one["observed"], row["observed"])]
    if compared and (len(passed) == len(compared) or as_good):
        return "does_not_discriminate"
    return "decided_by_tolerance" if "decided_by_tolerance" in verdicts else "reproduced"


def _why_not_testable(claim: Claim, reading: dict[str, Any]) -> str:
    if claim.is_assumption and reading["verdict"] != "not_testable":
        return "an assumption of the source, which it relaxes itself: the value of this run contradicts no statement"
    return "this run contains no value for it" + (f" ({reading['reading']})" if reading["reading"] else "")


def _baseline(connection: duckdb.DuckDBPyConnection, claim: Claim, name: str, values: dict[str, str]) -> dict[str, Any]:
    """Evaluate a trivial baseline for the decisive interpretation."""
    change = claim.baselines[name]
    query = claim.query_with(values, change) if isinstance(change, str) else claim.query_with(values | change)
    observed = _observe(connection, claim, query)
    return {"claim": claim.claim, "baseline": name, "observed": observed, "verdict": judge(claim, observed)}


def _mutation(connection: duckdb.DuckDBPyConnection, claim: Claim, default: dict[str, Any]) -> list[dict[str, Any]]:
    if claim.mutation is None or default["verdict"] == "not_testable":
        return []
    observed = _observe(connection, claim, claim.mutated(default["query"]))
    return [{"claim": claim.claim, "mutation": claim.mutation, "observed": observed, "verdict": judge(claim, observed)}]


def _range_over_phases(
    connection: duckdb.DuckDBPyConnection, claim: Claim, default: dict[str, Any], row: dict[str, Any]
) -> dict[str, Any]:
    """Evaluate the lower and upper limit of a share over the phases of the simulated arbiters."""
    limits = [
        _observe(connection, claim, re.sub(r"\bshare_within\b", f"share_within_{end}", default["query"]))
        for end in ("least", "most")
    ]
    assert limits[0] is not None and limits[1] is not None
    text = f"{claim.note}; over the phases of the simulated arbiters {limits[0]:.4g} to {limits[1]:.4g} {claim.unit}"
    if any((judge(claim, end) in HOLDS) != (default["verdict"] in HOLDS) for end in limits):
        text += ": the verdict depends on the phase"
    values = [value for value in (row["observed_low"], row["observed_high"], *limits) if value is not None]
    return {"observed_low": min(values), "observed_high": max(values), "note": text.removeprefix("; ")}


def _observe(connection: duckdb.DuckDBPyConnection, claim: Claim, query: str) -> float | None:
    try:
        rows = connection.execute(query).fetchall()
    except duckdb.Error as error:
        raise InputError(f"claim '{claim.claim}': the query fails: {str(error).splitlines()[0]}") from error
    if len(rows) > 1 or (rows and len(rows[0]) != 1):
        raise InputError(f"claim '{claim.claim}': the query returns {len(rows)} rows, expected one number")
    return None if not rows or rows[0][0] is None else float(rows[0][0])
