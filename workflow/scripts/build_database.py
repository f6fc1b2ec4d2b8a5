"""Build the database from one Parquet file a table."""

from pathlib import Path

from fabricast.results.database import build_database
from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])
tables = {table: Path(path) for table, path in snakemake.input.items()}
build_database(tables, Path(snakemake.output.database))
