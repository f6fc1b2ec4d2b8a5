"""The breakdown study: where the nanoseconds of a small message go.

REQUIRED INPUTS: `breakdown` of the configuration, config/published/breakdown_*.csv, config/systems.
OUTPUTS: <results>/breakdown/<part>.<table>.parquet, declared by `parts` of each rule.
STEPS: evaluate_breakdown (published reference); measure_breakdown (measured reference, optional).
"""


rule evaluate_breakdown:
    """Totals, shares and what-if answers of every system."""
    input:
        components=PUBLISHED / "breakdown_components.csv",
        observed=PUBLISHED / "breakdown_observed.csv",
        percentages=PUBLISHED / "breakdown_percentages.csv",
        studies=PUBLISHED / "studies.csv",
        systems=[
            builtin_or_file(name, "systems") for name in settings.breakdown.systems
        ],
    output:
        **parts(
            "breakdown",
            "systems",
            [
                "breakdown_component",
                "breakdown_share",
                "breakdown_total",
                "what_if",
                "prediction",
                "reference",
                "parameter",
            ],
        ),
    log:
        "<logs>/evaluate_breakdown.log",
    benchmark:
        "<logs>/benchmarks/evaluate_breakdown.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        samples=settings.breakdown.samples,
        seed=settings.seed,
        code=code("evaluate_breakdown"),
    script:
        "../scripts/evaluate_breakdown.py"


rule measure_breakdown:
    """An MPI message between two processes of this machine, timed region by region."""
    output:
        **parts(
            "breakdown",
            "measured",
            ["breakdown_component", "breakdown_total", "prediction", "reference"],
            taken=settings.breakdown.measured,
        ),
        timers="<results>/breakdown/measured.timers.csv",
    log:
        "<logs>/measure_breakdown.log",
    benchmark:
        "<logs>/benchmarks/measure_breakdown.tsv"
    conda:
        "../../envs/measure.yaml"
    # On the host: the image has neither its MPI nor a CUDA binding.
    container:
        None
    threads: 2
    params:
        iterations=settings.breakdown.iterations,
        # Measured again once what was missing is there.
        missing=lambda wildcards: mpi_missing(),
        code=code("measure_breakdown"),
    script:
        "../scripts/measure_breakdown.py"
