"""Verdicts of statements on the machine of the user, beside those of the study."""

import duckdb
import pytest

from fabricast.report.key_tables import YOURS

QUERY = YOURS["Statements of the papers, tested on this machine"]


@pytest.fixture
def run():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE claim (claim VARCHAR, statement VARCHAR, high DOUBLE, verdict VARCHAR)")
        connection.execute(
            "INSERT INTO claim VALUES ('breakdown_latency_within_five_percent', 'latency', 5, 'follows_from_inputs'), "
            "('pcie_precise_for_large_messages', 'copies', 15, 'depends_on_reading')"
        )
        connection.execute(
            "CREATE TABLE breakdown_total AS SELECT 'this_machine.shared_memory' AS system, 400.0 AS observed_ns, "
            "-0.087 AS relative_error UNION ALL SELECT 'thunderx2', 400.0, 0.5"
        )
        connection.execute(
            "CREATE TABLE comparison AS SELECT 'pcie' AS study, 'measured' AS kind, 'rate' AS quantity, "
            "'congestion_factor' AS model, 'this_machine NVIDIA X' AS origin, 'x_both_directions_256' AS case_id, 0.2 AS relative_error "
            "UNION ALL SELECT 'pcie', 'measured', 'rate', 'congestion_factor', 'fabricast H100', 'x_both_directions_256', 0.9"
        )
        yield connection


def test_each_measurement_has_its_verdict_beside_that_of_the_study(run):
    rows = {row["statement"]: row for row in run.sql(QUERY).df().to_dict("records")}
    assert {name: row["verdict_here"] for name, row in rows.items()} == {
        "latency": "does not hold here",
        "copies": "does not hold here",
    }
    assert rows["latency"]["error_here"] == "8.7 %"
    assert rows["copies"]["verdict_in_the_study"] == "depends on reading"
    assert rows["copies"]["published"] == "at most 15 %"


def test_a_run_without_measurements_has_no_row(run):
    for table in ("breakdown_total", "comparison"):
        run.execute(f"DELETE FROM {table}")
    assert run.sql(QUERY).df().empty
