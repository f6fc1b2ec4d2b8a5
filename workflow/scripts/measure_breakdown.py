"""Measure an MPI message on this machine; without MPI say so and leave the tables empty."""

import sys

from fabricast.breakdown.measurement import measure_message, measured_tables
from fabricast.files import write_text
from fabricast.jobs import log_to
from fabricast.mpi_launch import why_not
from fabricast.tables import write_table

log_to(snakemake.log[0])
timers, reason = snakemake.output.timers, why_not()
if reason is None:
    measure_message(timers, iterations=snakemake.params.iterations)
else:
    sys.stderr.write(f"nothing measured: {reason}\n")
    write_text(timers, f"# nothing measured: {reason}\n")
tables = measured_tables(timers if reason is None else None)
for name, path in snakemake.output.items():
    if name != "timers":
        write_table(getattr(tables, name), name, path)
