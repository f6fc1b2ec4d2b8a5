"""Evaluate the breakdown of every system."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.breakdown.components import read_system_file, read_systems
from fabricast.breakdown.tables import breakdown_tables, read_observed, read_percentages
from fabricast.inputs.studies import study_tolerance
from fabricast.results.tables import write_table

files = snakemake.input
systems = [*read_systems(files.components), *(read_system_file(path) for path in files.systems)]
tables = breakdown_tables(
    systems,
    read_percentages(files.percentages),
    read_observed(files.observed),
    published_system="thunderx2",
    tolerance=study_tolerance(files.studies, "breakdown"),
    samples=snakemake.params.samples,
    seed=snakemake.params.seed,
)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
