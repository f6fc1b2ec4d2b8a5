"""Count the links of PERCS machines and the messages on the links of two supernodes."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.percs.tables import count_rows, example_rows
from fabricast.results.tables import write_table

write_table(count_rows(), "network_count", snakemake.output.network_count)
write_table(example_rows(), "network_example", snakemake.output.network_example)
