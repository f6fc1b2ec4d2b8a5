"""Files of the figures in the catalogue.

REQUIRED INPUTS: `FIGURES`, `settings`, captions in workflow/report.
PROVIDES: file names, and outputs with captions for Snakemake's report.
"""


def figure_files(*formats):
    """Return the files of all figures of the run in some formats."""
    return [
        f"<reports>/figures/{study}.{figure}.{ending}"
        for study, figures in FIGURES.items()
        for figure in figures
        for ending in formats
    ]


def figure_outputs(study, figures):
    """Return the outputs of figures: SVG with caption for the report, then the other formats."""
    files = []
    for figure in figures:
        stem = f"<reports>/figures/{study}.{figure}"
        vector = report(
            f"{stem}.svg",
            caption=f"../report/{study}/{figure}.rst",
            category=study,
            labels={"figure": FIGURES[study][figure].title},
        )
        others = [ending for ending in settings.figure_formats if ending != "svg"]
        files += [vector, *(f"{stem}.{ending}" for ending in others)]
    return files
