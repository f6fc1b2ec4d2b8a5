"""Evaluate the configured halo exchanges."""

from fabricast.runtime.jobs import log_to, progress_of

log_to(snakemake.log[0])

from fabricast.api.machine_inputs import load_topology
from fabricast.core.units import GIB, MIB
from fabricast.pcie.tables.schedules import read_published, schedule_tables
from fabricast.results.tables import write_table

values = snakemake.params
cases = 2 * (len(values.topologies) * len(values.grids) * len(values.models) + len(values.searched))
with progress_of("schedules", cases) as advance:
    tables = schedule_tables(
        [load_topology(name) for name in values.topologies],
        [tuple(grid) for grid in values.grids],
        [(load_topology(entry["topology"]), tuple(entry["grid"])) for entry in values.searched],
        values.models,
        read_published(snakemake.input.published),
        size_bytes=values.size_mib * MIB,
        bandwidth_bytes_per_s=values.bandwidth_gib_per_s * GIB,
        tau=values.tau,
        crossing_cost=values.crossing_cost,
        evaluations=values.evaluations,
        seed=values.seed,
        threads=snakemake.threads,
        progress=advance,
    )
for name, path in snakemake.output.items():
    write_table(getattr(tables, name), name, path)
