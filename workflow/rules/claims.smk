"""Published statements, observed in the tables of this run.

REQUIRED INPUTS: config/published/claims and the parts of all tables.
OUTPUTS: <results>/tables/{claim,claim_reading,claim_baseline,claim_mutation}.parquet.
STEPS: evaluate_claims.
"""

CLAIM_TABLES = ("claim", "claim_reading", "claim_baseline", "claim_mutation")


rule evaluate_claims:
    """Verdict on every published statement, under every reading, baseline and mutation."""
    input:
        *all_parts(),
        claims=[PUBLISHED / "claims" / f"{study}.yaml" for study in STUDIES],
    output:
        **{table: f"<results>/tables/{table}.parquet" for table in CLAIM_TABLES},
    log:
        "<logs>/evaluate_claims.log",
    benchmark:
        "<logs>/benchmarks/evaluate_claims.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("evaluate_claims"),
    script:
        "../scripts/evaluate_claims.py"
