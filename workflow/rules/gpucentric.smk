"""The GPU-centric study: time and energy of communication methods.

REQUIRED INPUTS: `gpucentric` of the configuration, config/published/gpucentric_*.csv.
OUTPUTS: <results>/gpucentric/<part>.<table>.parquet, declared by `parts` of each rule;
<results>/gpucentric/this_gpu.{csv,parameters.csv,probes.csv}.
STEPS: evaluate_gpucentric (measured reference: public paths); measure_gpucentric (optional, on a
CUDA GPU), derive_gpu_inputs, evaluate_gpu_run (measured reference: this GPU).
"""


rule evaluate_gpucentric:
    """Methods, statements of the talk with their robustness, selector and measured paths."""
    input:
        observations=PUBLISHED / "gpucentric_observations.csv",
        parameters=PUBLISHED / "gpucentric_parameters.csv",
        paths=PUBLISHED / "gpucentric_paths.csv",
    output:
        **outputs("evaluate_gpucentric"),
    log:
        "<logs>/evaluate_gpucentric.log",
    benchmark:
        "<logs>/benchmarks/evaluate_gpucentric.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        draws=settings.gpucentric.draws,
        seed=settings.seed,
        code=code("gpucentric"),
    script:
        "../scripts/gpucentric/evaluate_gpucentric.py"


rule measure_gpucentric:
    """Launches, copies, stores, loads and power of a GPU, or the reason why none was measured."""
    output:
        cells="<results>/gpucentric/this_gpu.csv",
    log:
        "<logs>/measure_gpucentric.log",
    benchmark:
        "<logs>/benchmarks/measure_gpucentric.tsv"
    conda:
        "../../envs/measure.yaml"
    # Runs on the host, because the image lacks the host's MPI and a CUDA binding.
    container:
        None
    threads: workflow.cores
    params:
        run=settings.gpucentric.gpu_run.model_dump(),
        # The measurement is repeated once a missing requirement becomes available.
        missing=lambda wildcards: cuda_missing(),
        code=code("gpucentric"),
    script:
        "../scripts/gpucentric/measure_gpucentric.py"


rule derive_gpu_inputs:
    """Parameters for the selector and probes for the PCIe study, from a measured GPU."""
    input:
        cells="<results>/gpucentric/this_gpu.csv",
    output:
        parameters="<results>/gpucentric/this_gpu.parameters.csv",
        probes="<results>/gpucentric/this_gpu.probes.csv",
    log:
        "<logs>/derive_gpu_inputs.log",
    benchmark:
        "<logs>/benchmarks/derive_gpu_inputs.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("gpucentric"),
    script:
        "../scripts/gpucentric/derive_gpu_inputs.py"


rule evaluate_gpu_run:
    """Measurements of a GPU as reference, with the parameters calibrated on them."""
    input:
        cells="<results>/gpucentric/this_gpu.csv",
    output:
        **outputs("evaluate_gpu_run"),
    log:
        "<logs>/evaluate_gpu_run.log",
    benchmark:
        "<logs>/benchmarks/evaluate_gpu_run.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("gpucentric"),
    script:
        "../scripts/gpucentric/evaluate_gpu_run.py"
