"""Forecast collective operations on measured machines and on those of the user."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.collectives.evidence.runs import has_measurements
from fabricast.collectives.evidence.tables import collective_tables, user_forecast
from fabricast.results.tables import write_table

user_supplied = [
    (name if len(machine["logs"]) == 1 else f"{name}.{number}", user_forecast(name, machine, log))
    for name, machine in snakemake.params.machines.items()
    for number, log in enumerate(machine["logs"], start=1)
]
if snakemake.input.measured and has_measurements(snakemake.input.measured[0]):
    log, topology = snakemake.input.measured
    user_supplied.append(("this_machine", user_forecast("this_machine", {"topology": topology}, log)))
tables = collective_tables(user_supplied)
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
