"""Generate the congestion graphs of one graph set."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.api.machine_inputs import load_topology
from fabricast.core.units import MIB
from fabricast.pcie.graphs.checks import reject_peer_copies
from fabricast.pcie.tables.graphs import generate_graph_set, graphs_from_rows
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.results.tables import write_table

entry, values = snakemake.params.graph_set, snakemake.params
tree = load_topology(entry["topology"])
kinds = {key: entry[key] for key in ("validation_graphs", "random_graphs", "graphs_file")}
kinds |= {"size_bytes": values.size_mib * MIB, "seed": values.seed}
user_tree = with_host_memory(tree) if values.engines_only else tree
tables = generate_graph_set(snakemake.wildcards.graph_set, tree, user_tree=user_tree, **kinds)
if not (entry["pcie_only"] or values.engines_only):
    reject_peer_copies(tree, graphs_from_rows(tree, tables.communication))
write_table(tables.graph, "graph", snakemake.output.graph)
write_table(tables.communication, "communication", snakemake.output.communication)
