"""Build the database from the shards of every table."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from pathlib import Path

from fabricast.results.database import build_database

# Snakemake passes a list of one file as a plain string.
parts = {table: [files] if isinstance(files, str) else files for table, files in snakemake.input.items()}
build_database({table: list(map(Path, files)) for table, files in parts.items()}, Path(snakemake.output.database))
