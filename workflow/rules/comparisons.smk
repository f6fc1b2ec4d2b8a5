"""Comparison of predictions with references, and error statistics, for all studies.

REQUIRED INPUTS: shards of the tables prediction and reference of a study.
OUTPUTS: <results>/<study>/all.{comparison,error_band}.parquet, <results>/tables/study.parquet.
STEPS: compare_study; collect_published for the tables study and parameter.
"""


rule compare_study:
    """Relative errors and share of cases within the tolerance of the study."""
    input:
        prediction=lambda wildcards: compared_files("prediction", wildcards.study),
        reference=lambda wildcards: compared_files("reference", wildcards.study),
        studies=PUBLISHED / "studies.csv",
    output:
        **outputs("compare_study"),
    log:
        "<logs>/compare_study.{study}.log",
    benchmark:
        "<logs>/benchmarks/compare_study.{study}.tsv"
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        resamples=settings.bootstrap_resamples,
        seed=settings.seed,
        code=code("results"),
    script:
        "../scripts/run/compare_study.py"


rule collect_published:
    """Studies and their parameters (published or of their simulators) with tag and source."""
    input:
        studies=PUBLISHED / "studies.csv",
        parameters=PUBLISHED / "parameters.csv",
    output:
        pcie=outputs("collect_pcie_parameters")["parameter"],
        percs=outputs("collect_percs_parameters")["parameter"],
        study="<results>/tables/study.parquet",
    log:
        "<logs>/collect_published.log",
    benchmark:
        "<logs>/benchmarks/collect_published.tsv"
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("results"),
    script:
        "../scripts/run/collect_published.py"
