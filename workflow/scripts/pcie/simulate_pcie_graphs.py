"""Simulate a shard of a graph set at packet level."""

from fabricast.runtime.jobs import log_to, progress_of

log_to(snakemake.log[0])

from fabricast.api.machine_inputs import load_topology
from fabricast.pcie.tables.packets import chosen_graphs, graphs_of_job, simulated_rows
from fabricast.results.tables import read_table, write_table

entry, names, values = snakemake.params.graph_set, snakemake.wildcards, snakemake.params
tree, communication = load_topology(entry["topology"]), read_table(snakemake.input.communication)
chosen = chosen_graphs(read_table(snakemake.input.graph), entry["simulated_graphs"], values.hardware, seed=values.seed)
own = graphs_of_job(tree, communication, chosen, shard=int(names.shard), shards=values.shards)
with progress_of(f"simulating {names.graph_set}", sum(map(len, own.values()))) as advance:
    tables = simulated_rows(tree, communication, own, threads=snakemake.threads, progress=advance)
write_table(tables, "reference", snakemake.output.reference)
