"""Simulate cases of the study of two-level networks packet by packet."""

from fabricast.jobs import log_to, progress_of
from fabricast.percs.percs_tables import packet_cases, packet_tables
from fabricast.tables import read_table, write_table

log_to(snakemake.log[0])
values, percs = snakemake.params, snakemake.params.percs
cases = packet_cases(percs["simulated"], percs["simulated_seeds"])
loads = [read_table(snakemake.input[name]) for name in ("network_case", "network_link_class")]
with progress_of("simulating cases", len(cases)) as advance:
    tables = packet_tables(
        cases, *loads, packet_bytes=percs["packet_kib"] * 1024, window=percs["window"], seed=values.seed,
        threads=snakemake.threads, progress=advance,
    )  # fmt: skip
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
