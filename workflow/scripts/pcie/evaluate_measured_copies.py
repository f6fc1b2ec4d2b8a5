"""Compare predictions with measured concurrent copies on all machines."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from pathlib import Path

from fabricast.pcie.tables.measured_copies import Machine, measured_copy_tables, public_machines
from fabricast.results.tables import write_table

user_supplied = [
    Machine(**entry | {"path": Path(entry["path"])}, user_supplied=True) for entry in snakemake.params.machines
]
if snakemake.input.measured:
    topology, copies = snakemake.input.measured
    user_supplied.append(
        Machine("this_machine", topology, Path(copies), program="unordered_writes", user_supplied=True)
    )
tables = measured_copy_tables(user_supplied + public_machines(snakemake.input.public), seed=snakemake.params.seed)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
