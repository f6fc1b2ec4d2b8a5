"""Draw all figures of the study of copies from GPU to network."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.figures.catalogue.clusters import FIGURES
from fabricast.figures.style import save_entries
from fabricast.results.tables import read_tables

entries = [entry for entry in FIGURES if entry.name in snakemake.params.figures]
save_entries(entries, read_tables(snakemake.input), dict(snakemake.params.values), snakemake.output)
