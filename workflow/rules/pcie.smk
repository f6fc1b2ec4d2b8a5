"""The PCIe study: topologies, congestion graphs, predictions, references.

REQUIRED INPUTS: `pcie` of the configuration, config/topologies, config/published.
OUTPUTS: <results>/pcie/<part>.<table>.parquet, declared by `parts` of each rule.
STEPS: generate_pcie_topologies, generate_pcie_graphs, predict_pcie_graphs for each graph
set; forecast_your_copies for each graph set of the user; trace_pcie_example (published reference); evaluate_pcie_probes, evaluate_measured_copies,
measure_pcie_copies (optional, on CUDA GPUs);
simulate_pcie_graphs, calibrate_pcie_models and validate_pcie_models (simulated reference).
"""

PREDICTED_MODELS = list(settings.pcie.models)
# Functions of users, `module:function`, only predict the graph sets.
PCIE_MODELS = [model for model in PREDICTED_MODELS if ":" not in model]
USER_MODULES = [
    path
    for model in PREDICTED_MODELS
    if ":" in model
    and (path := Path(*model.partition(":")[0].split(".")).with_suffix(".py")).is_file()
]
# Priority of rules on the critical path: simulations, their inputs and the rules that wait for them.
LONGEST_CHAIN = 2


rule compile_pcie_kernels:
    """Machine code of the kernels; compiled first, so that jobs do not compile it concurrently."""
    output:
        "<results>/pcie/kernels.txt",
    log:
        "<logs>/compile_pcie_kernels.log",
    benchmark:
        "<logs>/benchmarks/compile_pcie_kernels.tsv"
    priority: LONGEST_CHAIN
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("pcie"),
    script:
        "../scripts/pcie/compile_pcie_kernels.py"


rule compile_packet_kernels:
    """Machine code of the packet-level simulator."""
    output:
        "<results>/pcie/packet_kernels.txt",
    log:
        "<logs>/compile_packet_kernels.log",
    benchmark:
        "<logs>/benchmarks/compile_packet_kernels.tsv"
    priority: LONGEST_CHAIN
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("pcie"),
    script:
        "../scripts/pcie/compile_packet_kernels.py"


rule generate_pcie_topologies:
    """Built-in and user-supplied trees."""
    input:
        files=TOPOLOGY_FILES,
        builtin=sorted(map(str, (PUBLISHED.parent / "topologies").glob("*.yaml"))),
    output:
        **outputs("generate_pcie_topologies"),
    log:
        "<logs>/generate_pcie_topologies.log",
    benchmark:
        "<logs>/benchmarks/generate_pcie_topologies.tsv"
    priority: LONGEST_CHAIN
    conda:
        "../../envs/environment.yaml"
    params:
        contents=files_digest(TOPOLOGY_FILES),
        bandwidth_gib_per_s=settings.pcie.bandwidth_gib_per_s,
        code=code("pcie"),
    script:
        "../scripts/pcie/generate_pcie_topologies.py"


rule generate_pcie_graphs:
    """Validation, stress and user graphs on one topology."""
    input:
        files=graph_set_files,
        kernels="<results>/pcie/kernels.txt",
    output:
        **outputs("generate_pcie_graphs"),
    log:
        "<logs>/generate_pcie_graphs.{graph_set}.log",
    benchmark:
        "<logs>/benchmarks/generate_pcie_graphs.{graph_set}.tsv"
    priority: LONGEST_CHAIN
    conda:
        "../../envs/environment.yaml"
    params:
        contents=graph_set_contents,
        graph_set=graph_set,
        size_mib=settings.pcie.size_mib,
        seed=settings.seed,
        # Only the recommended model has direct links and host memory.
        engines_only=lambda wildcards: (
            ONLY_YOURS
            and wildcards.graph_set in YOUR_SETS
            and wildcards.graph_set not in YOUR_STUDIED
        ),
        code=code("pcie"),
    script:
        "../scripts/pcie/generate_pcie_graphs.py"


rule predict_pcie_graphs:
    """Elapsed time of every copy with every model."""
    input:
        kernels="<results>/pcie/kernels.txt",
        files=graph_set_files,
        functions=USER_MODULES,
        communication="<results>/pcie/{graph_set}.communication.parquet",
    output:
        **outputs("predict_pcie_graphs"),
    log:
        "<logs>/predict_pcie_graphs.{graph_set}.log",
    benchmark:
        "<logs>/benchmarks/predict_pcie_graphs.{graph_set}.tsv"
    # Figures depend on this rule: start it early.
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        contents=graph_set_contents,
        functions=files_digest(USER_MODULES),
        graph_set=graph_set,
        models=PREDICTED_MODELS,
        code=code("pcie"),
    script:
        "../scripts/pcie/predict_pcie_graphs.py"


rule forecast_your_copies:
    """Forecast of the recommended model for each copy of the user's graphs, with the cause of its wait."""
    input:
        kernels="<results>/pcie/kernels.txt",
        files=forecast_files,
        communication="<results>/pcie/{graph_set}.communication.parquet",
    output:
        **outputs("forecast_your_copies"),
    log:
        "<logs>/forecast_your_copies.{graph_set}.log",
    benchmark:
        "<logs>/benchmarks/forecast_your_copies.{graph_set}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        contents=lambda wildcards: files_digest(forecast_files(wildcards)),
        topology=lambda wildcards: GRAPH_SETS[wildcards.graph_set].topology,
        values=forecast_values,
        bandwidth=f"{settings.pcie.bandwidth_gib_per_s} GiB/s",
        code=code("pcie", "api"),
    script:
        "../scripts/run/forecast_your_copies.py"


rule trace_pcie_example:
    """The worked example of the slides, phase by phase (reference: published)."""
    input:
        kernels="<results>/pcie/kernels.txt",
        parameters=PUBLISHED / "parameters.csv",
    output:
        **outputs("trace_pcie_example"),
    log:
        "<logs>/trace_pcie_example.log",
    benchmark:
        "<logs>/benchmarks/trace_pcie_example.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        models=PCIE_MODELS,
        code=code("pcie"),
    script:
        "../scripts/pcie/trace_pcie_example.py"


rule evaluate_pcie_probes:
    """Concurrent copies of public probes and of this machine's GPU (reference: measured)."""
    input:
        kernels="<results>/pcie/kernels.txt",
        probes=[PUBLISHED / "pcie_measured_probes.csv"]
        + (
            ["<results>/gpucentric/this_gpu.probes.csv"]
            if settings.gpucentric.measured
            else []
        ),
        host_copies=PUBLISHED / "host_copy_rates.csv",
        parameters=PUBLISHED / "parameters.csv",
    output:
        **outputs("evaluate_pcie_probes"),
    log:
        "<logs>/evaluate_pcie_probes.log",
    benchmark:
        "<logs>/benchmarks/evaluate_pcie_probes.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        models=PCIE_MODELS,
        code=code("pcie"),
    script:
        "../scripts/pcie/evaluate_pcie_probes.py"


rule measure_pcie_copies:
    """Probes between the GPUs of this machine, or the reason why none was measured."""
    output:
        topology="<results>/pcie/this_machine.xml",
        copies="<results>/pcie/this_machine.copies.csv",
    log:
        "<logs>/measure_pcie_copies.log",
    benchmark:
        "<logs>/benchmarks/measure_pcie_copies.tsv"
    conda:
        "../../envs/measure.yaml"
    # Runs on the host, because the image has no CUDA binding.
    container:
        None
    threads: workflow.cores
    params:
        run=settings.pcie.probe_run.model_dump(),
        # The measurement is repeated once a missing requirement becomes available.
        missing=lambda wildcards: cuda_missing(),
        code=code("pcie"),
    script:
        "../scripts/pcie/measure_pcie_copies.py"


rule evaluate_measured_copies:
    """Concurrent copies on public and user-supplied machines (reference: measured)."""
    input:
        kernels="<results>/pcie/kernels.txt",
        packet_kernels="<results>/pcie/packet_kernels.txt",
        public=PUBLISHED / "pcie_concurrent_copies.csv",
        files=MEASURED_FILES,
        measured=(
            [
                "<results>/pcie/this_machine.xml",
                "<results>/pcie/this_machine.copies.csv",
            ]
            if settings.pcie.measured
            else []
        ),
    output:
        **outputs("evaluate_measured_copies"),
    log:
        "<logs>/evaluate_measured_copies.log",
    benchmark:
        "<logs>/benchmarks/evaluate_measured_copies.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        contents=files_digest(MEASURED_FILES),
        machines=[
            {
                "name": name,
                "topology": entry.topology,
                "path": entry.measurements,
                "program": entry.program,
            }
            for name, entry in MEASURED_SETS.items()
        ],
        seed=settings.seed,
        code=code("pcie"),
    script:
        "../scripts/pcie/evaluate_measured_copies.py"


rule simulate_pcie_graphs:
    """Packet-level simulation of a shard of a graph set on all hardware (reference: simulated)."""
    input:
        kernels="<results>/pcie/packet_kernels.txt",
        files=graph_set_files,
        graph="<results>/pcie/{graph_set}.graph.parquet",
        communication="<results>/pcie/{graph_set}.communication.parquet",
    output:
        **outputs("simulate_pcie_graphs"),
    log:
        "<logs>/simulate_pcie_graphs.{graph_set}.{shard}.log",
    benchmark:
        "<logs>/benchmarks/simulate_pcie_graphs.{graph_set}.{shard}.tsv"
    priority: LONGEST_CHAIN
    conda:
        "../../envs/environment.yaml"
    threads: HALF_OF_THE_CORES
    params:
        contents=graph_set_contents,
        graph_set=graph_set,
        hardware=settings.pcie.simulated_hardware,
        shards=settings.pcie.shards,
        seed=settings.seed,
        code=code("pcie"),
    script:
        "../scripts/pcie/simulate_pcie_graphs.py"


rule calibrate_pcie_models:
    """Model parameters for each simulated hardware setting, calibrated on three probes."""
    input:
        kernels="<results>/pcie/packet_kernels.txt",
        files=SIMULATED_FILES,
    output:
        **outputs("calibrate_pcie_models"),
    log:
        "<logs>/calibrate_pcie_models.log",
    benchmark:
        "<logs>/benchmarks/calibrate_pcie_models.tsv"
    priority: LONGEST_CHAIN
    conda:
        "../../envs/environment.yaml"
    params:
        contents=files_digest(SIMULATED_FILES),
        topologies=sorted({GRAPH_SETS[name].topology for name in SIMULATED_SETS}),
        hardware=list(settings.pcie.simulated_hardware),
        size_mib=settings.pcie.size_mib,
        seed=settings.seed,
        code=code("pcie"),
    script:
        "../scripts/pcie/calibrate_pcie_models.py"


rule validate_pcie_models:
    """Errors of every model relative to the simulated reference, and features that explain them."""
    input:
        kernels="<results>/pcie/kernels.txt",
        files=graph_set_files,
        graph="<results>/pcie/{graph_set}.graph.parquet",
        communication="<results>/pcie/{graph_set}.communication.parquet",
        reference=expand(
            "<results>/pcie/{{graph_set}}.{shard}.reference.parquet",
            shard=range(settings.pcie.shards),
        ),
        parameter="<results>/pcie/calibrated.parameter.parquet",
        studies=PUBLISHED / "studies.csv",
    output:
        **outputs("validate_pcie_models"),
    log:
        "<logs>/validate_pcie_models.{graph_set}.log",
    benchmark:
        "<logs>/benchmarks/validate_pcie_models.{graph_set}.tsv"
    priority: LONGEST_CHAIN
    conda:
        "../../envs/environment.yaml"
    params:
        contents=graph_set_contents,
        functions=files_digest(USER_MODULES),
        graph_set=graph_set,
        models=PREDICTED_MODELS,
        # Single interpretations of the slides are only in the error statistics, not in the predictions.
        ablations=settings.pcie.ablations,
        resamples=settings.bootstrap_resamples,
        seed=settings.seed,
        code=code("pcie"),
    script:
        "../scripts/pcie/validate_pcie_models.py"


rule search_pcie_schedules:
    """All schedules of halo exchanges, and the result of a search for larger patterns."""
    input:
        kernels="<results>/pcie/kernels.txt",
        published=PUBLISHED / "pcie_schedules.yaml",
        files=SCHEDULE_FILES,
    output:
        **outputs("search_pcie_schedules"),
    log:
        "<logs>/search_pcie_schedules.log",
    benchmark:
        "<logs>/benchmarks/search_pcie_schedules.tsv"
    # Figures depend on this rule: start it early.
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        **settings.pcie.schedules.model_dump(),
        contents=files_digest(SCHEDULE_FILES),
        size_mib=settings.pcie.size_mib,
        bandwidth_gib_per_s=settings.pcie.bandwidth_gib_per_s,
        tau=settings.pcie.tau,
        crossing_cost=settings.pcie.crossing_cost,
        seed=settings.seed,
        code=code("pcie"),
    script:
        "../scripts/pcie/search_pcie_schedules.py"
