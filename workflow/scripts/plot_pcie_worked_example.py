"""Draw the worked example of the slides."""

from fabricast.figures.pcie import plot_worked_example
from fabricast.figures.style import paper_style, save_figure
from fabricast.jobs import log_to
from fabricast.tables import read_table

log_to(snakemake.log[0])
communication, phase = read_table(snakemake.input.communication), read_table(snakemake.input.phase)
with paper_style():
    save_figure(plot_worked_example(communication, phase, "storm8.example.complete"), *snakemake.output)
