"""Measure a GPU of this machine."""

from fabricast.gpucentric.gpu_files import measure_to_files
from fabricast.jobs import log_to, progress_of

log_to(snakemake.log[0])
run, files = dict(snakemake.params.run), snakemake.output
with progress_of("measuring", run["bursts"] + 1) as advance:
    measure_to_files(files.cells, files.parameters, files.probes, **run, progress=advance)
