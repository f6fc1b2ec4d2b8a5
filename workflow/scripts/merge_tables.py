"""Merge the parts of every table."""

import pandas as pd

from fabricast.results.tables import merge_tables, write_table
from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])
write_table(pd.read_csv(snakemake.input.studies), "study", snakemake.output.study)
parts = {
    table: [part for part in snakemake.input[:-1] if part.endswith(f".{table}.parquet")]
    for table, _ in snakemake.output.items()
}
merge_tables({table: files for table, files in parts.items() if files}, dict(snakemake.output.items()))
