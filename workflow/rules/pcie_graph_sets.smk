"""Graph sets of the PCIe study, as the configuration has them.

REQUIRED INPUTS: `pcie` of the configuration.
PROVIDES: `GRAPH_SETS`, `SIMULATED_SETS`, `MEASURED_SETS`; configuration and files of a graph set.
"""

GRAPH_SETS = {
    name: entry
    for name, entry in settings.pcie.graph_sets.items()
    if entry.holds_graphs
}
# Machines with copies that were measured together.
MEASURED_SETS = {
    name: entry
    for name, entry in settings.pcie.graph_sets.items()
    if entry.measurements
}
# Graph sets that the packet-level simulator runs.
SIMULATED_SETS = settings.pcie.simulated_sets


wildcard_constraints:
    graph_set="|".join(GRAPH_SETS),


def graph_set(wildcards):
    """Configuration of one graph set as plain values; the study's numbers belong to built-in topologies alone."""
    values = GRAPH_SETS[wildcards.graph_set].model_dump()
    if not is_file(values["topology"]) and values["parameters"] is None:
        for key in ("bandwidth_gib_per_s", "tau", "crossing_cost"):
            if values[key] is None:
                values[key] = getattr(settings.pcie, key)
    return values


def graph_set_files(wildcards):
    """Files of the user that a graph set reads."""
    entry = GRAPH_SETS[wildcards.graph_set]
    topology = [entry.topology] if is_file(entry.topology) else []
    return topology + [
        path for path in (entry.graphs_file, entry.parameters) if path is not None
    ]
