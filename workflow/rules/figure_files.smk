"""Files of the figures that the catalogue lists.

REQUIRED INPUTS: `FIGURES`, captions in workflow/report.
PROVIDES: `FIGURE_FORMATS`; names of files, and outputs with captions for Snakemake's report.
"""

FIGURE_FORMATS = ("svg", "pdf", "png")


def figure_files(*formats):
    """All figures of the run."""
    return [
        f"<reports>/figures/{study}.{figure}.{ending}"
        for study, figures in FIGURES.items()
        for figure in figures
        for ending in formats
    ]


def figure_outputs(study, figures):
    """Outputs of figures: SVG with caption for the report, PDF and PNG beside it."""
    files = []
    for figure in figures:
        stem = f"<reports>/figures/{study}.{figure}"
        vector = report(
            f"{stem}.svg",
            caption=f"../report/{study}_{figure}.rst",
            category=study,
            labels={"figure": FIGURES[study][figure].title},
        )
        files += [vector, f"{stem}.pdf", f"{stem}.png"]
    return files
