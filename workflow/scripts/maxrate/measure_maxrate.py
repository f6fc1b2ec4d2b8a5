"""Measure pairs of processes on this machine and store the run next to earlier runs."""

from fabricast.runtime.jobs import log_to, progress_of

log_to(snakemake.log[0])

from pathlib import Path

from fabricast.maxrate.measured.pairs import measure_all, write_cells

cells = Path(snakemake.output.cells)
settings = dict(snakemake.params.pairs)
paths = settings.pop("paths")
with progress_of("measuring", len(paths)) as advance:
    reason = measure_all(cells.parent / "runs", paths, settings, progress=advance)
write_cells(cells.parent / "runs", cells, reason)
