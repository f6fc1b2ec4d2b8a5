"""The database, from the parts of all tables.

REQUIRED INPUTS: parts of all tables, <results>/tables/claim*.parquet.
OUTPUTS: <results>/fabricast.duckdb, <results>/run_config.yaml.
STEPS: record_run, build_database.
"""


rule record_run:
    """Commit, configuration, machine and versions of this run."""
    output:
        run="<results>/tables/run.parquet",
        config="<results>/run_config.yaml",
    log:
        "<logs>/record_run.log",
    benchmark:
        "<logs>/benchmarks/record_run.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        config=settings.model_dump(mode="json"),
        config_files=[Path(path).name for path in workflow.configfiles],
        repository=REPOSITORY,
        code=code("record_run"),
    script:
        "../scripts/record_run.py"


rule build_database:
    """All tables, comments, views and digests in one file."""
    input:
        **TABLE_PARTS,
        **{table: f"<results>/tables/{table}.parquet" for table in CLAIM_TABLES},
        run="<results>/tables/run.parquet",
        study="<results>/tables/study.parquet",
    output:
        database="<results>/fabricast.duckdb",
    log:
        "<logs>/build_database.log",
    benchmark:
        "<logs>/benchmarks/build_database.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("build_database"),
    script:
        "../scripts/build_database.py"
