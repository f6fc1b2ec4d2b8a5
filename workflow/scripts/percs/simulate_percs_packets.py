"""Simulate the cases of one shard at packet level."""

from fabricast.runtime.jobs import log_to, progress_of

log_to(snakemake.log[0])

from fabricast.percs.tables import packet_cases, simulate_cases
from fabricast.results.tables import write_table

values, percs = snakemake.params, snakemake.params.percs
cases = packet_cases(percs["simulated"], percs["simulated_seeds"])[int(snakemake.wildcards.shard) :: percs["shards"]]
with progress_of("simulating cases", len(cases)) as advance:
    rows = simulate_cases(
        cases,
        packet_bytes=percs["packet_kib"] * 1024,
        window=percs["window"],
        seed=values.seed,
        threads=snakemake.threads,
        progress=advance,
    )
write_table(rows, "reference", snakemake.output.reference)
