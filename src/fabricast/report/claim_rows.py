"""Claims as the report shows them: in words, with what stands behind each verdict."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from fabricast.results.claim_record import VERDICT_WORDS, bound_text, headline, holds_text, observed_text, verdict_word
from fabricast.results.claims import EVIDENCE

__all__ = ["claim_sections"]

Rows = list[dict[str, Any]]


def claim_sections(claims: Rows, readings: Rows, baselines: Rows) -> dict[str, Any]:
    """Return what the page says of claims.

    Parameters
    ----------
    claims, readings, baselines : list of dict
        Rows of the tables claim, claim_reading and claim_baseline, each ordered by claim.

    Returns
    -------
    dict
        ``claims`` with texts, readings and baselines by claim where there are several, counts by evidence, and the
        headline of all and of each study.
    """
    for row in claims:
        row |= {
            "published": bound_text(row["relation"], row["low"], row["high"], row["unit"]),
            "shown": observed_text(row["observed"], row["unit"]),
            "word": verdict_word(row["verdict"], row["evidence"]),
            "holds": holds_text(row["readings"], row["holds_in"], row["share_of_draws"]),
        }  # fmt: skip
    counts = [
        {"evidence": evidence} | {
            verdict: sum(row["evidence"] == evidence and row["verdict"] == verdict for row in claims)
            for verdict in VERDICT_WORDS
        }
        for evidence in EVIDENCE
    ]  # fmt: skip
    by_study = {study: list(own) for study, own in groupby(claims, key=lambda row: row["study"])}
    return {
        "claims": claims,
        "readings": {name: own for name, own in _by_claim(readings).items() if len(own) > 1},
        "baselines": _by_claim(baselines),
        "evidence": counts,
        "verdict_words": VERDICT_WORDS,
        "headline": headline((row["verdict"], row["evidence"], bool(row["of_ours"])) for row in claims),
        "headlines": {
            study: headline((row["verdict"], row["evidence"], bool(row["of_ours"])) for row in own)
            for study, own in by_study.items()
        },
    }


def _by_claim(rows: Rows) -> dict[str, Rows]:
    return {name: list(own) for name, own in groupby(rows, key=lambda row: row["claim"])}
