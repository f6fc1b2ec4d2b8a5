"""Predictions beside references, and error statistics, the same for all studies.

REQUIRED INPUTS: parts of the tables prediction and reference of a study.
OUTPUTS: <results>/<study>/all.{comparison,error_band}.parquet, <results>/tables/study.parquet.
STEPS: compare_study; collect_published for the tables study and parameter.
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


rule collect_published:
    """Studies, and their parameters, published or of their simulators, with tag and source."""
    input:
        studies=PUBLISHED / "studies.csv",
        parameters=PUBLISHED / "parameters.csv",
    output:
        **{
            study: parts(study, "published", ["parameter"])["parameter"]
            for study in ("pcie", "percs")
        },
        study="<results>/tables/study.parquet",
    log:
        "<logs>/collect_published.log",
    benchmark:
        "<logs>/benchmarks/collect_published.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        code=code("collect_published"),
    script:
        "../scripts/collect_published.py"
