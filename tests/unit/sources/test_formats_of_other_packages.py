"""Formats that other packages add by entry points."""

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import fabricast as fc
from fabricast.core.errors import InputError
from fabricast.sources import formats

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "extend.md"


@pytest.fixture
def declare(monkeypatch, tmp_path):
    """Return a function that declares an entry point to a module with some text."""

    def add(text):
        (tmp_path / "site_tool.py").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "site_tool", raising=False)
        point = EntryPoint("sinfo", "site_tool:FORMAT", formats.ENTRY_POINTS)
        monkeypatch.setattr(formats, "entry_points", lambda group: [point] if group == formats.ENTRY_POINTS else [])
        formats.all_formats.cache_clear()

    yield add
    formats.all_formats.cache_clear()


def test_the_reader_of_the_page_states_a_cause_with_its_remedy(declare, tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    declare(code)
    path = tmp_path / "drained.txt"
    path.write_text(
        "REASON               USER      TIMESTAMP           NODELIST\nbad HCA  root  2026-11-29T10:00:00  n07\n"
    )
    found = fc.diagnose(path)
    assert str(found.verdict).startswith("a fault is stated: Slurm drained n07: bad HCA")
    assert (found.findings[0].cause, found.findings[0].remedy) == ("drained", "see the log of the host")
    assert found.table["line"].tolist() == [2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("FORMAT = 1\n", "is int, expected a Format"), ("raise RuntimeError('no licence')\n", "RuntimeError: no licence")],
)
def test_broken_packages_are_named(declare, tmp_path, text, reason):
    declare(text)
    (tmp_path / "a.txt").write_text("GPU 0: NVIDIA L4 (UUID: GPU-1)\n")
    with pytest.raises(InputError, match=rf"entry point sinfo = site_tool:FORMAT .*{reason}"):
        fc.diagnose(tmp_path / "a.txt")


def test_output_without_a_fault_is_no_error(declare, tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    declare(code)
    (tmp_path / "drained.txt").write_text("REASON               USER      TIMESTAMP           NODELIST\n")
    found = fc.diagnose(tmp_path / "drained.txt")
    assert str(found.verdict).startswith("no fault is stated") and "no fault in sinfo" in found.statements[0]


@pytest.mark.parametrize("where", ["recognises", "read"])
def test_a_reader_that_fails_is_a_problem_of_the_file(declare, tmp_path, where):
    fails = "def fails(text):\n    raise KeyError('node')\n"
    other = "def other(text):\n    return True\n"
    functions = "fails, other" if where == "recognises" else "other, fails"
    declare(
        "from fabricast.core.facts import Content\nfrom fabricast.sources.text import Format\n\n"
        f"{fails}\n\n{other}\n\nFORMAT = Format('tool', Content.STATES, 'tool > a.txt', 'row', {functions})\n"
    )
    (tmp_path / "a.txt").write_text("anything\n")
    with pytest.raises(
        InputError, match=r"the reader site_tool:FORMAT of another package failed: KeyError.*site_tool.py"
    ):
        fc.diagnose(tmp_path / "a.txt")
