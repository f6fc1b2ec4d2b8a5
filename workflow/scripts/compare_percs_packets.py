"""Put packet-level times beside the bound of the busiest link."""

from fabricast.jobs import log_to
from fabricast.percs.percs_tables import packet_tables
from fabricast.tables import read_tables, write_table

log_to(snakemake.log[0])
read = read_tables(snakemake.input)
tables = packet_tables(
    read("reference"), read("network_case"), read("network_link_class"), seed=snakemake.params.seed
)  # fmt: skip
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
