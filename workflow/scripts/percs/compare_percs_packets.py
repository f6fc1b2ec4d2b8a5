"""Compare packet-level times with the bound of the busiest link."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.percs.tables import packet_tables
from fabricast.results.tables import read_tables, write_table

read = read_tables(snakemake.input)
tables = packet_tables(read("reference"), read("network_case"), read("network_link_class"), seed=snakemake.params.seed)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
