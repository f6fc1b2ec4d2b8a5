"""Predictions beside references, and error statistics, the same for all studies.

REQUIRED INPUTS: parts of the tables prediction and reference of a study.
OUTPUTS: <results>/<study>/all.{comparison,error_band}.parquet.
STEPS: compare_study, then collect_parameters for the table parameter.
"""

for _study in STUDIES:
    add_parts(_study, comparison=["all"], error_band=["all"])


rule compare_study:
    """Relative errors and the share within the study's tolerance."""
    input:
        prediction=lambda wildcards: compared_parts("prediction", wildcards.study),
        reference=lambda wildcards: compared_parts("reference", wildcards.study),
        studies=PUBLISHED / "studies.csv",
    output:
        comparison="<results>/{study}/all.comparison.parquet",
        error_band="<results>/{study}/all.error_band.parquet",
    log:
        "<logs>/compare_study.{study}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        resamples=settings.bootstrap_resamples,
        seed=settings.seed,
        code=code("comparisons", "tables"),
    script:
        "../scripts/compare_study.py"


rule collect_parameters:
    """Published parameters of a study, with tag and source."""
    input:
        parameters=PUBLISHED / "parameters.csv",
    output:
        parameter="<results>/{study}/published.parameter.parquet",
    log:
        "<logs>/collect_parameters.{study}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("parameters", "tables"),
    script:
        "../scripts/collect_parameters.py"
