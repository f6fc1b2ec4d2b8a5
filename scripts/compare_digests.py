#!/usr/bin/env python3
"""compare_digests.py FIRST SECOND: exit with 1 unless two runs hold equal tables.

Each is a database of a finished run, or the CSV of its table table_digest. Exits with 2 where that cannot be told: a
file is no such thing, or the digests are of different versions of DuckDB.
"""

import argparse
import sys
from pathlib import Path

import duckdb


def digests(path: Path) -> dict[str, str]:
    """Return the content digest of every table."""
    try:
        if path.suffix == ".csv":
            rows = duckdb.read_csv(str(path)).project("table_name, digest").fetchall()
        else:
            with duckdb.connect(str(path), read_only=True) as connection:
                rows = connection.execute("SELECT table_name, digest FROM table_digest").fetchall()
    except duckdb.Error:
        print(f"{path}: holds no digests, expected a database of a finished run or the CSV of its table table_digest")
        sys.exit(2)
    return dict(rows)


def made_by(digest: str) -> str:
    """Return whose hash a digest is."""
    version = digest.rpartition(":")[0]
    return f"DuckDB {version}" if version else "an older fabricast"


def main() -> None:
    """Compare and say which tables differ."""
    arguments = argparse.ArgumentParser(description="Exit with 1 unless two runs hold equal tables.")
    arguments.add_argument("runs", metavar="RUN", nargs=2, type=Path, help="database, or CSV of its table table_digest")
    first, second = map(digests, arguments.parse_args().runs)
    makers = sorted({made_by(digest) for digest in (*first.values(), *second.values())})
    if len(makers) > 1:
        print(f"digests of {' and '.join(makers)} cannot be compared: make both databases with the same")
        sys.exit(2)
    different = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    print(f"{len(first)} tables, {len(different)} differ{': ' if different else ''}{', '.join(different)}")
    sys.exit(1 if different or not first else 0)


if __name__ == "__main__":
    main()
