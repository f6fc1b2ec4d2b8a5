"""Published statements, observed in the tables of this run.

REQUIRED INPUTS: config/published/claims.yaml and the parts of all tables.
OUTPUTS: <results>/tables/claim.parquet.
STEPS: evaluate_claims.
"""


rule evaluate_claims:
    """Verdict on every published statement."""
    input:
        *all_parts(),
        claims=PUBLISHED / "claims.yaml",
    output:
        claim="<results>/tables/claim.parquet",
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
