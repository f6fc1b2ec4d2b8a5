"""Agreement of README.md with the behaviour and the results of the project."""

import csv
import importlib.util
import re
import shlex
import shutil

import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.resources import published
from fabricast.results.claim_record import read_baseline
from fabricast.results.claims import read_claims
from fabricast.results.verdicts import HOLDS
from tests.conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text()
#: Pages of the documentation with sessions.
PAGES = [
    path
    for folder in ("howto", "explanation", "studies", "reference")
    for path in sorted((REPOSITORY / "docs" / folder).glob("*.md"))
    if "```console" in path.read_text()
]
CONSOLES = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
#: The sessions of a page run in one folder, because later sessions read files of earlier sessions.
SESSIONS = [*CONSOLES, *("".join(re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)) for page in PAGES)]


@pytest.fixture(scope="module")
def update():
    path = REPOSITORY / "scripts" / "update_readme.py"
    spec = importlib.util.spec_from_file_location("update_readme", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_results_agree_with_the_recorded_default_study(update):
    claims = update.read_claims()
    assert update.with_tables(README, claims) == README, "run: scripts/update_readme.py DATABASE"
    assert update.results(claims) == update.RESULTS.read_text(), "run: scripts/update_readme.py DATABASE"
    assert update.error_page(claims) == update.ERRORS.read_text(), "run: scripts/update_readme.py DATABASE"
    assert update.with_formats(update.FORMATS_PAGE.read_text()) == update.FORMATS_PAGE.read_text(), (
        "run: scripts/update_readme.py"
    )
    # The record contains the current claims and agrees with the baseline of `claims --strict`.
    current_claims = {claim.claim: claim for claim in read_claims(published() / "claims")}
    assert {row["claim"] for row in claims} == current_claims.keys()
    for row in claims:
        assert row["statement"] == current_claims[row["claim"]].statement
    holding = {row["claim"]: row["verdict"] for row in claims if row["verdict"] in (*HOLDS, "met")}
    assert read_baseline(published() / "claims_baseline.csv") == holding


@pytest.mark.slow
@pytest.mark.parametrize("console", SESSIONS, ids=lambda text: text.split("\n")[-3][:30])
def test_console_sessions_print_the_shown_output(console, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if console in CONSOLES:
        shutil.copytree(REPOSITORY / "tests" / "data" / "readme", tmp_path, dirs_exist_ok=True)
    for session in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, shown = session.replace("\\\n", " ").partition("\n")
        if command.startswith("cat "):
            (tmp_path / command.split()[1]).write_text(shown)
            continue
        if command.startswith("printf"):
            text = re.search(r"'([^']*)'", command)[1].encode().decode("unicode_escape")
            (tmp_path / command.rsplit(" ", 1)[1]).write_text(text)
            continue
        if command.startswith("cp "):
            shutil.copy(REPOSITORY / command.split()[1], tmp_path / command.split()[2])
            continue
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        # `diagnose` exits with 1 if it has findings.
        assert result.exit_code == ("diagnose" in command), result.output
        pattern = re.escape(shown).replace(re.escape("..."), ".*")
        assert re.search(pattern, result.output, re.DOTALL), result.output


def test_readme_has_console_sessions_and_100_lines():
    assert len(CONSOLES) == 4
    assert README.count("\n") <= 100


def test_the_schedule_saves_the_stated_share(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, saved = re.search(r"`(fabricast schedule [^`]*)` saves ([\d.]+ ?%) of the naive order", README).groups()
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert f"the best saves {saved.replace(' ', '')}" in result.output


@pytest.mark.slow
def test_the_python_example_prints_the_shown_output(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(example, {})
    assert re.search(r"# ([\d.]+ ms)", example)[1] == capsys.readouterr().out.strip()


def test_the_picture_is_the_one_of_the_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (session,) = [text for text in CONSOLES if "predict storm8" in text]
    command = session[2:].partition("\n")[0]
    result = CliRunner().invoke(app, [*shlex.split(command)[1:], "--draw", "picture.svg"])
    assert result.exit_code == 0, result.output
    picture = REPOSITORY / "docs" / "_static" / "saturated_links.svg"
    assert (tmp_path / "picture.svg").read_bytes() == picture.read_bytes()


def test_publications_agree_with_the_table_of_studies():
    with (published() / "studies.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["venue"] == "this project":
                continue
            assert row["title"].split(":")[0][:40] in README, row["title"]
            assert row["venue"].split(" (")[0] in README
