"""Draw the predicted slowdown by model and by family."""

from fabricast.figures.pcie import plot_slowdown
from fabricast.figures.style import paper_style, save_figure
from fabricast.jobs import log_to
from fabricast.tables import read_table
from fabricast.units import GIB

log_to(snakemake.log[0])
tables = [read_table(snakemake.input[name]) for name in ("prediction", "graph", "communication")]
with paper_style():
    figure = plot_slowdown(*tables, bandwidth_bytes_per_s=snakemake.params.bandwidth_gib_per_s * GIB)
    save_figure(figure, *snakemake.output)
