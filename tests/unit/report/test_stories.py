"""Tests of the answers about user-supplied machines."""

from __future__ import annotations

import duckdb
import pytest

from fabricast.report.stories import answers_text, machine_answers
from fabricast.results.tables import schema_statements

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
        for table in ("communication", "forecast", "forecast_warning"):
            connection.execute(next(text for text in schema_statements() if f"CREATE TABLE {table} (" in text))
        connection.execute("CREATE TABLE graph (graph VARCHAR, family VARCHAR, communications BIGINT)")
        connection.execute("CREATE TABLE study (study VARCHAR, tolerance DOUBLE)")
        connection.execute("INSERT INTO study VALUES ('pcie', 0.15), ('maxrate', 0.1)")
        connection.execute(
            "CREATE TABLE measured_copy (machine VARCHAR, user_supplied BOOLEAN, judged BOOLEAN, relative_error DOUBLE, "
            "sharing_bytes_per_s DOUBLE, measured_bytes_per_s DOUBLE DEFAULT 100, reason_code VARCHAR, reason VARCHAR)"
        )
        for row in _ROWS:
            connection.execute(
                "INSERT INTO measured_copy BY NAME SELECT ? AS machine, ? AS user_supplied, ? AS judged, ?::DOUBLE AS "
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
    run.execute("DELETE FROM measured_copy WHERE user_supplied")
    assert machine_answers(run) == []


def test_user_supplied_machines_come_first_on_the_terminal(run, monkeypatch):
    monkeypatch.setattr("fabricast.report.stories.stories", dict)
    assert [line[:17] for line in answers_text(run)] == ["your machine: bar", "your machine: bli", "your machine: nod"]


def test_each_graph_set_has_its_forecast(run):
    """The last copy of the slowest graph is named, with the copy whose removal shortens it and the expected error."""
    run.execute("DELETE FROM measured_copy")
    for graph, number, end, slowdown, limited_by in (("short", 0, 0.1, 1.0, ""), ("long", 0, 0.3, 2.0, "2>1 3>1")):
        run.execute("INSERT INTO graph VALUES (?, 'user', 3)", (f"mine.user.{graph}",))
        run.execute("INSERT INTO communication VALUES (?, ?, '0', '1', 1e9, 0, 'PIX')", (f"mine.user.{graph}", number))
        run.execute(
            "INSERT INTO forecast BY NAME SELECT 'mine' AS graph_set, ? AS graph, ? AS communication, '0' AS source, "
            "'1' AS target, 'p2p' AS transport, ?::DOUBLE AS elapsed_s, ?::DOUBLE AS slowdown, "
            "'endpoint 1 receives' AS bottleneck, '' AS caused_by, ? AS limited_by",
            (f"mine.user.{graph}", number, end, slowdown, limited_by),
        )
    run.execute("INSERT INTO forecast_warning VALUES ('mine', 0, 'topology_note', 'a note')")
    run.execute("INSERT INTO forecast_warning VALUES ('mine', 1, 'expected_error', 'expected error: 2 %')")
    (answer,) = machine_answers(run)
    assert answer.sentence == (
        "mine: the slowest of 2 graphs, long, completes after 300 ms: copy 0>1 ends last and waits at endpoint 1 "
        "receives (removing 2>1 would shorten it most); expected error: 2 %."
    )
    run.execute("UPDATE graph SET family = 'random' WHERE graph LIKE '%long'")
    run.execute("UPDATE forecast SET bottleneck = 'waits for 2>1 of GPU 2' WHERE graph LIKE '%long'")
    (answer,) = machine_answers(run)
    assert (
        "graphs, long (random, 3 copies), completes after 300 ms: copy 0>1 ends last and waits for 2>1 of GPU 2 ("
        in (answer.sentence)
    )
