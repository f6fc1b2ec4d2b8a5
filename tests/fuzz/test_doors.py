"""Fuzz tests of all inputs: complete output, or one error line and no partial files.

``pytest tests/fuzz --fuzz-seconds 3600`` runs longer. A failing test prints the content of the damaged file.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import time

import duckdb
import pytest
import yaml

from fabricast.cli import main as cli
from fabricast.config import checked_config
from fabricast.core.errors import InputError
from tests.fuzz.doors import CONFIG, DOORS
from tests.fuzz.mutations import mutate

#: Time limit in s for a single file; exceeding it counts as a hang.
MOST_SECONDS = 30.0


def call(monkeypatch, folder, arguments):
    """Run the command line in this process; return exit code, standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["fabricast", *arguments])
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
    return code, out.getvalue(), err.getvalue()


def check(door, folder, code, printed, error, content):
    """Check exit code, error output and written files; `content` identifies the case."""
    left = {path.name for path in folder.iterdir()} - {door.file, *door.beside}
    # Code 1: measurements that contradict their topology.
    assert code in (0, 1, 2), (code, error, content)
    assert "Traceback" not in error, (error, content)
    if code == 2:
        error_lines = [line for line in error.splitlines() if line.startswith("fabricast: error: ")]
        assert len(error_lines) == 1, (error, content)
        assert len(error_lines[0]) < 1500, (error, content)
        assert not any(line for line in error.splitlines() if line.startswith(" ")), (error, content)
        assert not left, (left, content)
    elif door.output is not None:
        assert not {name for name in left if ".part" in name}, (left, content)
        assert door.output in left, (left, content)
        complete(folder / door.output, content)


def complete(path, content):
    """Check that an output file is complete and contains only finite numbers."""
    if path.suffix in (".csv", ".parquet"):
        table = duckdb.sql(f"SELECT * FROM '{path}'").df()
        assert len(table), content
        for column in table.select_dtypes("number"):
            assert not (table[column].abs() == float("inf")).any(), (column, content)
    elif path.suffix in (".yaml", ".json"):
        assert yaml.safe_load(path.read_text(encoding="utf-8")), content
    else:
        assert path.read_text(encoding="utf-8").strip(), content


def trial(monkeypatch, folder, door, content, *, timed=True):
    for path in folder.iterdir():
        path.unlink()
    for name, text in door.beside.items():
        (folder / name).write_text(text)
    (folder / door.file).write_bytes(content)
    started = time.process_time()
    code, printed, error = call(
        monkeypatch, folder, door.arguments(door.file, (door.output or "").replace(".hosts", ""))
    )
    # The first call may compile kernels and is not timed.
    assert not timed or time.process_time() - started < MOST_SECONDS, content
    check(door, folder, code, printed, error, content)
    # A diagnosis names a damaged file and compares the others.
    return 2 if "cannot be used" in printed else code


@pytest.mark.parametrize("door", DOORS, ids=[door.name for door in DOORS])
def test_damaged_files_produce_complete_output_or_one_error_line(door, tmp_path, monkeypatch, fuzz_seconds):
    chance = random.Random(door.name)
    for sample in door.samples:
        assert trial(monkeypatch, tmp_path, door, sample.encode(), timed=False) != 2
    refused, end = 0, time.perf_counter() + fuzz_seconds / len(DOORS)
    count = 0
    while time.perf_counter() < end or count < 20:
        content = mutate(chance.choice(door.samples).encode(), chance)
        refused += trial(monkeypatch, tmp_path, door, content) == 2
        count += 1
    assert refused, "no damaged file was rejected"


def test_damaged_configurations_are_rejected_in_one_line(fuzz_seconds):
    chance = random.Random("config")
    assert checked_config(yaml.safe_load(CONFIG)).seed == 7
    refused = 0
    for _ in range(int(60 * max(1.0, fuzz_seconds / 60))):
        try:
            values = yaml.safe_load(mutate(CONFIG.encode(), chance))
            assert isinstance(values, dict)
        except (yaml.YAMLError, ValueError, AssertionError, TypeError, RecursionError):
            # Snakemake parses the file, so invalid YAML does not reach `checked_config`.
            continue
        try:
            checked_config(values)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
            assert len(str(error)) < 1500
    assert refused
