"""Tests of code conventions: static checks and the structure of workflow rules.

These tests run first because the type checker is the slowest test.
"""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.running import snakemake

#: Statements that decide and compute nothing.
_NO_WORK = (ast.Import, ast.ImportFrom, ast.Expr)


@pytest.mark.parametrize(
    "command", ["mypy", "ruff check .", "ruff format --check .", "snakefmt --check Snakefile workflow"]
)
def test_static_checks_pass(command):
    name, *arguments = command.split()
    tool = Path(sys.executable).parent / name
    result = subprocess.run([tool, *arguments], cwd=REPOSITORY, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_snakemake_lint_passes():
    code, output = snakemake(REPOSITORY, "--lint")
    assert code == 0, output


def test_scripts_are_short_and_named_after_their_rules():
    rules = "".join(path.read_text() for path in (REPOSITORY / "workflow" / "rules").glob("*.smk"))
    for path in (REPOSITORY / "workflow" / "scripts").glob("*/*.py"):
        assert f"rule {path.stem}:" in rules, path
        nodes = ast.walk(ast.parse(path.read_text()))
        statements = [one for one in nodes if isinstance(one, ast.stmt) and not isinstance(one, _NO_WORK)]
        assert len(statements) <= 20, path
    on_the_host = rules.count("container:")
    assert on_the_host == rules.count("rule measure_") == rules.count('"../../envs/measure.yaml"') == 5
    assert rules.count("script:") - on_the_host == rules.count('"../../envs/environment.yaml"'), (
        "all other rules run in the environment of --sdm"
    )
    # Every rule records time and memory of its jobs, including optional rules.
    count = len(re.findall("^ *(?:use )?rule ", rules, re.M))
    for directive in ("log", "benchmark"):
        assert len(re.findall(f"^ +{directive}:", rules, re.M)) == count, directive


@pytest.mark.parametrize("name", ["a b", "a'b", 'a"b', "a$b", "a;b", "a*b", "a(b", "a&b", "a\\b", "a{b", "a`b"])
def test_make_refuses_paths_that_snakemake_does_not_quote(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    shutil.copy(REPOSITORY / "Makefile", folder)
    for file in ("uv.lock", "pyproject.toml"):
        (folder / file).touch()
    done = subprocess.run(["make", "results"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "this path has a blank or a character of shells" in done.stdout
    assert not (folder / ".uv").exists()
