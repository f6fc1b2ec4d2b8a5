"""Texts of claims in the report."""

from fabricast.report.claim_rows import claim_sections
from fabricast.report.page import _importance
from fabricast.results.claim_record import result_counts

ROW = {
    "claim": "a",
    "study": "maxrate",
    "statement": "A node reaches 5.7 GB/s.",
    "relation": "equals",
    "low": 5.7,
    "high": 5.7,
    "unit": "GB/s",
    "observed": 3.49,
    "observed_low": 3.44,
    "observed_high": 5.66,
    "readings": 3,
    "holds_in": 1 / 3,
    "share_of_draws": None,
    "evidence": "independent_fit",
    "verdict": "depends_on_reading",
}


def sections(row):
    return claim_sections([dict(row)], [], [], [])["claims"][0]


def test_a_statement_without_a_preferred_reading_shows_the_range():
    shown = sections(ROW)
    assert (shown["shown"], shown["range"]) == ("3.44 to 5.66 GB/s", "over 3 readings")
    decided = sections(ROW | {"verdict": "model_differs"})
    assert (decided["shown"], decided["range"]) == ("3.49 GB/s", "3.44 to 5.66 GB/s over all readings")


def test_slips_of_a_source_come_after_results_that_are_not_confirmed():
    slip = {"verdict": "source_contradicted", "evidence": "definition"}
    measured = {"verdict": "source_contradicted", "evidence": "independent_measurement"}
    model = {"verdict": "model_differs", "evidence": "own_simulator"}
    assert sorted([slip, model, measured], key=_importance) == [measured, model, slip]
    counts = result_counts((row["verdict"], row["evidence"]) for row in (slip, measured, model))
    assert [title for title, count in counts.items() if count] == [
        "data contradict",
        "source contradicts itself",
        "our model differs",
    ]
