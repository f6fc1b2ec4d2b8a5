"""The one list of table shards: the tables that each rule writes, as `<results>/<study>/<shard>.<table>.parquet`.

REQUIRED INPUTS: `settings`, `STUDIES`, the graph sets of the PCIe study.
PROVIDES: `outputs` of a rule, `table_files` of all rules, `compared_files` of a study.
"""

from typing import NamedTuple


class Shards(NamedTuple):
    """Files of one rule: one for each table and combination of wildcards."""

    study: str
    shard: str
    tables: tuple
    wildcards: dict = {}
    # Optional measurements become part of the run's tables only if the configuration includes them.
    in_run: bool = True


# Tables of cases with a prediction and a published or measured reference.
PCIE_CASES = ("graph", "communication", "prediction", "reference")

OUTPUTS = {
    "collect_pcie_parameters": Shards("pcie", "published", ("parameter",)),
    "collect_percs_parameters": Shards("percs", "published", ("parameter",)),
    "generate_pcie_topologies": Shards("pcie", "trees", ("topology", "vertex", "link")),
    "generate_pcie_graphs": Shards(
        "pcie", "{graph_set}", ("graph", "communication"), {"graph_set": GRAPH_SETS}
    ),
    "predict_pcie_graphs": Shards(
        "pcie", "{graph_set}", ("prediction", "parameter"), {"graph_set": GRAPH_SETS}
    ),
    "forecast_your_copies": Shards(
        "pcie",
        "{graph_set}",
        ("forecast", "forecast_warning"),
        {"graph_set": YOUR_GRAPHS},
    ),
    "trace_pcie_example": Shards("pcie", "example", (*PCIE_CASES, "phase")),
    "evaluate_pcie_probes": Shards("pcie", "probes", PCIE_CASES),
    "evaluate_measured_copies": Shards(
        "pcie",
        "copies",
        (
            "measured_copy",
            "machine_warning",
            "prediction",
            "reference",
            "parameter",
            "error_histogram",
            "error_feature",
        ),
    ),
    "simulate_pcie_graphs": Shards(
        "pcie",
        "{graph_set}.{shard}",
        ("reference",),
        {"graph_set": SIMULATED_SETS, "shard": range(settings.pcie.shards)},
    ),
    "calibrate_pcie_models": Shards(
        "pcie", "calibrated", ("parameter",), in_run=bool(SIMULATED_SETS)
    ),
    "validate_pcie_models": Shards(
        "pcie",
        "{graph_set}",
        ("comparison", "error_band", "accuracy", "error_histogram", "error_feature"),
        {"graph_set": SIMULATED_SETS},
    ),
    "search_pcie_schedules": Shards(
        "pcie", "halos", ("schedule", "schedule_summary", "schedule_histogram")
    ),
    "evaluate_breakdown": Shards(
        "breakdown",
        "systems",
        (
            "breakdown_component",
            "breakdown_share",
            "breakdown_total",
            "what_if",
            "prediction",
            "reference",
            "parameter",
        ),
    ),
    "measure_breakdown": Shards(
        "breakdown",
        "measured",
        ("breakdown_component", "breakdown_total", "prediction", "reference"),
        in_run=settings.breakdown.measured,
    ),
    "fit_maxrate": Shards(
        "maxrate",
        "fits",
        ("maxrate_measurement", "maxrate_fit", "prediction", "reference", "parameter"),
    ),
    "evaluate_gpucentric": Shards(
        "gpucentric",
        "methods",
        (
            "gpucentric_prediction",
            "gpucentric_choice",
            "gpucentric_statement",
            "gpucentric_observation",
            "gpucentric_crossover",
            "gpucentric_feasible",
            "gpucentric_path",
            "gpucentric_control",
            "gpucentric_workload",
            "prediction",
            "reference",
            "parameter",
        ),
    ),
    "evaluate_gpu_run": Shards(
        "gpucentric",
        "this_gpu",
        ("gpucentric_measurement", "prediction", "reference", "parameter"),
        in_run=settings.gpucentric.measured,
    ),
    "count_percs_links": Shards("percs", "links", ("network_count", "network_example")),
    "evaluate_percs_loads": Shards(
        "percs",
        "loads.{shard}",
        ("network_case", "network_link_class", "network_link_histogram"),
        {"shard": range(settings.percs.shards)},
    ),
    "compare_percs_packets": Shards(
        "percs", "packets", ("prediction", "reference", "error_feature")
    ),
    "evaluate_collectives": Shards(
        "collectives",
        "machines",
        (
            "collective_machine",
            "collective_time",
            "collective_error",
            "cluster_time",
            "cluster_error",
            "pair_rate",
            "prediction",
            "reference",
            "parameter",
        ),
    ),
    "evaluate_clusters": Shards(
        "clusters", "patterns", ("cluster_layer", "cluster_choice", "cluster_copy")
    ),
    "search_percs_mappings": Shards("percs", "searched", ("network_search",)),
}

# Studies with predictions and references of the same cases.
COMPARED = sorted(
    {
        entry.study
        for entry in OUTPUTS.values()
        if entry.in_run
        and {"prediction", "reference"} <= set(entry.tables)
        and entry.study in STUDIES
    },
    key=STUDIES.index,
)
OUTPUTS["compare_study"] = Shards(
    "{study}", "all", ("comparison", "error_band"), {"study": COMPARED}
)


def _path(entry, table):
    return f"<results>/{entry.study}/{entry.shard}.{table}.parquet"


def outputs(rule):
    """Output files of a rule by table, with its wildcards."""
    return {table: _path(OUTPUTS[rule], table) for table in OUTPUTS[rule].tables}


def _files(entries, table):
    return [
        path
        for entry in entries
        if entry.in_run and table in entry.tables
        for path in expand(_path(entry, table), **entry.wildcards)
    ]


def table_files(table, study=None):
    """Shards of a table in this run, of one study or of all."""
    return _files(
        [entry for entry in OUTPUTS.values() if study in (None, entry.study)], table
    )


def _files_by_table(entries):
    tables = dict.fromkeys(table for entry in entries for table in entry.tables)
    return {table: files for table in tables if (files := _files(entries, table))}


def all_table_files():
    """Shards of every table in this run."""
    return _files_by_table(OUTPUTS.values())


def your_table_files():
    """Shards of every table about the user's graph sets, machines and measurements."""
    graphs = OUTPUTS["generate_pcie_graphs"]
    shards = [
        OUTPUTS["generate_pcie_topologies"],
        graphs._replace(wildcards={"graph_set": YOUR_GRAPHS}),
        OUTPUTS["forecast_your_copies"],
    ]
    if MEASURED_SETS:
        shards.append(OUTPUTS["evaluate_measured_copies"])
    for rule_name, names in (
        ("predict_pcie_graphs", YOUR_STUDIED),
        ("validate_pcie_models", YOUR_SIMULATED),
    ):
        if names:
            shards.append(OUTPUTS[rule_name]._replace(wildcards={"graph_set": names}))
    return _files_by_table(shards)


def compared_files(table, study):
    """Shards of prediction or reference of a study whose rule writes both for the same cases."""
    return _files(
        [
            entry
            for entry in OUTPUTS.values()
            if entry.study == study and {"prediction", "reference"} <= set(entry.tables)
        ],
        table,
    )
