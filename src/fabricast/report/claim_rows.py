"""Format claims and their evidence for the report."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from fabricast.results.claim_record import VERDICT_WORDS, bound_text, headline, holds_text, observed_text
from fabricast.results.claims import EVIDENCE

__all__ = ["claim_sections"]

Rows = list[dict[str, Any]]
#: Marks of verdicts: a verdict must not be distinguished by colour only.
_MARKS = {"reproduced": "✓", "deviates": "≠"}


def claim_sections(claims: Rows, readings: Rows, baselines: Rows) -> dict[str, Any]:
    """Return the data of the report sections on claims.

    Parameters
    ----------
    claims, readings, baselines : list of dict
        Rows of the tables claim, claim_reading and claim_baseline, each ordered by claim.

    Returns
    -------
    dict
        ``claims`` with formatted texts, ``readings`` (interpretations) of claims with several of them, ``baselines``
        by claim, counts by evidence, verdicts from independent data, and the headline.
    """
    for row in claims:
        row |= {
            "published": bound_text(row["relation"], row["low"], row["high"], row["unit"]),
            "shown": observed_text(row["observed"], row["unit"]),
            "word": VERDICT_WORDS[row["verdict"]],
            # A claim without a value has no share of interpretations that hold.
            "holds": "" if row["verdict"] == "not_testable"
            else holds_text(row["readings"], row["holds_in"], row["share_of_draws"]),
            "mark": _MARKS.get(row["verdict"], "–"),
        }  # fmt: skip
    spread = _by_claim(readings)
    unit = {row["claim"]: row["unit"] for row in claims}
    for entry in (*readings, *baselines):
        entry["shown"] = observed_text(entry["observed"], unit[entry["claim"]])
    for row in claims:
        subset = [entry for entry in spread.get(row["claim"], []) if entry["observed"] is not None]
        values = [entry["observed"] for entry in subset]
        row["decided_by"] = next(
            (entry["reading"] for entry in subset if entry["is_default"] and entry["observed"] == row["observed"]), ""
        )
        if len(values) > 1 and min(values) < max(values):
            ends = (observed_text(min(values), ""), observed_text(max(values), row["unit"]))
            row["range"] = f"{ends[0].strip()} to {ends[1]} over {len(values)} interpretations"
        else:
            row["range"] = ""
    evidence = []
    untested = [row for row in claims if row["verdict"] == "not_testable"]
    for name in EVIDENCE:
        subset = [row for row in claims if row["evidence"] == name and row not in untested]
        evidence.append(
            {"evidence": name, "name": name.replace("_", " "), "all": len(subset), "counts": _count_bars(subset)}
        )
    # Claims without a value in this run have no evidence.
    evidence.append(
        {"evidence": "", "name": "none: not testable", "all": len(untested), "counts": _count_bars(untested)}
    )
    tested = [
        row
        for row in claims
        if row["evidence"].startswith("independent") and row["verdict"] != "not_testable" and not row["of_ours"]
    ]
    testable = [row["verdict"] for row in tested]
    return {
        "claims": claims,
        "readings": {name: subset for name, subset in _by_claim(readings).items() if len(subset) > 1},
        "baselines": _by_claim(baselines),
        "evidence": [row for row in evidence if row["all"]],
        "evidence_order": {name: position for position, name in enumerate(EVIDENCE)},
        "independent": {
            "reproduced": testable.count("reproduced"),
            "testable": len(testable),
            "studies": list(dict.fromkeys(row["study"] for row in tested)),
        },
        "count_bars": _count_bars,
        "verdicts": [
            (verdict, word, sum(row["verdict"] == verdict for row in claims)) for verdict, word in VERDICT_WORDS.items()
        ],
        "verdict_order": {verdict: position for position, verdict in enumerate(VERDICT_WORDS)},
        "headline": headline((row["verdict"], row["evidence"], bool(row["of_ours"])) for row in claims),
    }


def _count_bars(claims: Rows) -> list[tuple[str, str, int]]:
    """Return colour, label and count of the three sections of a bar of verdicts."""
    holds = sum(row["verdict"] == "reproduced" for row in claims)
    deviates = sum(row["verdict"] == "deviates" for row in claims)
    return [("g", "hold", holds), ("b", "deviate", deviates), ("n", "decide nothing", len(claims) - holds - deviates)]


def _by_claim(rows: Rows) -> dict[str, Rows]:
    return {name: list(own) for name, own in groupby(rows, key=lambda row: row["claim"])}
