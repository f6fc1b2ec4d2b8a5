"""Claims as the report shows them: in words, with what stands behind each verdict."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from fabricast.results.claim_record import VERDICT_WORDS, bound_text, headline, holds_text, observed_text
from fabricast.results.claims import EVIDENCE

__all__ = ["claim_sections"]

Rows = list[dict[str, Any]]
#: Never by colour alone.
_MARKS = {"reproduced": "✓", "deviates": "≠"}


def claim_sections(claims: Rows, readings: Rows, baselines: Rows) -> dict[str, Any]:
    """Return what the page says of claims.

    Parameters
    ----------
    claims, readings, baselines : list of dict
        Rows of the tables claim, claim_reading and claim_baseline, each ordered by claim.

    Returns
    -------
    dict
        ``claims`` with texts, readings and baselines by claim where there are several, counts by evidence, what
        independent data decide, and the headline.
    """
    for row in claims:
        row |= {
            "published": bound_text(row["relation"], row["low"], row["high"], row["unit"]),
            "shown": observed_text(row["observed"], row["unit"]),
            "word": VERDICT_WORDS[row["verdict"]],
            # Of no value nothing holds.
            "holds": "" if row["verdict"] == "not_testable"
            else holds_text(row["readings"], row["holds_in"], row["share_of_draws"]),
            "mark": _MARKS.get(row["verdict"], "–"),
        }  # fmt: skip
    spread = _by_claim(readings)
    unit = {row["claim"]: row["unit"] for row in claims}
    for one in (*readings, *baselines):
        one["shown"] = observed_text(one["observed"], unit[one["claim"]])
    for row in claims:
        own = [one for one in spread.get(row["claim"], []) if one["observed"] is not None]
        found = [one["observed"] for one in own]
        row["decided_by"] = next(
            (one["reading"] for one in own if one["is_default"] and one["observed"] == row["observed"]), ""
        )
        if len(found) > 1 and min(found) < max(found):
            ends = (observed_text(min(found), ""), observed_text(max(found), row["unit"]))
            row["range"] = f"{ends[0].strip()} to {ends[1]} over {len(found)} readings"
        else:
            row["range"] = ""
    evidence = []
    untested = [row for row in claims if row["verdict"] == "not_testable"]
    for name in EVIDENCE:
        own = [row for row in claims if row["evidence"] == name and row not in untested]
        evidence.append({"evidence": name, "name": name.replace("_", " "), "all": len(own), "counts": _count_bars(own)})
    # What this run has no value for rests on nothing.
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
        "readings": {name: own for name, own in _by_claim(readings).items() if len(own) > 1},
        "baselines": _by_claim(baselines),
        "evidence": [row for row in evidence if row["all"]],
        "evidence_order": {name: place for place, name in enumerate(EVIDENCE)},
        "independent": {
            "reproduced": testable.count("reproduced"),
            "testable": len(testable),
            "studies": list(dict.fromkeys(row["study"] for row in tested)),
        },
        "count_bars": _count_bars,
        "verdicts": [
            (verdict, word, sum(row["verdict"] == verdict for row in claims)) for verdict, word in VERDICT_WORDS.items()
        ],
        "verdict_order": {verdict: place for place, verdict in enumerate(VERDICT_WORDS)},
        "headline": headline((row["verdict"], row["evidence"], bool(row["of_ours"])) for row in claims),
    }


def _count_bars(claims: Rows) -> list[tuple[str, str, int]]:
    """Return colour, word and number of the three parts of a bar: holds, deviates, decides nothing."""
    holds = sum(row["verdict"] == "reproduced" for row in claims)
    deviates = sum(row["verdict"] == "deviates" for row in claims)
    return [("g", "hold", holds), ("b", "deviate", deviates), ("n", "decide nothing", len(claims) - holds - deviates)]


def _by_claim(rows: Rows) -> dict[str, Rows]:
    return {name: list(own) for name, own in groupby(rows, key=lambda row: row["claim"])}
