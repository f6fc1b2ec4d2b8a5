"""Summary at the end of a run; on a cluster also instructions for cancelling jobs.

REQUIRED INPUTS: none.
OUTPUTS: lines on the terminal and in Snakemake's log.
"""

import time

from snakemake.logging import logger

from fabricast.report.run_summary import answer_lines, measured_lines, summary_text

_STARTED = time.time()


onstart:
    if workflow.nodes:
        logger.info(
            "fabricast: press Ctrl-C once to cancel the jobs of this run; after a second Ctrl-C, "
            "'squeue --me --name ID' lists the remaining jobs and 'scancel --name ID' cancels them "
            "(ID: the SLURM run ID that Snakemake prints)"
        )


onsuccess:
    for _line in [
        *measured_lines(settings.pathvars, _STARTED),
        *answer_lines(settings.pathvars, _STARTED),
    ]:
        logger.info(f"fabricast: {_line}")
    logger.info(f"fabricast: {summary_text(settings.pathvars, _STARTED)}")
