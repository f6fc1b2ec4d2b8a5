"""Simulate a share of a graph set packet by packet."""

from fabricast.pcie.tables.packets import chosen_graphs, simulated_rows
from fabricast.pcie.topology_files import load_tree
from fabricast.results.tables import read_table, write_table
from fabricast.runtime.jobs import log_to, progress_of

log_to(snakemake.log[0])
entry, names, values = snakemake.params.graph_set, snakemake.wildcards, snakemake.params
chosen = chosen_graphs(
    read_table(snakemake.input.graph), entry["simulated_graphs"], values.hardware, seed=values.seed,
    shard=int(names.shard), shards=values.shards,
)  # fmt: skip
with progress_of(f"simulating {names.graph_set}", sum(map(len, chosen.values()))) as advance:
    tables = simulated_rows(
        load_tree(entry["topology"]), read_table(snakemake.input.communication), chosen, threads=snakemake.threads,
        progress=advance,
    )  # fmt: skip
write_table(tables, "reference", snakemake.output.reference)
