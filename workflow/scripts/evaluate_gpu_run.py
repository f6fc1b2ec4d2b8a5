"""Turn a run on a GPU into tables."""

from fabricast.gpucentric.gpu_tables import gpu_tables
from fabricast.jobs import log_to
from fabricast.tables import write_table

log_to(snakemake.log[0])
tables = gpu_tables(snakemake.input.cells)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
