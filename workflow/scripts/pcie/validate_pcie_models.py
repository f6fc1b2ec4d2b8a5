"""Compare every model with the simulated reference of one graph set."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.api.machine_inputs import load_topology
from fabricast.inputs.studies import study_tolerance
from fabricast.pcie.models.catalogue import ABLATIONS
from fabricast.pcie.tables.validation import validate_models
from fabricast.results.tables import read_table, write_table

values = snakemake.params
models = list(dict.fromkeys([*values.models, *(ABLATIONS if values.ablations else ())]))
tables = validate_models(
    snakemake.wildcards.graph_set,
    load_topology(values.graph_set["topology"]),
    read_table(snakemake.input.graph),
    read_table(snakemake.input.communication, categories=True),
    read_table(*snakemake.input.reference, categories=True),
    read_table(snakemake.input.parameter),
    models,
    tolerance=study_tolerance(snakemake.input.studies, "pcie"),
    resamples=values.resamples,
    seed=values.seed,
    threads=snakemake.threads,
)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
