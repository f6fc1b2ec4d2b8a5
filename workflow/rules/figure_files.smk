"""Files of the figures in the catalogue.

REQUIRED INPUTS: `FIGURES`, `settings`, captions in workflow/report.
PROVIDES: file names, and outputs with captions for Snakemake's report.
"""

from fabricast.figures.catalogue.your_machine import FIGURES as YOUR_FIGURES


def figure_files(*formats):
    """Return the files of all figures of the run in some formats."""
    return [
        f"<reports>/figures/{study}.{figure}.{ending}"
        for study, figures in FIGURES.items()
        for figure in figures
        for ending in formats
    ]


def your_figures(graph_set):
    """Return the catalogue entries of a graph set of the user."""
    return [
        entry
        for entry in YOUR_FIGURES
        if graph_set in YOUR_SIMULATED or not entry.needs_simulation
    ]


def your_figure_paths(graph_set, entry, *formats):
    """Return the files of one figure of a graph set of the user."""
    return [
        f"<reports>/figures/your_machine.{graph_set}.{entry.name}.{ending}"
        for ending in formats
    ]


def your_figure_files(graph_set, simulated, *formats):
    """Return the figure files of a graph set of the user that need, or do not need, the simulated reference."""
    return [
        path
        for entry in YOUR_FIGURES
        if entry.needs_simulation == simulated
        for path in your_figure_paths(graph_set, entry, *formats)
    ]


def all_your_figures(*formats):
    """Return the figure files of all graph sets of the user with validation graphs."""
    return [
        path
        for name in YOUR_STUDIED
        for entry in your_figures(name)
        for path in your_figure_paths(name, entry, *formats)
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
