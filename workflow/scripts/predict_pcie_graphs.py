"""Evaluate all models on the graphs of one graph set."""

from fabricast.jobs import log_to
from fabricast.pcie.prediction_tables import elapsed_rows
from fabricast.pcie.topology_files import load_tree
from fabricast.tables import read_table, write_table
from fabricast.units import GIB

log_to(snakemake.log[0])
entry = snakemake.params.graph_set
rows = elapsed_rows(
    load_tree(entry["topology"]),
    read_table(snakemake.input.communication),
    snakemake.params.models,
    bandwidth_bytes_per_s=entry["bandwidth_gib_per_s"] * GIB,
    tau=entry["tau"],
    threads=snakemake.threads,
)
write_table(rows, "prediction", snakemake.output.prediction)
