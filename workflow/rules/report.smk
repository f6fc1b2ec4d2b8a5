"""The report (one self-contained page), the archive of a run, and the summary at its end.

REQUIRED INPUTS: <results>/fabricast.duckdb, figures as SVG, captions in workflow/report.
OUTPUTS: <reports>/report.html; <results>/archive and ro-crate-metadata.json by the target `archive`.
`snakemake --report <reports>/report.zip` writes Snakemake's report.
STEPS: write_report, archive_run. The summary is printed on the terminal and goes to Snakemake's log.
"""

import time

from snakemake.logging import logger

from fabricast.report.run_summary import answer_lines, measured_lines, summary_text

_STARTED = time.time()


rule write_report:
    """Claims, figures, errors, parameters and provenance on one page."""
    input:
        database="<results>/fabricast.duckdb",
        figures=figure_files("svg"),
        captions=[
            REPOSITORY / "workflow" / "report" / study / f"{figure}.rst"
            for study, figures in FIGURES.items()
            for figure in figures
        ],
        topologies=[
            entry.topology for entry in GRAPH_SETS.values() if is_file(entry.topology)
        ],
    output:
        report="<reports>/report.html",
    log:
        "<logs>/write_report.log",
    benchmark:
        "<logs>/benchmarks/write_report.tsv"
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        titles=[
            [study, entry.title]
            for study, figures in FIGURES.items()
            for entry in figures.values()
        ],
        graph_sets={name: entry.topology for name, entry in GRAPH_SETS.items()},
        code=code("report", "figures", "results", *STUDIES),
    script:
        "../scripts/run/write_report.py"


use rule write_report as write_your_report with:
    input:
        database="<results>/your_machine.duckdb",
        figures=all_your_figures("svg"),
        captions=[
            REPOSITORY / "workflow" / "report" / "your_machine" / f"{entry.name}.rst"
            for name in YOUR_STUDIED
            for entry in your_figures(name)
        ],
        topologies=TOPOLOGY_FILES,
    output:
        report="<reports>/your_machine.html",
    log:
        "<logs>/write_your_report.log",
    benchmark:
        "<logs>/benchmarks/write_your_report.tsv"
    params:
        titles=[
            ["your_machine", f"{name}: {entry.title}"]
            for name in YOUR_STUDIED
            for entry in your_figures(name)
        ],
        graph_sets={
            name: entry.topology
            for name, entry in settings.pcie.graph_sets.items()
            if name in YOUR_SETS
        },
        code=code("report", "figures", "results", "pcie"),


rule archive_run:
    """Archive for sharing: tables as Parquet with their SQL, and RO-Crate metadata of all files."""
    input:
        database="<results>/fabricast.duckdb",
        config="<results>/run_config.yaml",
        report="<reports>/report.html",
        figures=figure_files(*settings.figure_formats),
    output:
        export=directory("<results>/archive"),
        crate="ro-crate-metadata.json",
    log:
        "<logs>/archive_run.log",
    benchmark:
        "<logs>/benchmarks/archive_run.tsv"
    priority: 1
    conda:
        "../../envs/environment.yaml"
    params:
        repository=REPOSITORY,
        code=code("results"),
    script:
        "../scripts/run/archive_run.py"


onstart:
    if workflow.nodes:
        logger.info(
            "fabricast: press Ctrl-C once to cancel the jobs of this run; after a second Ctrl-C, "
            "'squeue --me --name ID' lists the remaining jobs and 'scancel --name ID' cancels them "
            "(ID: the SLURM run ID that Snakemake prints)"
        )


onsuccess:
    for _line in [
        *measured_lines(settings.pathvars, _STARTED),
        *answer_lines(settings.pathvars, _STARTED),
    ]:
        logger.info(f"fabricast: {_line}")
    logger.info(f"fabricast: {summary_text(settings.pathvars, _STARTED)}")
