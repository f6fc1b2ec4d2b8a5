"""Run all_reduce of nccl-tests on the GPUs of this machine, or write the reason why this is impossible."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

import sys

from fabricast.collectives.evidence.runs import measure_to_files

text = measure_to_files(snakemake.output.measured, snakemake.output.topology)
sys.stderr.write(f"{text}\n")
