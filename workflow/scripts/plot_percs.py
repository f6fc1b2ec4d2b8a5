"""Draw all figures of the study of two-level direct networks."""

from fabricast.figures.percs_pictures import pictures
from fabricast.figures.style import save_pictures
from fabricast.jobs import log_to
from fabricast.tables import read_tables

log_to(snakemake.log[0])
draw = pictures(read_tables(snakemake.input), dict(snakemake.params.values))
save_pictures(draw, snakemake.params.figures, snakemake.output)
