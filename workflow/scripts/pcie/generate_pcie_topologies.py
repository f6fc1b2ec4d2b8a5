"""Write the built-in and user-supplied PCIe trees as tables."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.api.topologies import topologies_of
from fabricast.core.units import GIB
from fabricast.pcie.tables.topologies import link_rows, topology_rows, vertex_rows
from fabricast.results.tables import write_table

trees = topologies_of([*snakemake.input.builtin, *snakemake.input.files])
links = link_rows(trees, bandwidth_bytes_per_s=snakemake.params.bandwidth_gib_per_s * GIB)
write_table(topology_rows(trees), "topology", snakemake.output.topology)
write_table(vertex_rows(trees), "vertex", snakemake.output.vertex)
write_table(links, "link", snakemake.output.link)
