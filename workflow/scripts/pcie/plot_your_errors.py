"""Draw the errors of the models against the packet-level simulator on one graph set of the user."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.figures.catalogue.your_machine import FIGURES
from fabricast.figures.style import save_entries
from fabricast.results.tables import read_tables

values = {"graph_set": snakemake.wildcards.graph_set} | dict(snakemake.params.values)
entries = [entry for entry in FIGURES if entry.name in snakemake.params.figures]
save_entries(entries, read_tables(snakemake.input), values, snakemake.output)
