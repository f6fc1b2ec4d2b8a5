"""Draw predicted against measured rates of concurrent copies."""

from fabricast.figures.pcie import plot_probes
from fabricast.figures.style import paper_style, save_figure
from fabricast.tables import read_table

comparison = read_table(snakemake.input.comparison)
with paper_style():
    save_figure(plot_probes(comparison, tolerance=float(comparison["tolerance"].iloc[0])), *snakemake.output)
