"""Forecast collective operations on measured machines and on those of the user."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.api.collectives import collective
from fabricast.collectives.evidence.runs import has_measurements
from fabricast.collectives.evidence.tables import collective_tables
from fabricast.results.tables import write_table

user_supplied = []
for name, machine in snakemake.params.machines.items():
    options = {key: value for key, value in machine.items() if key not in ("topology", "pairs", "logs") and value}
    for number, log in enumerate(machine["logs"], start=1):
        title = name if len(machine["logs"]) == 1 else f"{name}.{number}"
        forecast = collective(machine["topology"], measurements=machine["pairs"] or None, log=log, **options)
        user_supplied.append((title, forecast))
if snakemake.input.measured and has_measurements(snakemake.input.measured[0]):
    log, topology = snakemake.input.measured
    user_supplied.append(("this_machine", collective(topology, log=log)))
tables = collective_tables(user_supplied)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
