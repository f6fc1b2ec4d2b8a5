"""Count the links of PERCS machines."""

from fabricast.percs.tables import count_rows
from fabricast.results.tables import write_table
from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])
write_table(count_rows(), "network_count", snakemake.output.network_count)
