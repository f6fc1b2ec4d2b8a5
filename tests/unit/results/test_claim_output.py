"""Output of `fabricast claims`: selection by name, and the difference between two runs."""

import re
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.results.claim_record import VERDICT_WORDS, changed_claims, claim_rows
from fabricast.results.tables import create_schema, schema_digest


def database(path, claims):
    """Write a database of a run with claims: name, observed value and verdict."""
    with duckdb.connect(str(path)) as connection:
        create_schema(connection)
        fill(connection, "run", [{"run": "a", "config": "{}", "schema_digest": schema_digest()}])
        common = {"study": "percs", "statement": "Loads are even.", "unit": "times", "relation": "at_least", "low": 1.0}
        rows = [{**common, "claim": name, "observed": value, "verdict": verdict} for name, value, verdict in claims]
        fill(connection, "claim", rows)
    return path


def fill(connection, table, rows):
    """Insert rows; columns that a row lacks have a value of their type."""
    columns = connection.execute(f"DESCRIBE {table}").fetchall()
    for row in rows:
        # The third value of a column is whether it may be NULL.
        values = [row.get(name, None if null == "YES" else default(kind)) for name, kind, null, *_ in columns]
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)


def default(kind):
    if kind.startswith("ENUM"):
        return kind.split("'")[1]
    if kind.startswith("TIMESTAMP"):
        return "2026-01-01 00:00:00"
    return {"VARCHAR": "", "BOOLEAN": False}.get(kind, 0)


@pytest.fixture
def runs(tmp_path):
    names = ("percs_a_name_of_more_than_seventeen_letters", "percs_even", "percs_lost")
    verdicts = ("reproduced", "reproduced", "model_differs")
    now = database(tmp_path / "now.duckdb", zip(names, (1.5, 2.0, 1.0), verdicts, strict=True))
    values = (1.5 * (1 + 1e-9), 3.0, 1.0)
    before = database(tmp_path / "before.duckdb", zip(names, values, ["reproduced"] * 3, strict=True))
    return now, before


def test_only_values_and_verdicts_that_differ_are_compared(runs):
    changed = changed_claims(*runs)
    assert changed["claim"].tolist() == ["percs_even", "percs_lost"]
    assert changed[["observed_before", "observed_now"]].iloc[0].tolist() == [3.0, 2.0]
    assert changed[["verdict_before", "verdict_now"]].iloc[1].tolist() == ["reproduced", "model_differs"]
    assert changed_claims(runs[0], runs[0]).empty


def printed(*arguments):
    return CliRunner().invoke(app, ["claims", "--database", *map(str, arguments)]).output


def test_piped_names_are_whole_and_verdicts_have_their_printed_words(runs):
    text = printed(runs[0], "--claim", "seventeen")
    assert "percs_a_name_of_more_than_seventeen_letters" in text and "percs_even" not in text
    for words in ("model differs", "model_differs", "Model differs"):
        assert claim_rows(runs[0], verdict=words)["claim"].tolist() == ["percs_lost"]
    with pytest.raises(InputError, match="no claim has a name with 'else'"):
        claim_rows(runs[0], name="else")
    changes = printed(runs[0], "--against", runs[1])
    assert "model differs" in changes and "seventeen" not in changes
    assert "no claim differs" in printed(runs[0], "--against", runs[0])


def test_a_database_without_claims_says_so(tmp_path):
    with pytest.raises(InputError, match="has no claims"):
        claim_rows(database(tmp_path / "mine.duckdb", []))


def test_the_glossary_has_the_words_of_the_verdicts():
    text = (Path(__file__).parents[3] / "docs" / "glossary.md").read_text()
    section = text[text.index("\nverdict\n") : text.index("accepts these words")]
    assert [word.lower() for word in re.findall(r"  - \*([^*]+)\*:", section)] == list(VERDICT_WORDS.values())
