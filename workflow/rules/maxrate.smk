"""The max-rate study: many communicating processes on one node.

REQUIRED INPUTS: `maxrate` of the configuration, config/published/maxrate_measurements.csv.
OUTPUTS: <results>/maxrate/fits.<table>.parquet, declared by `parts` of the rule;
<results>/maxrate/this_machine.csv, and all its runs in <results>/maxrate/runs.
STEPS: fit_maxrate (measured reference); measure_maxrate (optional, under mpiexec or srun).
"""

THIS_MACHINE = "<results>/maxrate/this_machine.csv"


rule fit_maxrate:
    """Fits of every model to every data set, and published parameters."""
    input:
        published=PUBLISHED / "maxrate_measurements.csv",
        user_supplied=settings.maxrate.measurements
        + ([THIS_MACHINE] if settings.maxrate.measured else []),
    output:
        **outputs("fit_maxrate"),
    log:
        "<logs>/fit_maxrate.log",
    benchmark:
        "<logs>/benchmarks/fit_maxrate.tsv"
    # Figures depend on this rule.
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        contents=files_digest(settings.maxrate.measurements),
        datasets=settings.maxrate.datasets,
        starts=settings.maxrate.starts,
        draws=settings.maxrate.draws,
        seed=settings.seed,
        code=code("maxrate"),
    script:
        "../scripts/maxrate/fit_maxrate.py"


rule measure_maxrate:
    """Times of process pairs of this machine: best undisturbed values of all stored runs."""
    output:
        cells=THIS_MACHINE,
    log:
        "<logs>/measure_maxrate.log",
    benchmark:
        "<logs>/benchmarks/measure_maxrate.tsv"
    conda:
        "../../envs/measure.yaml"
    # Runs on the host, because the image lacks the host's MPI and a CUDA binding.
    container:
        None
    threads: workflow.cores
    params:
        pairs=settings.maxrate.pairs.model_dump(),
        # The measurement is repeated once a missing requirement becomes available.
        missing=lambda wildcards: mpi_missing(),
        code=code("maxrate"),
    script:
        "../scripts/maxrate/measure_maxrate.py"
