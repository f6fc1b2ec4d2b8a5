"""Convert the measurements of a GPU to tables."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.gpucentric.measured.tables import gpu_tables
from fabricast.results.tables import write_table

tables = gpu_tables(snakemake.input.cells)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
