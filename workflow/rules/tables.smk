"""The database, built from the shards of all tables.

REQUIRED INPUTS: shards of all tables, <results>/tables/claim*.parquet.
OUTPUTS: <results>/fabricast.duckdb, <results>/run_config.yaml; <results>/your_machine.duckdb with the user's graph sets.
STEPS: record_run, build_database, build_your_database.
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
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        config=settings.model_dump(mode="json"),
        config_files=[Path(path).name for path in workflow.configfiles],
        repository=REPOSITORY,
        code=code("results"),
    script:
        "../scripts/run/record_run.py"


rule build_database:
    """All tables, comments, views and digests in one file."""
    input:
        **all_table_files(),
        **{table: f"<results>/tables/{table}.parquet" for table in CLAIM_TABLES},
        run="<results>/tables/run.parquet",
        study="<results>/tables/study.parquet",
    output:
        database="<results>/fabricast.duckdb",
    log:
        "<logs>/build_database.log",
    benchmark:
        "<logs>/benchmarks/build_database.tsv"
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("results"),
    script:
        "../scripts/run/build_database.py"


use rule build_database as build_your_database with:
    input:
        **your_table_files(),
        run="<results>/tables/run.parquet",
        study="<results>/tables/study.parquet",
    output:
        database="<results>/your_machine.duckdb",
    log:
        "<logs>/build_your_database.log",
    benchmark:
        "<logs>/benchmarks/build_your_database.tsv"
