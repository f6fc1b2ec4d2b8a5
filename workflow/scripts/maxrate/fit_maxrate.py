"""Fit the max-rate models to measurements."""

from fabricast.runtime.jobs import log_to, progress_of

log_to(snakemake.log[0])

import pandas as pd

from fabricast.maxrate.benchmark_output import read_measurement_file
from fabricast.maxrate.measurements import choose_datasets, read_measurements
from fabricast.maxrate.tables import maxrate_tables
from fabricast.results.tables import write_table

values = snakemake.params
published = choose_datasets(read_measurements(snakemake.input.published), values.datasets)
rows = pd.concat(
    [published, *(read_measurement_file(path) for path in snakemake.input.user_supplied)], ignore_index=True
)
with progress_of("fitting", rows["dataset"].nunique()) as advance:
    tables = maxrate_tables(
        rows, slide_system="Blue Waters", starts=values.starts, draws=values.draws, seed=values.seed, progress=advance
    )
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
