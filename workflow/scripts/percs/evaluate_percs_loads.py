"""Evaluate the link loads of a shard of the cases of the study of two-level networks."""

from fabricast.runtime.jobs import log_to, progress_of

log_to(snakemake.log[0])

from fabricast.percs.cases import grid_cases
from fabricast.percs.tables import load_tables
from fabricast.results.tables import write_table

values, percs = snakemake.params, snakemake.params.percs
cases = list(grid_cases(percs["workloads"], percs["seeds"], sensitivity=percs["sensitivity"]))
cases = cases[int(snakemake.wildcards.shard) :: percs["shards"]]
with progress_of("evaluating cases", len(cases)) as advance:
    tables = load_tables(cases, seed=values.seed, threads=snakemake.threads, progress=advance)
for name, table in vars(tables).items():
    write_table(table, name, snakemake.output[name])
