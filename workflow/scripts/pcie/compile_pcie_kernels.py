"""Compile the kernels into the cache shared by all jobs."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.inputs.files import write_text
from fabricast.pcie.models.evaluation import warm_up

warm_up()
write_text(snakemake.output[0], f"{snakemake.params.code}\n")
