"""Simulate a share of a graph set packet by packet."""

from fabricast.pcie.tables.packets import choose_graphs, simulated_rows
from fabricast.pcie.topology_files import load_tree
from fabricast.results.tables import read_table, write_table
from fabricast.runtime.jobs import log_to, progress_of

log_to(snakemake.log[0])
entry, names, values = snakemake.params.graph_set, snakemake.wildcards, snakemake.params
graph = choose_graphs(read_table(snakemake.input.graph), entry["simulated_graphs"], seed=values.seed)
share = graph["graph"].iloc[int(names.shard) :: values.shards]
rows = read_table(snakemake.input.communication)
rows = rows[rows["graph"].isin(share)].reset_index(drop=True)
with progress_of(f"simulating {names.graph_set}", len(share) * len(values.hardware)) as advance:
    tables = simulated_rows(
        load_tree(entry["topology"]), rows, values.hardware, threads=snakemake.threads, progress=advance
    )
write_table(tables, "reference", snakemake.output.reference)
