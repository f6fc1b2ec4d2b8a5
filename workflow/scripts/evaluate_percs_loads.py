"""Evaluate the link loads of all cases of the study of two-level networks."""

from fabricast.jobs import log_to, progress_of
from fabricast.percs.cases import grid_cases
from fabricast.percs.percs_tables import count_rows, load_tables
from fabricast.tables import write_table

log_to(snakemake.log[0])
values = snakemake.params
cases = list(grid_cases(values.percs["workloads"], values.percs["seeds"], sensitivity=values.percs["sensitivity"]))
with progress_of("evaluating cases", len(cases)) as advance:
    tables = load_tables(cases, seed=values.seed, threads=snakemake.threads, progress=advance)
write_table(count_rows(), "network_count", snakemake.output.network_count)
for name, table in vars(tables).items():
    write_table(table, name, snakemake.output[name])
