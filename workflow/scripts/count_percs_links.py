"""Count the links of PERCS machines."""

from fabricast.jobs import log_to
from fabricast.percs.percs_tables import count_rows
from fabricast.tables import write_table

log_to(snakemake.log[0])
write_table(count_rows(), "network_count", snakemake.output.network_count)
