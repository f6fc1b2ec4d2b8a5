"""fabricast: five communication studies, from topology to report; `snakemake` runs the default study.

A configuration with your graph sets runs only these: the target `your_machine` instead of `all`.
"""

from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.20")
# Snakemake formats paths: braces and backslashes in them end in errors from inside.
if set(str(Path.cwd())) & set("{}\\"):
    raise WorkflowError(
        f"this folder is {str(Path.cwd())!r}, expected one without braces and backslashes: move the folder"
    )


configfile: "config/config.yaml"


container: "containers/fabricast.sif"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/pcie_graph_sets.smk"
include: "workflow/rules/outputs.smk"


for _study in STUDIES:

    include: f"workflow/rules/{_study}.smk"


include: "workflow/rules/comparisons.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


rule all:
    """Database, figures and report of the configured study."""
    default_target: not ONLY_YOURS
    input:
        "<results>/fabricast.duckdb",
        "<results>/run_config.yaml",
        "<reports>/report.html",
        figure_files(*settings.figure_formats),
        all_your_figures(*settings.figure_formats),


rule your_machine:
    """Forecasts, errors, figures and warnings of your graph sets, in a database and on one page."""
    default_target: ONLY_YOURS
    input:
        "<results>/your_machine.duckdb",
        "<reports>/your_machine.html",
        all_your_figures(*settings.figure_formats),


rule archive:
    """Tables as Parquet with their SQL, and RO-Crate metadata over results and reports."""
    input:
        "ro-crate-metadata.json",


rule measured:
    """What can be measured on this machine; `measured: true` in a study takes it into the tables."""
    input:
        "<results>/breakdown/measured.timers.csv",
        "<results>/maxrate/this_machine.csv",
        "<results>/gpucentric/this_gpu.parameters.csv",
        "<results>/pcie/this_machine.copies.csv",
        "<results>/collectives/this_machine.log",


rule claims:
    """Only what the claim table needs."""
    input:
        "<results>/tables/claim.parquet",
