#!/usr/bin/env python3
"""table_digests.py RESULTS OUT.csv: write the content digest of the tables of a run.

RESULTS is the folder of results. If some studies were computed without the database, the digests are those of the
tables that only one of these studies has.
"""

import argparse
import collections
import tempfile
from collections.abc import Iterable
from pathlib import Path

import duckdb

from fabricast.results.database import build_database


def shards_of_single_studies(results: Path) -> dict[str, list[Path]]:
    """Return the files of the tables that occur in the folder of one study only."""
    files = collections.defaultdict(list)
    for path in sorted(results.glob("*/*.parquet")):
        files[path.name.split(".")[-2]].append(path)
    return {table: parts for table, parts in files.items() if len({path.parent for path in parts}) == 1}


def write_digests(database: Path, output: Path, tables: Iterable[str] | None = None) -> None:
    """Write the digests of all or of some tables."""
    with duckdb.connect(str(database), read_only=True) as connection:
        digests = connection.sql("SELECT table_name, digest FROM table_digest").df()
    if tables is not None:
        digests = digests[digests["table_name"].isin(list(tables))]
    digests.to_csv(output, index=False)


def main() -> None:
    """Write the digests of a run as CSV."""
    arguments = argparse.ArgumentParser(description="Write the content digest of the tables of a run.")
    arguments.add_argument("results", type=Path, help="folder of results")
    arguments.add_argument("output", type=Path, help="CSV file to write")
    given = arguments.parse_args()
    database = given.results / "fabricast.duckdb"
    if database.exists():
        write_digests(database, given.output)
        return
    with tempfile.TemporaryDirectory() as folder:
        shards = shards_of_single_studies(given.results)
        build_database(shards, Path(folder) / "tables.duckdb")
        write_digests(Path(folder) / "tables.duckdb", given.output, shards)


if __name__ == "__main__":
    main()
