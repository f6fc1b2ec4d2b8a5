"""The GPU-centric study: methods of communication in time and energy.

REQUIRED INPUTS: `gpucentric` of the configuration, config/published/gpucentric_*.csv.
OUTPUTS: <results>/gpucentric/<part>.<table>.parquet, declared by `add_parts` below;
<results>/gpucentric/this_gpu.{csv,parameters.csv,probes.csv}.
STEPS: evaluate_gpucentric (measured reference: public paths); measure_gpucentric (optional, on a
CUDA GPU), derive_gpu_inputs, evaluate_gpu_run (measured reference: this GPU).
"""

GPUCENTRIC_TABLES = (
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
)
add_parts("gpucentric", **{table: ["methods"] for table in GPUCENTRIC_TABLES})

GPU_RUN_TABLES = ("gpucentric_measurement", "prediction", "reference", "parameter")
if settings.gpucentric.measured:
    add_parts("gpucentric", **{table: ["this_gpu"] for table in GPU_RUN_TABLES})


rule evaluate_gpucentric:
    """Methods, statements of the talk with their robustness, selector and measured paths."""
    input:
        observations=PUBLISHED / "gpucentric_observations.csv",
        parameters=PUBLISHED / "gpucentric_parameters.csv",
        paths=PUBLISHED / "gpucentric_paths.csv",
    output:
        **{
            table: f"<results>/gpucentric/methods.{table}.parquet"
            for table in GPUCENTRIC_TABLES
        },
    log:
        "<logs>/evaluate_gpucentric.log",
    conda:
        "../../envs/environment.yaml"
    params:
        draws=settings.gpucentric.draws,
        seed=settings.seed,
        code=code("gpucentric.gpucentric_tables", "tables"),
    script:
        "../scripts/evaluate_gpucentric.py"


rule measure_gpucentric:
    """Launches, copies, concurrent copies, stores, loads and power of a GPU; says so if there is none."""
    output:
        cells="<results>/gpucentric/this_gpu.csv",
    log:
        "<logs>/measure_gpucentric.log",
    conda:
        "../../envs/measure.yaml"
    # On the host: the image has neither its MPI nor a CUDA binding.
    container:
        None
    threads: workflow.cores
    params:
        run=settings.gpucentric.gpu_run.model_dump(),
        code=code("gpucentric.gpu_files"),
    script:
        "../scripts/measure_gpucentric.py"


rule derive_gpu_inputs:
    """Parameters for the selector and probes for the PCIe study, from a measured GPU."""
    input:
        cells="<results>/gpucentric/this_gpu.csv",
    output:
        parameters="<results>/gpucentric/this_gpu.parameters.csv",
        probes="<results>/gpucentric/this_gpu.probes.csv",
    log:
        "<logs>/derive_gpu_inputs.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("gpucentric.gpu_tables"),
    script:
        "../scripts/derive_gpu_inputs.py"


rule evaluate_gpu_run:
    """A measured GPU as reference, with the parameters that it tells."""
    input:
        cells="<results>/gpucentric/this_gpu.csv",
    output:
        **{
            table: f"<results>/gpucentric/this_gpu.{table}.parquet"
            for table in GPU_RUN_TABLES
        },
    log:
        "<logs>/evaluate_gpu_run.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("gpucentric.gpu_tables", "tables"),
    script:
        "../scripts/evaluate_gpu_run.py"
