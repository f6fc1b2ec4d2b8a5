"""Graph sets of the PCIe study in the configuration.

REQUIRED INPUTS: `pcie` of the configuration.
PROVIDES: `GRAPH_SETS`, `SIMULATED_SETS`, `MEASURED_SETS`; configuration and files of a graph set.
"""

GRAPH_SETS = {
    name: entry
    for name, entry in settings.pcie.graph_sets.items()
    if entry.holds_graphs
}
# Machines with measured concurrent copies.
MEASURED_SETS = {
    name: entry
    for name, entry in settings.pcie.graph_sets.items()
    if entry.measurements
}
# Graph sets for the packet-level simulator.
SIMULATED_SETS = settings.pcie.simulated_sets


wildcard_constraints:
    graph_set="|".join(GRAPH_SETS),


def graph_set(wildcards):
    """Return the configuration of a graph set as plain values.

    The default parameters of the study apply only to built-in topologies.
    """
    values = GRAPH_SETS[wildcards.graph_set].model_dump()
    if not is_file(values["topology"]) and values["parameters"] is None:
        for key in ("bandwidth_gib_per_s", "tau", "crossing_cost"):
            if values[key] is None:
                values[key] = getattr(settings.pcie, key)
    return values


def graph_set_files(wildcards):
    """Return the user-supplied files of a graph set."""
    entry = GRAPH_SETS[wildcards.graph_set]
    topology = [entry.topology] if is_file(entry.topology) else []
    return topology + [
        path for path in (entry.graphs_file, entry.parameters) if path is not None
    ]
