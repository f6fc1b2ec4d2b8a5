"""Measure an MPI message on this machine; without MPI, write the reason and empty tables."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

import sys

from fabricast.breakdown.measured.runs import measure_message, measured_tables
from fabricast.inputs.files import write_text
from fabricast.results.tables import write_table
from fabricast.runtime.mpi_launch import unavailable_reason

timers, reason = snakemake.output.timers, unavailable_reason()
if reason is None:
    measure_message(timers, iterations=snakemake.params.iterations)
else:
    sys.stderr.write(f"nothing measured: {reason}\n")
    write_text(timers, f"# nothing measured: {reason}\n")
tables = measured_tables(timers if reason is None else None)
for name, path in snakemake.output.items():
    if name != "timers":
        write_table(getattr(tables, name), name, path)
