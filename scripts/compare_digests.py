#!/usr/bin/env python3
"""compare_digests.py FIRST SECOND: exit with 1 unless the tables of two runs are equal.

Each argument is the database of a finished run, or the CSV of its table table_digest. The exit code is 2 if the runs
cannot be compared: a file is neither of these, or the digests are from different versions of DuckDB.
"""

import argparse
import sys
from pathlib import Path

import duckdb


def digests(path: Path) -> dict[str, str]:
    """Return the content digest of each table, by table name."""
    try:
        if path.suffix == ".csv":
            rows = duckdb.read_csv(str(path)).project("table_name, digest").fetchall()
        else:
            with duckdb.connect(str(path), read_only=True) as connection:
                rows = connection.execute("SELECT table_name, digest FROM table_digest").fetchall()
    except duckdb.Error:
        print(
            f"{path}: contains no digests, expected a database of a finished run or the CSV of its table table_digest"
        )
        sys.exit(2)
    return dict(rows)


def made_by(digest: str) -> str:
    """Return the program and version that computed a digest."""
    version = digest.rpartition(":")[0]
    return f"DuckDB {version}" if version else "an older fabricast version"


def main() -> None:
    """Compare two runs and print the names of tables that differ."""
    arguments = argparse.ArgumentParser(description="Exit with 1 unless the tables of two runs are equal.")
    arguments.add_argument("runs", metavar="RUN", nargs=2, type=Path, help="database, or CSV of its table table_digest")
    arguments.add_argument("--tables-of-second", action="store_true", help="compare only the tables of the second run")
    given = arguments.parse_args()
    first, second = map(digests, given.runs)
    if given.tables_of_second:
        first = {name: digest for name, digest in first.items() if name in second}
    makers = sorted({made_by(digest) for digest in (*first.values(), *second.values())})
    if len(makers) > 1:
        print(f"digests of {' and '.join(makers)} cannot be compared: build both databases with the same version")
        sys.exit(2)
    different = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    print(f"{len(first | second)} tables, {len(different)} differ{': ' if different else ''}{', '.join(different)}")
    sys.exit(1 if different or not first else 0)


if __name__ == "__main__":
    main()
