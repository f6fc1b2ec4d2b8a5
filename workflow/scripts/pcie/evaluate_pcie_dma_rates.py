"""Compare modelled DMA rates by size with published measurements."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.pcie.tables.dma_rates import dma_rate_tables
from fabricast.results.tables import write_table

tables = dma_rate_tables(snakemake.input.rates)
for name, path in snakemake.output.items():
    write_table(tables[name], name, path)
