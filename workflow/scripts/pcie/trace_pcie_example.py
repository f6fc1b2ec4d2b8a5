"""Evaluate the examples of the slides phase by phase."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.inputs.parameters import read_parameters
from fabricast.pcie.tables.worked_example import example_tables
from fabricast.pcie.topology.builtin import load_tree
from fabricast.results.tables import write_table

value = {p.name: p.value for p in read_parameters(snakemake.input.parameters) if p.system == "storm8"}
tables = example_tables(
    load_tree("storm8"),
    snakemake.params.models,
    size_bytes=value["message_size"],
    bandwidth_bytes_per_s=value["bandwidth"],
    tau=value["tau_worked_example"],
)
for table in ("phase", "prediction", "reference"):
    write_table(getattr(tables, table), table, snakemake.output[table])
for table in ("graph", "communication"):
    write_table(getattr(tables.graphs, table), table, snakemake.output[table])
