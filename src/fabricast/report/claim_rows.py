"""Format claims and their evidence for the report."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from fabricast.results.claim_record import (
    VERDICT_WORDS,
    bound_text,
    headline,
    holds_text,
    observed_text,
    result_counts,
    targets_text,
)
from fabricast.results.claims import EVIDENCE

Rows = list[dict[str, Any]]
#: Marks of verdicts: a verdict must not be distinguished by colour only.
_MARKS = {
    "reproduced": "✓",
    "decided_by_tolerance": "✓",
    "source_contradicted": "≠",
    "model_differs": "≠",
    "depends_on_reading": "±",
}
#: Verdicts of statements that fail in the primary reading or that no reading decides.
_DEVIATING = ("source_contradicted", "model_differs", "depends_on_reading")


def claim_sections(claims: Rows, targets: Rows, readings: Rows, baselines: Rows) -> dict[str, Any]:
    """Return the data of the report sections on claims and targets."""
    for row in claims:
        row |= _texts(row) | {
            "word": VERDICT_WORDS[row["verdict"]],
            "mark": _MARKS.get(row["verdict"], "–"),
            "colour": "g" if _MARKS.get(row["verdict"]) == "✓" else "b" if row["verdict"] in _DEVIATING else "n",
        }
        # A claim without a value has no share of interpretations that hold.
        row["holds"] = (
            ""
            if row["verdict"] == "not_testable"
            else holds_text(row["readings"], row["holds_in"], row["share_of_draws"])
        )
    for row in targets:
        row |= _texts(row) | {"holds": holds_text(row["readings"], row["holds_in"], None)}
        row["word"] = {None: "not testable", True: "met", False: "missed"}[row["met"]]
        if row["met"] and not row["discriminates"]:
            row["word"] = "met, and by trivial models too"
    unit = {row["claim"]: row["unit"] for row in claims} | {row["target"]: row["unit"] for row in targets}
    for entry in (*readings, *baselines):
        entry["shown"] = observed_text(entry["observed"], unit[entry["claim"]])
    used = [verdict for verdict in VERDICT_WORDS if any(row["verdict"] == verdict for row in claims)]
    return {
        "claims": claims,
        "targets": targets,
        "missed": [row for row in targets if row["met"] is False],
        "targets_headline": targets_text((row["met"], row["discriminates"]) for row in targets),
        "readings": {name: subset for name, subset in _by_claim(readings).items() if len(subset) > 1},
        "baselines": _by_claim(baselines),
        "evidence": [name for name in EVIDENCE if any(row["evidence"] == name for row in claims)],
        "results": [
            title
            for title, count in result_counts((row["verdict"], row["evidence"]) for row in claims).items()
            if count
        ],
        "verdicts": [(verdict, VERDICT_WORDS[verdict], _count(claims, verdict)) for verdict in used],
        "verdict_order": {verdict: position for position, verdict in enumerate(VERDICT_WORDS)},
    }


def study_verdicts(claims: Rows, short: str) -> dict[str, Any]:
    """Return the headline and the number of claims by verdict of one study."""
    return {
        "headline": headline(((row["verdict"], row["evidence"]) for row in claims), short),
        "results": result_counts((row["verdict"], row["evidence"]) for row in claims),
    }


def _texts(row: dict[str, Any]) -> dict[str, str]:
    low, high = row["observed_low"], row["observed_high"]
    ends = f"{observed_text(low, '').strip()} to {observed_text(high, row['unit'])}"
    spread = "" if low is None or low == high else ends
    shown = observed_text(row["observed"], row["unit"])
    range_text = spread and f"{spread} over all readings"
    if spread and row.get("verdict") == "depends_on_reading":
        # No reading is preferred: one value would be arbitrary.
        shown, range_text = ends, f"over {row['readings']} readings"
    if (share := row.get("share_of_draws")) is not None:
        range_text = f"in {100 * share:.0f} % of draws of assumed values"
    return {
        "published": bound_text(row["relation"], row["low"], row["high"], row["unit"]),
        "shown": shown,
        "range": range_text,
    }


def _count(claims: Rows, verdict: str) -> int:
    return sum(row["verdict"] == verdict for row in claims)


def _by_claim(rows: Rows) -> dict[str, Rows]:
    return {name: list(readings) for name, readings in groupby(rows, key=lambda row: row["claim"])}
