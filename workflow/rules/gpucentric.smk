"""The GPU-centric study: methods of communication in time and energy.

REQUIRED INPUTS: `gpucentric` of the configuration, config/published/gpucentric_*.csv.
OUTPUTS: <results>/gpucentric/methods.<table>.parquet, declared by `add_parts` below.
STEPS: evaluate_gpucentric (measured reference: public paths).
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
    params:
        draws=settings.gpucentric.draws,
        seed=settings.seed,
        code=code("gpucentric.gpucentric_tables", "tables"),
    script:
        "../scripts/evaluate_gpucentric.py"
