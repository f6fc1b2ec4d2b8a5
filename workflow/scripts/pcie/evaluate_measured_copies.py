"""Compare predictions with measured concurrent copies on all machines."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.api.machine_inputs import load_machine
from fabricast.api.machines import unmeasured_text
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.tables.measured_copies import MeasuredMachine, measured_copy_tables, public_machines
from fabricast.results.tables import write_table

entries = list(snakemake.params.machines)
if snakemake.input.measured:
    topology, copies = snakemake.input.measured
    entries.append({"name": "this_machine", "topology": topology, "path": copies, "program": "unordered_writes"})
user_supplied = []
for entry in entries:
    files = [entry["topology"], entry["path"]]
    machine = load_machine(files, program=entry.get("program", "independent"), system=entry.get("system"))
    warnings = list(machine.measured.warnings)
    if not machine.graphs:
        text = f"the measurements {unmeasured_text(machine)}"
        warnings.append(CodedWarning(WarningCode.LOG_ROWS_EXCLUDED, text))
    user_supplied.append(
        MeasuredMachine(entry["name"], machine.tree, machine.graphs, tuple(warnings), user_supplied=True)
    )
tables = measured_copy_tables(user_supplied + public_machines(snakemake.input.public), seed=snakemake.params.seed)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
