"""Draw predicted against measured rates of concurrent copies."""

from fabricast.figures.pcie import plot_probes
from fabricast.figures.style import paper_style, save_figure
from fabricast.jobs import log_to
from fabricast.tables import read_table

log_to(snakemake.log[0])
comparison = read_table(snakemake.input.comparison)
with paper_style():
    save_figure(plot_probes(comparison, tolerance=float(comparison["tolerance"].iloc[0])), *snakemake.output)
