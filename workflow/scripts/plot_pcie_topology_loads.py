"""Draw the link loads of the worked example on the tree."""

from fabricast.figures.pcie import plot_link_loads
from fabricast.figures.style import paper_style, save_figure
from fabricast.jobs import log_to
from fabricast.pcie.topology_files import load_tree
from fabricast.tables import read_table

log_to(snakemake.log[0])
communication, phase = read_table(snakemake.input.communication), read_table(snakemake.input.phase)
with paper_style():
    save_figure(
        plot_link_loads(load_tree("storm8"), communication, phase, "storm8.example.complete"), *snakemake.output
    )
