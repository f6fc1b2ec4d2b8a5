"""Derive what other steps read from a run on a GPU."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.gpucentric.measured.tables import write_derived

files = snakemake.output
write_derived(snakemake.input.cells, files.parameters, files.probes)
