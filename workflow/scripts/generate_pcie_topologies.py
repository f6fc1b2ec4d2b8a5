"""Write the built-in and the user's PCIe trees as tables."""

from fabricast.jobs import log_to
from fabricast.pcie.topology_files import load_trees
from fabricast.pcie.topology_tables import link_rows, topology_rows, vertex_rows
from fabricast.tables import write_table
from fabricast.units import GIB

log_to(snakemake.log[0])
trees = load_trees([*snakemake.input.builtin, *snakemake.input.files])
links = link_rows(trees, bandwidth_bytes_per_s=snakemake.params.bandwidth_gib_per_s * GIB)
write_table(topology_rows(trees), "topology", snakemake.output.topology)
write_table(vertex_rows(trees), "vertex", snakemake.output.vertex)
write_table(links, "link", snakemake.output.link)
