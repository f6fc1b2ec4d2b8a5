"""Predict the rates of measured concurrent copies."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.inputs.parameters import read_parameters
from fabricast.pcie.tables.probes import host_copy_probes, probe_tables, read_probes
from fabricast.results.tables import write_table

value = {(p.system, p.name): p.value for p in read_parameters(snakemake.input.parameters)}
probes = [probe for path in snakemake.input.probes for probe in read_probes(path)]
probes += host_copy_probes(snakemake.input.host_copies)
tables = probe_tables(
    probes, snakemake.params.models, size_bytes=value["storm8", "message_size"], tau=value["rtx6kpro", "tau"]
)
for table in ("prediction", "reference"):
    write_table(getattr(tables, table), table, snakemake.output[table])
for table in ("graph", "communication"):
    write_table(getattr(tables.graphs, table), table, snakemake.output[table])
