"""Claims: relations, tolerances, interpretations, baselines, mutations, and claim files."""

import csv
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricast.core.errors import InputError
from fabricast.core.resources import published
from fabricast.results.claim_record import bound_text, headline, targets_text
from fabricast.results.claims import BY_CONSTRUCTION, Claim, read_claims
from fabricast.results.tables import write_table
from fabricast.results.verdicts import HOLDS, evaluate_claims, judge
from tests.conftest import REPOSITORY
from tests.unit.results.test_tables import communications

CLAIMS = read_claims(published() / "claims")
COMMON = {"study": "pcie", "statement": "s", "source": "t", "unit": "graphs", "evidence": "own_simulator"}


@pytest.fixture
def tables(tmp_path):
    write_table(communications(3), "communication", tmp_path / "a.parquet")
    return {"communication": [tmp_path / "a.parquet"]}


def claim(**fields):
    return Claim(**({"claim": "c", "relation": "equals", "value": 3.0, "query": COUNT} | COMMON | fields))


COUNT = "SELECT count(*) FROM communication"


def verdict_of(tables, **fields):
    return evaluate_claims([claim(**fields)], tables).claim.iloc[0]


@pytest.mark.parametrize(
    ("relation", "bounds", "holds", "fails"),
    [
        ("equals", {"value": 5.0}, [5.0], [4.9, 5.1]),
        ("at_least", {"value": 5.0}, [5.0, 1e9], [4.9]),
        ("at_most", {"value": 5.0}, [5.0, -1e9], [5.1]),
        ("between", {"low": 2.0, "high": 5.0}, [2.0, 3.0, 5.0], [1.9, 5.1]),
        ("first", {}, [1.0], [2.0]),
    ],
)
def test_relations(relation, bounds, holds, fails):
    one = claim(relation=relation, **({"value": None} | bounds))
    assert {judge(one, value) for value in holds} == {"reproduced"}
    assert {judge(one, value) for value in fails} == {"deviates"}
    assert judge(one, None) == "not_testable"


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_values_beyond_a_one_sided_bound_are_reproduced(value, more):
    """Check values above a lower bound and below an upper bound."""
    assert judge(claim(relation="at_least", value=value), value + more) == "reproduced"
    assert judge(claim(relation="at_most", value=value), value - more) == "reproduced"


def test_verdict_within_this_projects_tolerance_is_marked():
    width = {"value": 0.3, "because": "example"}
    ours, authors = (claim(value=5.7, rounding=0.05, tolerance=width | {"reason": r}) for r in ("ours", "authors"))
    assert [judge(ours, value) for value in (5.66, 5.9, 6.1)] == ["reproduced", "decided_by_tolerance", "deviates"]
    assert [judge(authors, value) for value in (5.66, 5.9, 6.1)] == ["reproduced", "reproduced", "deviates"]


def test_claim_is_reproduced_only_by_a_value(tables):
    assert verdict_of(tables)["verdict"] == "reproduced"
    assert verdict_of(tables, value=4.0)["verdict"] == "model_differs"
    absent = verdict_of(tables, query="SELECT communication FROM communication WHERE graph = 'x'")
    assert (absent["verdict"], absent["note"]) == ("not_testable", "this run contains no value for it.")
    assert verdict_of(tables, query=None, note="why")["verdict"] == "not_testable"
    for query, message in (("SELECT 1 FROM communication", "3 rows"), ("SELECT x FROM communication", "query fails")):
        with pytest.raises(InputError, match=f"claim 'c'.*{message}"):
            verdict_of(tables, query=query)


@pytest.mark.parametrize("evidence", BY_CONSTRUCTION)
def test_claims_by_construction_are_not_reproduced(tables, evidence):
    assert verdict_of(tables, evidence=evidence)["verdict"] == "follows_from_inputs"
    against = "source_contradicted" if evidence in ("published_inputs", "definition") else "model_differs"
    # Numbers that are recalled from memory refute nothing.
    against = "not_testable" if evidence == "recalled_inputs" else against
    assert verdict_of(tables, evidence=evidence, value=4.0)["verdict"] == against


def test_claim_that_all_baselines_pass_does_not_discriminate(tables):
    query = "SELECT {count} FROM communication"
    common = {"query": query, "where": {"count": "count(*)"}}
    same, other = {"count": "count(*) + 0"}, {"count": "count(*) + 1"}
    assert verdict_of(tables, baselines={"same": same}, **common)["verdict"] == "does_not_discriminate"
    row = verdict_of(tables, baselines={"other": other}, **common)
    assert (row["verdict"], row["shown_to_fail"]) == ("reproduced", True)
    # One baseline that is as good as the model suffices, even if a straw man fails.
    both = {"as good": same, "straw man": other}
    assert verdict_of(tables, baselines=both, **common)["verdict"] == "does_not_discriminate"
    # Margins that differ by less than 10 % are not distinguished: 7.5 and 8 are equal, 6 and 8 differ.
    bounded = {"relation": "at_most", "value": 10.0, "query": "SELECT {error}", "where": {"error": "2"}}
    for error, verdict in (("2.5", "does_not_discriminate"), ("4", "reproduced")):
        near = {"near": {"error": error}, "straw man": {"error": "20"}}
        assert verdict_of(tables, baselines=near, **bounded)["verdict"] == verdict
    # A baseline may be a complete query; a baseline without a value is not testable.
    tables_of_claim = evaluate_claims([claim(baselines={"none": "SELECT NULL", "four": "SELECT 4"})], tables)
    assert tables_of_claim.claim_baseline["verdict"].tolist() == ["not_testable", "deviates"]


def test_primary_readings_decide_the_verdict(tables):
    query = "SELECT count(*) + {more} FROM communication"
    readings = {"more": {"none": "0", "one": "1", "unknown": "NULL"}}

    def judged(*primary, **fields):
        words = {"primary": {"more": list(primary)}, "source_words": "w"} if primary else {}
        return evaluate_claims([claim(query=query, readings=readings, **words, **fields)], tables)

    first = judged("none")
    row = first.claim.loc[0]
    assert row[["verdict", "primary_reading", "readings", "holds_in"]].tolist() == ["reproduced", "none", 2, 0.5]
    assert row[["observed", "observed_low", "observed_high"]].tolist() == [3.0, 3.0, 4.0]
    assert first.claim_reading["is_default"].tolist() == [True, False, False]
    assert judged("one").claim.loc[0, ["verdict", "observed"]].tolist() == ["model_differs", 4.0]
    # Words that select no reading, or several that disagree, decide nothing.
    assert judged().claim.loc[0, "verdict"] == "depends_on_reading"
    assert judged("none", "one").claim.loc[0, "verdict"] == "depends_on_reading"
    assert judged("unknown").claim.loc[0, "verdict"] == "not_testable"
    # A source is contradicted only if no reading agrees.
    measured = {"evidence": "independent_measurement"}
    assert judged("one", **measured).claim.loc[0, "verdict"] == "model_differs"
    assert judged("one", value=9.0, **measured).claim.loc[0, "verdict"] == "source_contradicted"
    assert judged("none", unquantified=True).claim.loc[0, "verdict"] == "depends_on_reading"


@pytest.mark.parametrize(("share", "verdict"), [(0.04, "reproduced"), (0.5, "depends_on_reading"), (1.0, "reproduced")])
def test_statement_that_holds_for_some_draws_depends_on_them(tables, share, verdict):
    assert verdict_of(tables, share_of_draws=f"SELECT {share}")["verdict"] == verdict


def test_targets_are_in_a_table_of_their_own(tables):
    query = "SELECT count(*) + {more} FROM communication"
    fields = {"query": query, "readings": {"more": {"none": "0", "one": "1"}}, "source": "fabricast"}
    judged = evaluate_claims([claim(**fields), claim(claim="d", source="fabricast", query=COUNT)], tables)
    assert judged.claim.empty
    # A target has to be met in all primary readings, and is shown with one that misses it.
    assert judged.target[["target", "met", "observed"]].to_numpy().tolist() == [["c", False, 4.0], ["d", True, 3.0]]


def test_a_change_of_the_judgement_has_a_line_in_the_changelog():
    judged = [
        (
            one.claim,
            one.relation,
            one.bounds,
            one.rounding,
            one.tolerance and one.tolerance.value,
            sorted(one.primary.items()),
            one.source_words,
            one.unquantified,
        )
        for one in CLAIMS
    ]
    digest = hashlib.sha256(repr(judged).encode()).hexdigest()[:12]
    assert f"`{digest}`" in (REPOSITORY / "CHANGELOG.md").read_text(), (
        "bounds, tolerances or primary readings changed: say which and why in CHANGELOG.md, with this digest"
    )


def test_mutation_changes_the_data(tables):
    query = "SELECT min(size_bytes) FROM communication"
    least = min(communications(3)["size_bytes"])
    tables_of_claim = evaluate_claims(
        [claim(query=query, value=least, mutation="communication.size_bytes = size_bytes * 2")], tables
    )
    assert tables_of_claim.claim_mutation.loc[0, ["observed", "verdict"]].tolist() == [2 * least, "deviates"]
    assert tables_of_claim.claim.loc[0, "shown_to_fail"]
    assert not verdict_of(tables)["shown_to_fail"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"value": None}, "requires value"),
        ({"relation": "between"}, "requires high and low"),
        ({"relation": "first"}, "requires no bound"),
        ({"query": None}, "requires a 'note'"),
        ({"query": "SELECT {x}"}, "placeholders of the query are"),
        ({"primary": {"x": ["y"]}}, "'primary' contains"),
        ({"source_words": "some"}, "require each other"),
        ({"baselines": {"b": {"x": "1"}}}, "changes a placeholder that is not in the query"),
        ({"mutation": "communication = 3"}, "expected 'table.column = expression'"),
        ({"evidence": "faith"}, "evidence"),
        ({"study": "x"}, "expected one of"),
    ],
)
def test_invalid_claims_are_rejected(fields, message):
    with pytest.raises(ValueError, match=message):
        claim(**fields)


def test_claims_of_another_study_are_rejected(tmp_path):
    text = (
        "claims: [{claim: c, study: maxrate, statement: s, source: t, relation: first, unit: rank, "
        "evidence: definition, query: SELECT 1}]"
    )
    (tmp_path / "pcie.yaml").write_text(text)
    with pytest.raises(InputError, match="the study of claim '.*' is 'maxrate'"):
        read_claims(tmp_path)
    (tmp_path / "pcie.yaml").unlink()
    (tmp_path / "maxrate.yaml").write_text(text.replace("claims: [", "claims: [" + text[9:-1] + ", "))
    with pytest.raises(InputError, match="'c' is a duplicate"):
        read_claims(tmp_path)


def test_formatted_texts():
    assert bound_text("at_most", None, 5.0, "%") == "at most 5 %"
    assert bound_text("equals", 1679616.0, 1679616.0, "schedules") == "1,679,616 schedules"
    assert bound_text("equals", None, None, "ms") == "–"
    rows = [
        ("reproduced", "independent_fit"),
        ("model_differs", "own_simulator"),
        ("follows_from_inputs", "definition"),
        ("follows_from_inputs", "definition"),
    ]
    assert headline(rows) == (
        "of 2 tested statements, 1 holds in independent data and 1 is not confirmed by our model; of the others, 2 only agree with their inputs"
    )
    assert headline([*rows[:1], *rows[2:3], ("not_testable", "own_simulator")]) == (
        "of 1 tested statement, 1 holds in independent data; of the others, 1 only agrees with its inputs and 1 cannot be tested"
    )
    # Statements on assumed inputs are no tests, whether they hold or not.
    assert headline([*rows[:1], ("model_differs", "assumed_inputs")]) == (
        "of 1 tested statement, 1 holds in independent data; of the others, 1 does not follow from recalled or assumed inputs"
    )
    assert headline(rows[:1], "max-rate") == "of 1 tested statement of the max-rate study, 1 holds in independent data"
    results = [(True, True), (False, True), (None, None), (True, True)]
    assert targets_text(results) == "2 of 3 testable targets of this project are met"


def test_claims_of_the_recorded_study_fail_with_baselines_or_mutations():
    """Check that claims that hold deviate for a baseline or mutated data.

    Claims that hold by construction and claims that do not discriminate are exempt.
    """
    with (REPOSITORY / "docs" / "default_claims.csv").open(newline="") as file:
        recorded = list(csv.DictReader(file))
    weak = [
        row["claim"]
        for row in recorded
        if row["verdict"] in (*HOLDS, "met")
        and row["evidence"] not in BY_CONSTRUCTION
        and row["verdict"] != "does_not_discriminate"
        and row["shown_to_fail"] != "true"
    ]
    assert weak == []
    independent = [row for row in recorded if row["evidence"].startswith("independent")]
    assert sum(row["verdict"] in ("reproduced", "met") for row in independent) >= 5
    by_construction = {row["verdict"] for row in recorded if row["evidence"] in BY_CONSTRUCTION}
    assert "reproduced" not in by_construction


def test_changed_tolerances_are_in_the_changelog():
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    for one in CLAIMS:
        if one.tolerance is not None and one.tolerance.version > 1:
            assert f"`{one.claim}`" in changes, one.claim


def test_tolerances_are_small_relative_to_the_value():
    """Check that no tolerance is as large as a quarter of the value of the statement."""
    for one in CLAIMS:
        if one.tolerance is not None and one.value:
            assert one.tolerance.value < abs(one.value) / 4, one.claim


def test_figures_of_claims_exist():
    from fabricast.figures.catalogue.captions import caption_files

    figures = {name.removesuffix(".rst").replace("/", ".") for name in caption_files()}
    assert {one.figure for one in CLAIMS if one.figure} <= figures


def test_text_truncated_by_a_comma_is_rejected(tmp_path):
    (tmp_path / "claims.yaml").write_text(
        "claims:\n  - claim: c_<id>\n    statement: <text>\n    each:\n      - {id: a, text: It is so (at most, as said).}\n"
    )
    with pytest.raises(InputError, match=r"has the key 'as said\)\.', but no text contains"):
        read_claims(tmp_path)
