#!/usr/bin/env python3
"""record_run_times.py STUDY: take the times of the run just finished here into workflow/run_times.csv.

Mean seconds of a job of each rule, from what Snakemake remembers; they give the first run elsewhere its estimate.
"""

import sys
from pathlib import Path

import duckdb

TABLE = Path("workflow/run_times.csv")


def main() -> None:
    """Replace the rows of one study."""
    study = sys.argv[1]
    with duckdb.connect() as connection:
        connection.read_json(
            ".snakemake/metadata/*",
            columns={"rule": "VARCHAR", "job_hash": "BIGINT", "starttime": "DOUBLE", "endtime": "DOUBLE"},
        ).create_view("outputs")
        connection.execute("CREATE TABLE run_times (study VARCHAR, rule VARCHAR, seconds DOUBLE)")
        if TABLE.exists():
            connection.execute(
                "INSERT INTO run_times SELECT * FROM read_csv($path) WHERE study <> $study",
                {"path": str(TABLE), "study": study},
            )
        connection.execute(
            "INSERT INTO run_times SELECT $study, rule, round(avg(seconds), 1) FROM "
            "(SELECT rule, job_hash, max(endtime) - min(starttime) AS seconds FROM outputs GROUP BY ALL) GROUP BY rule",
            {"study": study},
        )
        connection.sql("SELECT * FROM run_times ORDER BY study, rule").write_csv(str(TABLE))


if __name__ == "__main__":
    main()
