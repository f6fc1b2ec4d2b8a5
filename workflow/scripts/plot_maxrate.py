"""Draw all figures of the max-rate study."""

from fabricast.figures.maxrate_pictures import pictures
from fabricast.figures.style import paper_style, save_figure
from fabricast.jobs import log_to
from fabricast.tables import read_tables

log_to(snakemake.log[0])
draw = pictures(read_tables(snakemake.input), dict(snakemake.params.values))
with paper_style():
    for position, name in enumerate(snakemake.params.figures):
        save_figure(draw[name](), *snakemake.output[3 * position : 3 * position + 3])
