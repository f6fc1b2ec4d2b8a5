#!/usr/bin/env python3
"""compare_digests.py FIRST SECOND: exit with 1 unless two runs hold equal tables.

Each is a database of a finished run, or the CSV of its table table_digest.
"""

import sys
from pathlib import Path

import duckdb


def digests(path: Path) -> dict[str, str]:
    """Return the content digest of every table."""
    if path.suffix == ".csv":
        rows = duckdb.read_csv(str(path)).project("table_name, digest").fetchall()
    else:
        with duckdb.connect(str(path), read_only=True) as connection:
            rows = connection.execute("SELECT table_name, digest FROM table_digest").fetchall()
    return dict(rows)


def main() -> None:
    """Compare and say which tables differ."""
    first, second = (digests(Path(name)) for name in sys.argv[1:3])
    different = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    print(f"{len(first)} tables, {len(different)} differ{': ' if different else ''}{', '.join(different)}")
    sys.exit(1 if different or not first else 0)


if __name__ == "__main__":
    main()
