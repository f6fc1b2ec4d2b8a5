"""The PCIe study: topologies, congestion graphs, predictions, references.

REQUIRED INPUTS: `pcie` of the configuration, config/topologies, config/published.
OUTPUTS: <results>/pcie/<part>.<table>.parquet, declared by `add_parts` below.
STEPS: generate_pcie_topologies, generate_pcie_graphs, predict_pcie_graphs for each graph
set; trace_pcie_example (published reference); evaluate_pcie_probes (measured reference).
simulate_pcie_graphs, calibrate_pcie_models and validate_pcie_models (simulated reference).
"""

PCIE_MODELS = list(settings.pcie.models)

add_parts(
    "pcie",
    topology=["trees"],
    vertex=["trees"],
    link=["trees"],
    graph=[*GRAPH_SETS, "example", "probes"],
    communication=[*GRAPH_SETS, "example", "probes"],
    prediction=[*GRAPH_SETS, "example", "probes"],
    phase=["example"],
    reference=["example", "probes"],
    parameter=["published", *GRAPH_SETS],
    schedule=["halos"],
    schedule_summary=["halos"],
    schedule_histogram=["halos"],
)
if SIMULATED_SETS:
    add_parts(
        "pcie",
        parameter=["calibrated"],
        **{
            table: SIMULATED_SETS
            for table in (
                "comparison",
                "error_band",
                "accuracy",
                "error_histogram",
                "error_feature",
            )
        },
    )
for _graph_set in SIMULATED_SETS:
    TABLE_PARTS["reference"] += simulated_parts(_graph_set)


rule compile_pcie_kernels:
    """Machine code of the kernels, so that no two jobs compile it at the same time."""
    output:
        "<results>/pcie/kernels.txt",
    log:
        "<logs>/compile_pcie_kernels.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("pcie.kernels"),
    script:
        "../scripts/compile_pcie_kernels.py"


rule compile_packet_kernels:
    """Machine code of the packet-level simulator."""
    output:
        "<results>/pcie/packet_kernels.txt",
    log:
        "<logs>/compile_packet_kernels.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("pcie.packets_kernels", "pcie.symmetry_kernels"),
    script:
        "../scripts/compile_packet_kernels.py"


rule generate_pcie_topologies:
    """Built-in trees and the user's."""
    input:
        files=[
            entry.topology for entry in GRAPH_SETS.values() if is_file(entry.topology)
        ],
        builtin=sorted(map(str, (PUBLISHED.parent / "topologies").glob("*.yaml"))),
    output:
        topology="<results>/pcie/trees.topology.parquet",
        vertex="<results>/pcie/trees.vertex.parquet",
        link="<results>/pcie/trees.link.parquet",
    log:
        "<logs>/generate_pcie_topologies.log",
    conda:
        "../../envs/environment.yaml"
    params:
        bandwidth_gib_per_s=settings.pcie.bandwidth_gib_per_s,
        code=code("pcie.topology_tables", "pcie.topology_files", "tables"),
    script:
        "../scripts/generate_pcie_topologies.py"


rule generate_pcie_graphs:
    """Validation, stress and user graphs on one topology."""
    input:
        files=graph_set_files,
        kernels="<results>/pcie/kernels.txt",
    output:
        graph="<results>/pcie/{graph_set}.graph.parquet",
        communication="<results>/pcie/{graph_set}.communication.parquet",
    log:
        "<logs>/generate_pcie_graphs.{graph_set}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        graph_set=graph_set,
        size_mib=settings.pcie.size_mib,
        seed=settings.seed,
        code=code(
            "pcie.graph_tables",
            "pcie.machine_parameters",
            "pcie.topology_files",
            "tables",
        ),
    script:
        "../scripts/generate_pcie_graphs.py"


rule predict_pcie_graphs:
    """Elapsed time of every communication with every model."""
    input:
        kernels="<results>/pcie/kernels.txt",
        files=graph_set_files,
        communication="<results>/pcie/{graph_set}.communication.parquet",
    output:
        prediction="<results>/pcie/{graph_set}.prediction.parquet",
        parameter="<results>/pcie/{graph_set}.parameter.parquet",
    log:
        "<logs>/predict_pcie_graphs.{graph_set}.log",
    # Figures wait for it: start early.
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        graph_set=graph_set,
        models=PCIE_MODELS,
        code=code(
            "pcie.prediction_tables",
            "pcie.graph_set_parameters",
            "pcie.topology_files",
            "tables",
        ),
    script:
        "../scripts/predict_pcie_graphs.py"


rule trace_pcie_example:
    """The worked example of the slides, phase by phase (reference: published)."""
    input:
        kernels="<results>/pcie/kernels.txt",
        parameters=PUBLISHED / "parameters.csv",
    output:
        graph="<results>/pcie/example.graph.parquet",
        communication="<results>/pcie/example.communication.parquet",
        phase="<results>/pcie/example.phase.parquet",
        prediction="<results>/pcie/example.prediction.parquet",
        reference="<results>/pcie/example.reference.parquet",
    log:
        "<logs>/trace_pcie_example.log",
    conda:
        "../../envs/environment.yaml"
    params:
        models=PCIE_MODELS,
        code=code("pcie.worked_example", "pcie.topology_files", "parameters", "tables"),
    script:
        "../scripts/trace_pcie_example.py"


rule evaluate_pcie_probes:
    """Concurrent copies that others measured, and those of this GPU (reference: measured)."""
    input:
        kernels="<results>/pcie/kernels.txt",
        probes=[PUBLISHED / "pcie_measured_probes.csv"]
        + (
            ["<results>/gpucentric/this_gpu.probes.csv"]
            if settings.gpucentric.measured
            else []
        ),
        parameters=PUBLISHED / "parameters.csv",
    output:
        graph="<results>/pcie/probes.graph.parquet",
        communication="<results>/pcie/probes.communication.parquet",
        prediction="<results>/pcie/probes.prediction.parquet",
        reference="<results>/pcie/probes.reference.parquet",
    log:
        "<logs>/evaluate_pcie_probes.log",
    conda:
        "../../envs/environment.yaml"
    params:
        models=PCIE_MODELS,
        code=code("pcie.probes", "parameters", "tables"),
    script:
        "../scripts/evaluate_pcie_probes.py"


rule simulate_pcie_graphs:
    """Packet-level simulation of a share of a graph set on all hardware (reference: simulated)."""
    input:
        kernels="<results>/pcie/packet_kernels.txt",
        files=graph_set_files,
        graph="<results>/pcie/{graph_set}.graph.parquet",
        communication="<results>/pcie/{graph_set}.communication.parquet",
    output:
        reference="<results>/pcie/{graph_set}.{shard}.reference.parquet",
    log:
        "<logs>/simulate_pcie_graphs.{graph_set}.{shard}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        graph_set=graph_set,
        hardware=list(settings.pcie.hardware),
        shards=settings.pcie.shards,
        seed=settings.seed,
        code=code("pcie.packet_tables", "pcie.topology_files", "tables"),
    script:
        "../scripts/simulate_pcie_graphs.py"


rule calibrate_pcie_models:
    """Parameters of the models on each simulated hardware, from three probes."""
    input:
        kernels="<results>/pcie/packet_kernels.txt",
        files=[
            GRAPH_SETS[name].topology
            for name in SIMULATED_SETS
            if is_file(GRAPH_SETS[name].topology)
        ],
    output:
        parameter="<results>/pcie/calibrated.parameter.parquet",
    log:
        "<logs>/calibrate_pcie_models.log",
    conda:
        "../../envs/environment.yaml"
    params:
        topologies=sorted({GRAPH_SETS[name].topology for name in SIMULATED_SETS}),
        hardware=list(settings.pcie.hardware),
        size_mib=settings.pcie.size_mib,
        seed=settings.seed,
        code=code("pcie.packet_tables", "pcie.topology_files", "tables"),
    script:
        "../scripts/calibrate_pcie_models.py"


rule validate_pcie_models:
    """Errors of every model against the simulated reference, and what explains them."""
    input:
        kernels="<results>/pcie/kernels.txt",
        files=graph_set_files,
        graph="<results>/pcie/{graph_set}.graph.parquet",
        communication="<results>/pcie/{graph_set}.communication.parquet",
        reference=lambda wildcards: simulated_parts(wildcards.graph_set),
        parameter="<results>/pcie/calibrated.parameter.parquet",
        studies=PUBLISHED / "studies.csv",
    output:
        comparison="<results>/pcie/{graph_set}.comparison.parquet",
        error_band="<results>/pcie/{graph_set}.error_band.parquet",
        accuracy="<results>/pcie/{graph_set}.accuracy.parquet",
        error_histogram="<results>/pcie/{graph_set}.error_histogram.parquet",
        error_feature="<results>/pcie/{graph_set}.error_feature.parquet",
    log:
        "<logs>/validate_pcie_models.{graph_set}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        graph_set=graph_set,
        models=PCIE_MODELS,
        # Each single reading of the slides alone stands in the error statistics, not in the predictions.
        ablations=settings.pcie.ablations,
        resamples=settings.bootstrap_resamples,
        seed=settings.seed,
        code=code("pcie.validation", "pcie.topology_files", "tables"),
    script:
        "../scripts/validate_pcie_models.py"


rule search_pcie_schedules:
    """Every schedule of halo exchanges, and the best found of larger patterns."""
    input:
        kernels="<results>/pcie/kernels.txt",
        published=PUBLISHED / "pcie_schedules.yaml",
        files=[name for name in settings.pcie.schedules.topologies if is_file(name)],
    output:
        schedule="<results>/pcie/halos.schedule.parquet",
        schedule_summary="<results>/pcie/halos.schedule_summary.parquet",
        schedule_histogram="<results>/pcie/halos.schedule_histogram.parquet",
    log:
        "<logs>/search_pcie_schedules.log",
    # Figures wait for it: start early.
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        **settings.pcie.schedules.model_dump(),
        size_mib=settings.pcie.size_mib,
        bandwidth_gib_per_s=settings.pcie.bandwidth_gib_per_s,
        tau=settings.pcie.tau,
        crossing_cost=settings.pcie.crossing_cost,
        seed=settings.seed,
        code=code("pcie.schedule_tables", "tables"),
    script:
        "../scripts/search_pcie_schedules.py"
