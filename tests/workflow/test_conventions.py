"""What tools say of the code, and the form of the workflow's rules. First of all tests: the type checker takes longest."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.running import snakemake


@pytest.mark.parametrize(
    "command", ["mypy", "ruff check .", "ruff format --check .", "snakefmt --check Snakefile workflow"]
)
def test_tools_have_nothing_to_say(command):
    name, *arguments = command.split()
    tool = Path(sys.executable).parent / name
    result = subprocess.run([tool, *arguments], cwd=REPOSITORY, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_snakemake_lint_has_nothing_to_say():
    code, output = snakemake(REPOSITORY, "--lint")
    assert code == 0, output


def test_adapters_are_short_and_named_after_their_rules():
    rules = "".join(path.read_text() for path in (REPOSITORY / "workflow" / "rules").glob("*.smk"))
    for path in (REPOSITORY / "workflow" / "scripts").glob("*.py"):
        assert f"rule {path.stem}:" in rules, path
        code = [line for line in path.read_text().splitlines() if line.strip()]
        statements = [line for line in code if not line.startswith(("from ", "import ", '"""'))]
        assert len(statements) <= 15, path
    on_the_host = rules.count("container:")
    assert on_the_host == rules.count("rule measure_") == rules.count('"../../envs/measure.yaml"') == 4
    assert rules.count("script:") - on_the_host == rules.count('"../../envs/environment.yaml"'), (
        "all others under --sdm"
    )
    # Time and memory of every job are on record, also of rules that only some runs have.
    for directive in ("log", "benchmark"):
        assert len(re.findall(f"^ +{directive}:", rules, re.M)) == len(re.findall("^ *rule ", rules, re.M)), directive
    assert len((REPOSITORY / "Snakefile").read_text().splitlines()) <= 64
