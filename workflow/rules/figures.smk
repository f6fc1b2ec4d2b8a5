"""Figures drawn from tables.

REQUIRED INPUTS: <results>/<study>/*.parquet.
OUTPUTS: <reports>/figures/<study>.<figure>.svg and the other `figure_formats`, listed in the catalogue (src/fabricast/figures/catalogue).
STEPS: plot_<study> for each study, and plot_claims.
"""


include: "figure_files.smk"


# Priority of the rules with the longest plotting times, so that none of them runs last on one core. The sum of these
# priorities is less than that of one other job, because Snakemake maximises the sum over the started jobs.
LONG_PICTURES = 0.1

# Figures that require the packet-level reference; the other figures do not wait for it.
SIMULATED_FIGURES = [
    name for name, entry in FIGURES["pcie"].items() if entry.needs_simulation
]
# Figures that are drawn from the tables of their study, without waiting for claims.
STUDY_FIGURES = {
    study: [name for name, entry in figures.items() if not entry.needs_claims]
    for study, figures in FIGURES.items()
}
CLAIM_FIGURES = {
    study: [name for name, entry in figures.items() if entry.needs_claims]
    for study, figures in FIGURES.items()
}
PLAIN_FIGURES = [
    name for name in STUDY_FIGURES["pcie"] if name not in SIMULATED_FIGURES
]
# Graph sets to draw: the topology of the paper if it is configured.
SHOWN_SET = "storm8" if "storm8" in GRAPH_SETS else sorted(GRAPH_SETS)[0]
_SIMULATED = sorted(SIMULATED_SETS, key=lambda name: (name != "storm8", name))
_HARDWARE = sorted(
    settings.pcie.hardware, key=lambda name: (name != "split_256_128", name)
)


PCIE_VALUES = {
    "bandwidth_bytes_per_s": 2**30
    * (GRAPH_SETS[SHOWN_SET].bandwidth_gib_per_s or settings.pcie.bandwidth_gib_per_s),
    "reference_time_s": settings.pcie.size_mib
    / 1024
    / settings.pcie.bandwidth_gib_per_s,
    "tolerance": study_tolerance(PUBLISHED / "studies.csv", "pcie"),
    "simulated_set": _SIMULATED[0] if _SIMULATED else "",
    "simulated_topology": GRAPH_SETS[_SIMULATED[0]].topology if _SIMULATED else "",
    "held_out": _SIMULATED,
    "origin": f"packets.{_HARDWARE[0]}" if _HARDWARE else "",
}


rule plot_pcie:
    """Figures of models, measured probes and schedules."""
    input:
        **{
            f"example_{table}": f"<results>/pcie/example.{table}.parquet"
            for table in ("communication", "phase")
        },
        **{
            table: f"<results>/pcie/{SHOWN_SET}.{table}.parquet"
            for table in ("prediction", "graph", "communication")
        },
        **{
            table: f"<results>/pcie/halos.{table}.parquet"
            for table in ("schedule", "schedule_summary", "schedule_histogram")
        },
        measured="<results>/pcie/all.comparison.parquet",
        measured_copy="<results>/pcie/copies.measured_copy.parquet",
        studies=PUBLISHED / "studies.csv",
    output:
        figure_outputs("pcie", PLAIN_FIGURES),
    log:
        "<logs>/plot_pcie.log",
    benchmark:
        "<logs>/benchmarks/plot_pcie.tsv"
    priority: LONG_PICTURES
    conda:
        "../../envs/environment.yaml"
    params:
        figures=PLAIN_FIGURES,
        values=PCIE_VALUES,
        code=code("figures", "config", "pcie"),
    script:
        "../scripts/pcie/plot_pcie.py"


if SIMULATED_SETS:

    rule plot_pcie_validation:
        """Figures of the models against the packet-level simulator."""
        input:
            **{
                name: f"<results>/pcie/{_SIMULATED[0]}.{table}.parquet"
                for name, table in (
                    ("simulated", "comparison"),
                    ("simulated_communication", "communication"),
                    ("error_histogram", "error_histogram"),
                    ("error_feature", "error_feature"),
                )
            },
            error_band=[
                f"<results>/pcie/{name}.error_band.parquet" for name in _SIMULATED
            ],
            parameter="<results>/pcie/calibrated.parameter.parquet",
            studies=PUBLISHED / "studies.csv",
        output:
            figure_outputs("pcie", SIMULATED_FIGURES),
        log:
            "<logs>/plot_pcie_validation.log",
        benchmark:
            "<logs>/benchmarks/plot_pcie_validation.tsv"
        priority: LONG_PICTURES
        conda:
            "../../envs/environment.yaml"
        params:
            figures=SIMULATED_FIGURES,
            values=PCIE_VALUES,
            code=code("figures", "config", "pcie"),
        script:
            "../scripts/pcie/plot_pcie.py"


rule plot_your_graph_set:
    """Slowdown and link loads of a graph set of the user."""
    input:
        prediction="<results>/pcie/{graph_set}.prediction.parquet",
        graph="<results>/pcie/{graph_set}.graph.parquet",
        communication="<results>/pcie/{graph_set}.communication.parquet",
        files=graph_set_files,
        studies=PUBLISHED / "studies.csv",
    output:
        your_figure_files("{graph_set}", False, *settings.figure_formats),
    log:
        "<logs>/plot_your_graph_set.{graph_set}.log",
    benchmark:
        "<logs>/benchmarks/plot_your_graph_set.{graph_set}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        graph_set=graph_set,
        figures=[entry.name for entry in YOUR_FIGURES if not entry.needs_simulation],
        contents=graph_set_contents,
        code=code("figures", "pcie"),
    script:
        "../scripts/pcie/plot_your_graph_set.py"


rule plot_your_errors:
    """Errors of the models against the packet-level simulator on a graph set of the user."""
    input:
        error_histogram="<results>/pcie/{graph_set}.error_histogram.parquet",
        error_band="<results>/pcie/{graph_set}.error_band.parquet",
        studies=PUBLISHED / "studies.csv",
    output:
        your_figure_files("{graph_set}", True, *settings.figure_formats),
    log:
        "<logs>/plot_your_errors.{graph_set}.log",
    benchmark:
        "<logs>/benchmarks/plot_your_errors.{graph_set}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        figures=[entry.name for entry in YOUR_FIGURES if entry.needs_simulation],
        values={key: PCIE_VALUES[key] for key in ("tolerance", "origin")},
        code=code("figures", "pcie"),
    script:
        "../scripts/pcie/plot_your_errors.py"


rule plot_breakdown:
    input:
        **{
            table: f"<results>/breakdown/systems.{table}.parquet"
            for table in (
                "breakdown_component",
                "breakdown_share",
                "breakdown_total",
                "what_if",
            )
        },
        studies=PUBLISHED / "studies.csv",
    output:
        figure_outputs("breakdown", STUDY_FIGURES["breakdown"]),
    log:
        "<logs>/plot_breakdown.log",
    benchmark:
        "<logs>/benchmarks/plot_breakdown.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        figures=STUDY_FIGURES["breakdown"],
        values={
            "system": "thunderx2",
            "tolerance": study_tolerance(PUBLISHED / "studies.csv", "breakdown"),
        },
        code=code("figures", "config", "breakdown"),
    script:
        "../scripts/breakdown/plot_breakdown.py"


rule plot_collectives:
    input:
        **{
            table: f"<results>/collectives/machines.{table}.parquet"
            for table in (
                "collective_machine",
                "collective_time",
                "collective_error",
                "cluster_time",
                "pair_rate",
            )
        },
    output:
        figure_outputs("collectives", STUDY_FIGURES["collectives"]),
    log:
        "<logs>/plot_collectives.log",
    benchmark:
        "<logs>/benchmarks/plot_collectives.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        figures=STUDY_FIGURES["collectives"],
        values={},
        code=code("figures", "config", "collectives"),
    script:
        "../scripts/collectives/plot_collectives.py"


rule plot_clusters:
    input:
        **{
            table: f"<results>/clusters/patterns.{table}.parquet"
            for table in ("cluster_layer", "cluster_choice", "cluster_copy")
        },
    output:
        figure_outputs("clusters", STUDY_FIGURES["clusters"]),
    log:
        "<logs>/plot_clusters.log",
    benchmark:
        "<logs>/benchmarks/plot_clusters.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        figures=STUDY_FIGURES["clusters"],
        values={},
        code=code("figures", "config"),
    script:
        "../scripts/clusters/plot_clusters.py"


rule plot_maxrate:
    input:
        **{
            table: f"<results>/maxrate/fits.{table}.parquet"
            for table in (
                "maxrate_measurement",
                "maxrate_fit",
                "prediction",
                "parameter",
            )
        },
    output:
        figure_outputs("maxrate", STUDY_FIGURES["maxrate"]),
    log:
        "<logs>/plot_maxrate.log",
    benchmark:
        "<logs>/benchmarks/plot_maxrate.tsv"
    priority: LONG_PICTURES
    conda:
        "../../envs/environment.yaml"
    params:
        figures=STUDY_FIGURES["maxrate"],
        values={"dataset": "bluewaters_irecv_2"},
        code=code("figures", "config", "maxrate"),
    script:
        "../scripts/maxrate/plot_maxrate.py"


rule plot_gpucentric:
    input:
        **{
            table: f"<results>/gpucentric/methods.{table}.parquet"
            for table in (
                "gpucentric_control",
                "gpucentric_workload",
                "gpucentric_statement",
                "gpucentric_observation",
                "gpucentric_choice",
                "gpucentric_path",
                "gpucentric_feasible",
                "parameter",
            )
        },
        **(
            {
                f"gpu_{table}": f"<results>/gpucentric/this_gpu.{table}.parquet"
                for table in ("gpucentric_measurement", "prediction")
            }
            if settings.gpucentric.measured
            else {}
        ),
    output:
        figure_outputs("gpucentric", STUDY_FIGURES["gpucentric"]),
    log:
        "<logs>/plot_gpucentric.log",
    benchmark:
        "<logs>/benchmarks/plot_gpucentric.tsv"
    priority: LONG_PICTURES
    conda:
        "../../envs/environment.yaml"
    params:
        figures=STUDY_FIGURES["gpucentric"],
        values={"system": "k20_extoll"},
        code=code("figures", "config", "gpucentric"),
    script:
        "../scripts/gpucentric/plot_gpucentric.py"


rule plot_percs:
    input:
        network_case=table_files("network_case", "percs"),
        network_link_class=table_files("network_link_class", "percs"),
        network_count="<results>/percs/links.network_count.parquet",
        network_example="<results>/percs/links.network_example.parquet",
        network_search="<results>/percs/searched.network_search.parquet",
        error_feature="<results>/percs/packets.error_feature.parquet",
        comparison="<results>/percs/all.comparison.parquet",
    output:
        figure_outputs("percs", STUDY_FIGURES["percs"]),
    log:
        "<logs>/plot_percs.log",
    benchmark:
        "<logs>/benchmarks/plot_percs.tsv"
    priority: LONG_PICTURES
    conda:
        "../../envs/environment.yaml"
    params:
        figures=STUDY_FIGURES["percs"],
        values={"workloads": settings.percs.workloads},
        code=code("figures", "config", "percs"),
    script:
        "../scripts/percs/plot_percs.py"


rule plot_claims:
    """Verdicts on claims by interpretation of the source."""
    input:
        reading="<results>/tables/claim_reading.parquet",
        claim="<results>/tables/claim.parquet",
    output:
        [
            file
            for study, names in CLAIM_FIGURES.items()
            for file in figure_outputs(study, names)
        ],
    log:
        "<logs>/plot_claims.log",
    benchmark:
        "<logs>/benchmarks/plot_claims.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        figures={study: names for study, names in CLAIM_FIGURES.items() if names},
        code=code("figures", "config"),
    script:
        "../scripts/run/plot_claims.py"
