"""Put packet-level times beside the bound of the busiest link."""

from fabricast.jobs import log_to
from fabricast.percs.percs_tables import packet_tables
from fabricast.tables import read_table, write_table

log_to(snakemake.log[0])
loads = [read_table(snakemake.input[name]) for name in ("network_case", "network_link_class")]
tables = packet_tables(read_table(*snakemake.input.shards), *loads, seed=snakemake.params.seed)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
