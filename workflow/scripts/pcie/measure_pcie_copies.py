"""Run the probes of this machine on its GPUs, or write the reason why this is impossible."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

import sys

from fabricast.api.probes import probes_to_file

text = probes_to_file(snakemake.output.topology, snakemake.output.copies, **snakemake.params.run)
sys.stderr.write(f"{text}\n")
