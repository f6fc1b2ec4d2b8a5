"""The max-rate study: many processes on one node.

REQUIRED INPUTS: `maxrate` of the configuration, config/published/maxrate_measurements.csv.
OUTPUTS: <results>/maxrate/fits.<table>.parquet, declared by `parts` of the rule;
<results>/maxrate/this_machine.csv, and every run behind it in <results>/maxrate/runs.
STEPS: fit_maxrate (measured reference); measure_maxrate (optional, under mpiexec or srun).
"""

THIS_MACHINE = "<results>/maxrate/this_machine.csv"


rule fit_maxrate:
    """Fit every model to every data set; published parameters beside them."""
    input:
        published=PUBLISHED / "maxrate_measurements.csv",
        own=settings.maxrate.measurements
        + ([THIS_MACHINE] if settings.maxrate.measured else []),
    output:
        **parts(
            "maxrate",
            "fits",
            [
                "maxrate_measurement",
                "maxrate_fit",
                "prediction",
                "reference",
                "parameter",
            ],
        ),
    log:
        "<logs>/fit_maxrate.log",
    benchmark:
        "<logs>/benchmarks/fit_maxrate.tsv"
    # Pictures wait for it.
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        datasets=settings.maxrate.datasets,
        starts=settings.maxrate.starts,
        draws=settings.maxrate.draws,
        seed=settings.seed,
        code=code("fit_maxrate"),
    script:
        "../scripts/fit_maxrate.py"


rule measure_maxrate:
    """Pairs of processes of this machine; runs are kept, cells are the best quiet ones of all."""
    output:
        cells=THIS_MACHINE,
    log:
        "<logs>/measure_maxrate.log",
    benchmark:
        "<logs>/benchmarks/measure_maxrate.tsv"
    conda:
        "../../envs/measure.yaml"
    # On the host: the image has neither its MPI nor a CUDA binding.
    container:
        None
    threads: workflow.cores
    params:
        pairs=settings.maxrate.pairs.model_dump(),
        # Measured again once what was missing is there.
        missing=lambda wildcards: mpi_missing(),
        code=code("measure_maxrate"),
    script:
        "../scripts/measure_maxrate.py"
