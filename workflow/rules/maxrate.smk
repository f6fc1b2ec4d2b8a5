"""The max-rate study: many processes on one node.

REQUIRED INPUTS: `maxrate` of the configuration, config/published/maxrate_measurements.csv.
OUTPUTS: <results>/maxrate/fits.<table>.parquet, declared by `add_parts` below.
STEPS: fit_maxrate (measured reference).
"""

MAXRATE_TABLES = (
    "maxrate_measurement",
    "maxrate_fit",
    "prediction",
    "reference",
    "parameter",
)
add_parts("maxrate", **{table: ["fits"] for table in MAXRATE_TABLES})


rule fit_maxrate:
    """Fit every model to every data set; published parameters beside them."""
    input:
        published=PUBLISHED / "maxrate_measurements.csv",
        own=settings.maxrate.measurements,
    output:
        **{table: f"<results>/maxrate/fits.{table}.parquet" for table in MAXRATE_TABLES},
    log:
        "<logs>/fit_maxrate.log",
    params:
        datasets=settings.maxrate.datasets,
        starts=settings.maxrate.starts,
        draws=settings.maxrate.draws,
        seed=settings.seed,
        code=code("maxrate.maxrate_tables", "maxrate.measurements", "tables"),
    script:
        "../scripts/fit_maxrate.py"
