"""Evaluate all models on the graphs of one graph set."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.api.machine_inputs import load_topology
from fabricast.pcie.tables.graph_set_parameters import graph_set_parameters, parameter_rows
from fabricast.pcie.tables.predictions import elapsed_rows
from fabricast.results.tables import read_table, write_table

entry, name = snakemake.params.graph_set, snakemake.wildcards.graph_set
tree = load_topology(entry["topology"])
machine = graph_set_parameters(name, entry, tree)
rows = elapsed_rows(
    tree,
    read_table(snakemake.input.communication),
    snakemake.params.models,
    bandwidth_bytes_per_s=machine.bandwidth_bytes_per_s,
    tau=machine.tau,
    crossing_cost=machine.crossing_cost,
    threads=snakemake.threads,
)
write_table(rows, "prediction", snakemake.output.prediction)
write_table(parameter_rows(name, machine), "parameter", snakemake.output.parameter)
