"""Measure a GPU of this machine and store the run next to earlier runs."""

from fabricast.runtime.jobs import log_to, progress_of

log_to(snakemake.log[0])

from pathlib import Path

from fabricast.gpucentric.measured.files import measure_to_file

run, cells = dict(snakemake.params.run), Path(snakemake.output.cells)
with progress_of("measuring", run["bursts"] + 1) as advance:
    measure_to_file(cells, cells.parent / "runs", **run, progress=advance)
