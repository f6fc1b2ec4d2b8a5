"""Tests of the answers about user-supplied machines."""

from __future__ import annotations

import duckdb
import pytest

from fabricast.report.stories import answers_text, machine_answers

_ROWS = [
    ("node", True, True, 0.02, 110.0, "", ""),
    ("node", True, True, -0.40, 150.0, "", ""),
    ("node", True, False, None, 100.0, "calibration", "used for calibration"),
    (
        "blind",
        True,
        False,
        None,
        100.0,
        "no_memory_probe",
        "no probe measured the capacity of host memory for several GPUs",
    ),
    ("bare", True, False, None, 100.0, "calibration", "used for calibration"),
    ("public", False, True, 0.5, 100.0, "", ""),
]


@pytest.fixture
def run():
    """Yield a database with measured copies of three user-supplied machines and a public one."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE study (study VARCHAR, tolerance DOUBLE)")
        connection.execute("INSERT INTO study VALUES ('pcie', 0.15), ('maxrate', 0.1)")
        connection.execute(
            "CREATE TABLE measured_copy (machine VARCHAR, own BOOLEAN, judged BOOLEAN, relative_error DOUBLE, "
            "sharing_bytes_per_s DOUBLE, measured_bytes_per_s DOUBLE DEFAULT 100, reason_code VARCHAR, reason VARCHAR)"
        )
        for row in _ROWS:
            connection.execute(
                "INSERT INTO measured_copy BY NAME SELECT ? AS machine, ? AS own, ? AS judged, ?::DOUBLE AS "
                "relative_error, ? AS sharing_bytes_per_s, ? AS reason_code, ? AS reason",
                row,
            )
        yield connection


def test_each_user_supplied_machine_has_an_answer(run):
    bare, blind, node = (answer.sentence for answer in machine_answers(run))
    assert bare == "bare: none of 1 measured graphs is compared: all of them determine parameters."
    assert blind.endswith("is compared: no probe measured the capacity of host memory for several GPUs.")
    # The errors are 2 and 40 %; those of plain link sharing are 10 and 50 %.
    assert node == (
        "node: 2 of 3 measured graphs are compared; median error 21.0 % (plain link sharing: 30.0 %); 1 within 15 %."
    )


def test_run_without_user_supplied_machines_has_no_machine_answers(run):
    run.execute("DELETE FROM measured_copy WHERE own")
    assert machine_answers(run) == []


def test_user_supplied_machines_come_first_on_the_terminal(run, monkeypatch):
    monkeypatch.setattr("fabricast.report.stories.stories", dict)
    assert [line[:17] for line in answers_text(run)] == ["your machine bare", "your machine blin", "your machine node"]
