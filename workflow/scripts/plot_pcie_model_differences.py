"""Draw how far models lie apart."""

from fabricast.figures.pcie import plot_model_differences
from fabricast.figures.style import paper_style, save_figure
from fabricast.jobs import log_to
from fabricast.tables import read_table

log_to(snakemake.log[0])
with paper_style():
    save_figure(plot_model_differences(read_table(snakemake.input.prediction)), *snakemake.output)
