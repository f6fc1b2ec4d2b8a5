"""Draw the slowdown of the copies of one graph set of the user, and the loads of its slowest graph."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.api.machine_inputs import load_topology
from fabricast.figures.catalogue.your_machine import FIGURES
from fabricast.figures.style import save_entries
from fabricast.pcie.tables.graph_set_parameters import graph_set_parameters
from fabricast.pcie.tables.worked_example import slowest_graph_phases
from fabricast.results.tables import read_tables

entry = snakemake.params.graph_set
tree = load_topology(entry["topology"])
machine = graph_set_parameters(snakemake.wildcards.graph_set, entry, tree)
read = read_tables(snakemake.input, categories=True)
slowest, phase = slowest_graph_phases(tree, read("communication"), read("prediction"), machine)
values = {
    "tree": tree,
    "bandwidth_bytes_per_s": machine.bandwidth_bytes_per_s,
    "slowest_graph": slowest,
    "phase": phase,
}
save_entries([one for one in FIGURES if one.name in snakemake.params.figures], read, values, snakemake.output)
