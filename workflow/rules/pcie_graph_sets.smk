"""Graph sets of the PCIe study in the configuration.

REQUIRED INPUTS: `pcie` of the configuration.
PROVIDES: `GRAPH_SETS`, `SIMULATED_SETS`, `MEASURED_SETS`, `YOUR_SETS`, `YOUR_STUDIED`; configuration of a graph set; files of the user
by rule; `ONLY_YOURS`: whether a run without targets computes only the user's graph sets.
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
# Graph sets of the user: with files, or with names that the study does not have.
YOUR_SETS = [
    name
    for name, entry in settings.pcie.graph_sets.items()
    if entry.is_yours or name not in STUDY_SETS
]
YOUR_GRAPHS = [name for name in GRAPH_SETS if name in YOUR_SETS]
# Sets of the user with validation graphs get what the study has: all models, simulations and figures.
YOUR_STUDIED = [name for name in YOUR_GRAPHS if GRAPH_SETS[name].validation_graphs]
YOUR_SIMULATED = [name for name in YOUR_STUDIED if name in SIMULATED_SETS]
# Measurements for other studies need these studies.
ONLY_YOURS = bool(YOUR_SETS) and not settings.has_other_measurements
# Files of the user, which are inputs and whose contents are parameters of rules.
TOPOLOGY_FILES = [
    entry.topology
    for entry in settings.pcie.graph_sets.values()
    if is_file(entry.topology)
]
# With keep-going, other jobs would run for minutes after the first job that reads the file has failed.
if workflow.is_main_process:
    from fabricast.api.machine_inputs import load_topology

    for _path in filter(os.path.isfile, TOPOLOGY_FILES):
        try:
            load_topology(_path)
        except InputError as error:
            raise WorkflowError(str(error)) from None
SIMULATED_FILES = [
    GRAPH_SETS[name].topology
    for name in SIMULATED_SETS
    if is_file(GRAPH_SETS[name].topology)
]
SCHEDULE_FILES = [name for name in settings.pcie.schedules.topologies if is_file(name)]
MEASURED_FILES = [
    path
    for entry in MEASURED_SETS.values()
    for path in (entry.topology, entry.measurements)
    if path == entry.measurements or is_file(path)
]


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


def graph_set_contents(wildcards):
    """Return the digest of the user-supplied files of a graph set."""
    return files_digest(graph_set_files(wildcards))


def forecast_values(wildcards):
    """Return what a graph set states about its machine and copies, as arguments of `fabricast.predict`."""
    entry = GRAPH_SETS[wildcards.graph_set]
    bandwidth = entry.bandwidth_gib_per_s
    return {
        "measurements": entry.measurements,
        "bandwidth": None if bandwidth is None else f"{bandwidth} GiB/s",
        "tau": entry.tau,
        "crossing_cost": entry.crossing_cost,
        "parameters": entry.parameters,
        "pcie_only": entry.pcie_only,
    }


def forecast_files(wildcards):
    """Return the user-supplied files of a forecast."""
    measured = GRAPH_SETS[wildcards.graph_set].measurements
    return graph_set_files(wildcards) + ([measured] if measured else [])
