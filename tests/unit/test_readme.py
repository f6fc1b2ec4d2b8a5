"""Agreement of README.md with the behaviour and the results of the project."""

import csv
import importlib.util
import re
import shlex

import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.resources import published
from fabricast.results.claim_record import read_baseline
from fabricast.results.claims import read_claims
from fabricast.results.verdicts import HOLDS
from tests.conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text()
PAGE = (REPOSITORY / "docs" / "howto" / "validate_machine.md").read_text()
CONSOLES = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
#: The sessions of a page run in one folder, because later sessions read files of earlier sessions.
SESSIONS = [*CONSOLES, "".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL))]


@pytest.fixture(scope="module")
def update():
    path = REPOSITORY / "scripts" / "update_readme.py"
    spec = importlib.util.spec_from_file_location("update_readme", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_results_agree_with_the_recorded_default_study(update):
    claims = update.read_claims()
    assert update.with_results(README, claims) == README, "run: scripts/update_readme.py DATABASE"
    # The record contains the current claims and agrees with the baseline of `claims --strict`.
    current_claims = {claim.claim: claim for claim in read_claims(published() / "claims")}
    assert {row["claim"] for row in claims} == current_claims.keys()
    for row in claims:
        assert row["statement"] == current_claims[row["claim"]].statement
    holding = {row["claim"]: row["verdict"] for row in claims if row["verdict"] in HOLDS}
    assert read_baseline(published() / "claims_baseline.csv") == holding


@pytest.mark.parametrize("console", SESSIONS, ids=lambda text: text.split("\n")[-3][:30])
def test_console_sessions_print_the_shown_output(console, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for session in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, shown = session.partition("\n")
        if command.startswith("printf"):
            text = re.search(r"'([^']*)'", command)[1].encode().decode("unicode_escape")
            (tmp_path / command.rsplit(" ", 1)[1]).write_text(text)
            continue
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, result.output
        pattern = re.escape(shown).replace(re.escape("..."), ".*")
        assert re.search(pattern, result.output, re.DOTALL), result.output


def test_readme_has_three_console_sessions():
    assert len(CONSOLES) == 3


def test_publications_agree_with_the_table_of_studies():
    with (published() / "studies.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            assert row["title"].split(":")[0][:40] in README, row["title"]
            assert row["venue"].split(" (")[0] in README
