"""Predictions beside references, and error statistics, the same for all studies.

REQUIRED INPUTS: parts of the tables prediction and reference of a study.
OUTPUTS: <results>/<study>/all.{comparison,error_band}.parquet.
STEPS: compare_study, then collect_parameters for the table parameter.
"""

# Studies with predictions and references of the same cases.
COMPARED = [study for study in STUDIES if compared_parts("prediction", study)]


rule compare_study:
    """Relative errors and the share within the study's tolerance."""
    input:
        prediction=lambda wildcards: compared_parts("prediction", wildcards.study),
        reference=lambda wildcards: compared_parts("reference", wildcards.study),
        studies=PUBLISHED / "studies.csv",
    output:
        # One rule for all studies.
        **parts("{study}", "all", ["comparison", "error_band"], study=COMPARED),
    log:
        "<logs>/compare_study.{study}.log",
    benchmark:
        "<logs>/benchmarks/compare_study.{study}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        resamples=settings.bootstrap_resamples,
        seed=settings.seed,
        code=code("compare_study"),
    script:
        "../scripts/compare_study.py"


rule collect_parameters:
    """Parameters of a study, published or of its simulator, with tag and source."""
    input:
        parameters=PUBLISHED / "parameters.csv",
    output:
        **parts("{study}", "published", ["parameter"], study=["pcie", "percs"]),
    log:
        "<logs>/collect_parameters.{study}.log",
    benchmark:
        "<logs>/benchmarks/collect_parameters.{study}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("collect_parameters"),
    script:
        "../scripts/collect_parameters.py"
