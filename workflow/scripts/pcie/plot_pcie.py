"""Draw all figures of the PCIe study."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.figures.catalogue.pcie import FIGURES
from fabricast.figures.style import save_entries
from fabricast.results.tables import read_tables

entries = [entry for entry in FIGURES if entry.name in snakemake.params.figures]
# Text columns have few distinct values in millions of rows.
read = read_tables(snakemake.input, categories=True)
save_entries(entries, read, dict(snakemake.params.values), snakemake.output)
