"""Derive selector parameters and PCIe probes from a measured GPU."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.gpucentric.measured.tables import write_derived

files = snakemake.output
write_derived(snakemake.input.cells, files.parameters, files.probes)
