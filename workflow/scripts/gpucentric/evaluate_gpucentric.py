"""Evaluate methods, statements, selector and measured paths of the GPU-centric study."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.gpucentric.tables import gpucentric_tables
from fabricast.results.tables import write_table

values = snakemake.params
tables = gpucentric_tables(snakemake.input.observations, draws=values.draws, seed=values.seed)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
