"""One Parquet file a table, and the database.

REQUIRED INPUTS: parts of all tables, <results>/tables/claim*.parquet.
OUTPUTS: <results>/tables/<table>.parquet, <results>/fabricast.duckdb, <results>/run_config.yaml.
STEPS: merge_tables, record_run, build_database.
"""

TABLES = sorted({*TABLE_PARTS, *CLAIM_TABLES, "run", "study"})


rule merge_tables:
    """Merge the parts of every table in the order of its key."""
    input:
        *all_parts(),
        studies=PUBLISHED / "studies.csv",
    output:
        **{table: f"<results>/tables/{table}.parquet" for table in TABLE_PARTS},
        study="<results>/tables/study.parquet",
    log:
        "<logs>/merge_tables.log",
    benchmark:
        "<logs>/benchmarks/merge_tables.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("merge_tables"),
    script:
        "../scripts/merge_tables.py"


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
        **{table: f"<results>/tables/{table}.parquet" for table in TABLES},
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
