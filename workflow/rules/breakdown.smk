"""The breakdown study: components of the latency of a small message.

REQUIRED INPUTS: `breakdown` of the configuration, config/published/breakdown_*.csv, config/systems.
OUTPUTS: <results>/breakdown/<part>.<table>.parquet, declared by `parts` of each rule.
STEPS: evaluate_breakdown (published reference); measure_breakdown (measured reference, optional).
"""

SYSTEM_FILES = [builtin_or_file(name, "systems") for name in settings.breakdown.systems]


rule evaluate_breakdown:
    """Totals, shares and what-if answers of every system."""
    input:
        components=PUBLISHED / "breakdown_components.csv",
        observed=PUBLISHED / "breakdown_observed.csv",
        percentages=PUBLISHED / "breakdown_percentages.csv",
        studies=PUBLISHED / "studies.csv",
        systems=SYSTEM_FILES,
    output:
        **outputs("evaluate_breakdown"),
    log:
        "<logs>/evaluate_breakdown.log",
    benchmark:
        "<logs>/benchmarks/evaluate_breakdown.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        contents=files_digest(SYSTEM_FILES),
        samples=settings.breakdown.samples,
        seed=settings.seed,
        code=code("breakdown"),
    script:
        "../scripts/breakdown/evaluate_breakdown.py"


rule measure_breakdown:
    """Time the regions of an MPI message between two processes of this machine."""
    output:
        **outputs("measure_breakdown"),
        timers="<results>/breakdown/measured.timers.csv",
    log:
        "<logs>/measure_breakdown.log",
    benchmark:
        "<logs>/benchmarks/measure_breakdown.tsv"
    conda:
        "../../envs/measure.yaml"
    # Runs on the host, because the image lacks the host's MPI and a CUDA binding.
    container:
        None
    threads: 2
    params:
        iterations=settings.breakdown.iterations,
        # The measurement is repeated once a missing requirement becomes available.
        missing=lambda wildcards: mpi_missing(),
        code=code("breakdown"),
    script:
        "../scripts/breakdown/measure_breakdown.py"
