"""Verdicts on published statements, from the tables of this run.

REQUIRED INPUTS: config/published/claims and the shards of all tables.
OUTPUTS: <results>/tables/{claim,claim_reading,claim_baseline,claim_mutation}.parquet.
STEPS: evaluate_claims.
"""

CLAIM_TABLES = ("claim", "target", "claim_reading", "claim_baseline", "claim_mutation")


rule evaluate_claims:
    """Verdict on every published statement for every interpretation, baseline and mutation."""
    input:
        *(path for files in all_table_files().values() for path in files),
        claims=sorted((PUBLISHED / "claims").glob("*.yaml")),
    output:
        **{table: f"<results>/tables/{table}.parquet" for table in CLAIM_TABLES},
    log:
        "<logs>/evaluate_claims.log",
    benchmark:
        "<logs>/benchmarks/evaluate_claims.tsv"
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("results"),
    script:
        "../scripts/run/evaluate_claims.py"
