"""Fit the max-rate models to measurements."""

from fabricast.runtime.jobs import log_to, progress_of

log_to(snakemake.log[0])

import pandas as pd

from fabricast.api.messages import measurements_of_facts, message_facts
from fabricast.maxrate.measurements import choose_datasets, read_measurements
from fabricast.maxrate.tables import maxrate_tables
from fabricast.results.tables import write_table

values = snakemake.params
published = choose_datasets(read_measurements(snakemake.input.published), values.datasets)
files = snakemake.input.user_supplied
own = [rows for _, rows in measurements_of_facts(message_facts(files))] if files else []
rows = pd.concat([published, *own], ignore_index=True)
with progress_of("fitting", rows["dataset"].nunique()) as advance:
    tables = maxrate_tables(
        rows, slide_system="Blue Waters", starts=values.starts, draws=values.draws, seed=values.seed, progress=advance
    )
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
