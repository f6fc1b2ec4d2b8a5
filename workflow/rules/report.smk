"""The report: one self-contained page.

REQUIRED INPUTS: <results>/fabricast.duckdb, figures as SVG, captions in workflow/report.
OUTPUTS: <reports>/report.html. `snakemake --report <reports>/report.zip` adds Snakemake's own.
STEPS: write_report.
"""


rule write_report:
    """Claims, figures, errors, parameters and provenance on one page."""
    input:
        database="<results>/fabricast.duckdb",
        figures=[name for name in figure_files() if name.endswith(".svg")],
        captions=[
            f"workflow/report/{study}_{figure}.rst"
            for study, figures in FIGURES.items()
            for figure in figures
        ],
    output:
        report="<reports>/report.html",
    log:
        "<logs>/write_report.log",
    params:
        titles=[
            [study, title]
            for study, figures in FIGURES.items()
            for title in figures.values()
        ],
        code=code("report"),
    script:
        "../scripts/write_report.py"
