"""Helpers of all rules: the checked configuration and what a table is made of.

REQUIRED INPUTS: the merged configuration (config/README.md).
PROVIDES: `settings` and `STUDIES`; digests of code, parts of tables, files of graph sets and figures.
"""

import os
import sys
from pathlib import Path

from snakemake.common.configfile import load_configfile
from snakemake.utils import update_config

# Not workflow.basedir: as a module of another workflow, that is the other one's folder.
REPOSITORY = Path(str(workflow.current_basedir)).parents[1]
if Path.cwd() == REPOSITORY:
    # A folder that was moved or copied has nothing to do again.
    REPOSITORY = Path()
# The package lies beside this workflow; jobs find it as this process does.
_SOURCE = REPOSITORY / "src"
sys.path.insert(0, str(_SOURCE.resolve()))
os.environ.update(
    PYTHONPATH=os.pathsep.join(
        filter(None, [str(_SOURCE.resolve()), os.environ.get("PYTHONPATH")])
    )
)

from fabricast.studies import study_tolerance
from fabricast.config import checked_config
from fabricast.errors import InputError
from fabricast.code_digest import source_digest

# A workflow that uses this one as a module may give only what differs from the default study.
_configured = load_configfile(REPOSITORY / "config" / "config.yaml")
update_config(_configured, config)
try:
    settings = checked_config(_configured)
except InputError as error:
    raise WorkflowError(str(error)) from None

STUDIES = ("pcie", "breakdown", "maxrate", "gpucentric", "percs")
GRAPH_SETS = settings.pcie.graph_sets
# Graph sets that the packet-level simulator runs.
SIMULATED_SETS = [
    name
    for name, entry in GRAPH_SETS.items()
    if entry.simulated_graphs != 0 and settings.pcie.hardware
]
PUBLISHED = REPOSITORY / "config" / "published"
# Figure by study: name, title, and the module-level function that draws it.
FIGURES = {
    "pcie": {
        "topology_loads": "Link loads on the tree",
        "worked_example": "Worked example",
        "slowdown": "Predicted slowdown",
        "model_differences": "Differences between models",
        "measured_probes": "Predicted against measured",
        "error_distribution": "Errors against the packet-level simulator",
        "predicted_simulated": "Predicted against simulated",
        "error_by_size": "Errors and the number of communications",
        "model_hardware": "Models on different hardware",
        "worst_case": "The worst case",
        "error_features": "What explains the errors",
        "schedule_distribution": "All schedules of a halo exchange",
        "schedule_timeline": "The fastest schedule",
    },
    "breakdown": {
        "totals": "Injection and latency",
        "injection_shares": "What injection is made of",
        "latency_shares": "What latency is made of",
        "what_if": "What if a part were faster",
        "accuracy": "Model against observed",
        "sensitivity": "Which component matters",
    },
    "maxrate": {
        "rates": "Rate of a node",
        "time_surfaces": "Time over size and processes",
        "time_curves": "Time by size",
        "small_messages": "Small messages",
        "error_surface": "Where the published parameters err",
        "model_errors": "Errors of all models on all data",
        "parameter_intervals": "What the data tell of the rates",
    },
    "gpucentric": {
        "controls": "Forms of control",
        "curves": "Latency and bandwidth of methods",
        "allreduce_power": "Power of an allreduce",
        "workload_performance": "Performance of workloads",
        "workload_energy": "Energy of workloads",
        "robustness": "How firmly statements hold",
        "observations": "What slides say",
        "choice_map": "Which method is best",
        "measured_paths": "Measured paths and models",
        "feasible_rates": "Rates that agree with the talk",
    },
    "percs": {
        "link_counts": "Links by supernodes",
        "usage_4d": "Link usage, 4D stencil",
        "usage_mchalf": "Link usage, multicast",
        "usage_2d": "Link usage, 2D stencil",
        "times_small": "Times on 64 supernodes",
        "times_large": "Times on 300 supernodes",
        "placement": "Placement of a job",
        "sensitivity": "What decides the best mapping",
        "packets": "Packet level and bound",
        "mapping_search": "A mapping found by search",
        "time_features": "What tells the packet level from its bound",
    },
}
for _workload, _figure in (("2D-64", "usage_2d"), ("MChalf-64", "usage_mchalf")):
    if _workload not in settings.percs.workloads:
        FIGURES["percs"].pop(_figure)
if not any(name.endswith("-300") for name in settings.percs.workloads):
    FIGURES["percs"].pop("times_large")
if not settings.percs.sensitivity:
    FIGURES["percs"].pop("placement")
if settings.gpucentric.measured:
    FIGURES["gpucentric"]["this_gpu"] = "A GPU of this machine"
if settings.maxrate.measured:
    FIGURES["maxrate"]["this_machine"] = "Pairs of processes on this machine"
# Figures that need the packet-level reference.
SIMULATED_FIGURES = (
    "error_distribution",
    "predicted_simulated",
    "error_by_size",
    "model_hardware",
    "worst_case",
    "error_features",
)
if not SIMULATED_SETS:
    for _figure in SIMULATED_FIGURES:
        FIGURES["pcie"].pop(_figure)
    SIMULATED_FIGURES = ()
PLAIN_FIGURES = [name for name in FIGURES["pcie"] if name not in SIMULATED_FIGURES]
FIGURE_FORMATS = ("svg", "pdf", "png")
PERCS_SHARDS = range(settings.percs.shards)
# Parts of every table: `<results>/<study>/<part>.<table>.parquet`.
TABLE_PARTS = {}


wildcard_constraints:
    study="|".join(STUDIES),
    graph_set="|".join(GRAPH_SETS),
    shard=r"\d+",
    figure="[a-z_]+",
    table="[a-z_]+",


def code(*modules):
    """Digest of package modules, so that an edit to one reruns the rules that use it."""
    return source_digest(*(f"fabricast.{module}" for module in modules))


def add_parts(study, **parts_of_table):
    """Declare which files of a study make up a table."""
    for table, parts in parts_of_table.items():
        names = [f"<results>/{study}/{part}.{table}.parquet" for part in parts]
        TABLE_PARTS.setdefault(table, []).extend(names)


def table_parts(table, study=None):
    """Parts of a table, of one study or of all."""
    prefix = f"<results>/{study}/" if study else "<results>/"
    return [part for part in TABLE_PARTS[table] if part.startswith(prefix)]


def compared_parts(table, study):
    """Parts that hold predictions and references of the same cases."""
    predicted = {
        part.split(".prediction.")[0] for part in table_parts("prediction", study)
    }
    both = [
        part.split(".reference.")[0]
        for part in table_parts("reference", study)
        if part.split(".reference.")[0] in predicted
    ]
    return [f"{part}.{table}.parquet" for part in both]


def figure_files():
    """All figures in all formats."""
    return [
        f"<reports>/figures/{study}.{figure}.{ending}"
        for study, figures in FIGURES.items()
        for figure in figures
        for ending in FIGURE_FORMATS
    ]


def builtin_or_file(name, folder):
    """Path of a YAML file, given itself or as the name of a file in a folder of config."""
    if name.endswith((".yaml", ".yml")):
        return name
    return str(REPOSITORY / "config" / folder / f"{name}.yaml")


def is_file(topology):
    """Whether a topology is a file of the user, not a built-in name."""
    return topology.endswith((".yaml", ".yml", ".xml"))


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


def drawn(study, figures):
    """Outputs of figures: SVG with caption for the report, PDF and PNG beside it."""
    files = []
    for figure in figures:
        title = FIGURES[study][figure]
        stem = f"<reports>/figures/{study}.{figure}"
        vector = report(
            f"{stem}.svg",
            caption=f"../report/{study}_{figure}.rst",
            category=study,
            labels={"figure": title},
        )
        files += [vector, f"{stem}.pdf", f"{stem}.png"]
    return files


def simulated_parts(graph_set):
    """Parts of the packet-level reference of a graph set."""
    shards = range(settings.pcie.shards)
    return [f"<results>/pcie/{graph_set}.{n}.reference.parquet" for n in shards]


def percs_loads(*tables):
    """All shards of tables of link loads, by table."""
    return {
        table: [f"<results>/percs/loads.{n}.{table}.parquet" for n in PERCS_SHARDS]
        for table in tables
    }
