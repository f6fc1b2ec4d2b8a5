"""What a run says at its end; on a cluster also how to cancel what is left.

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
            "fabricast: Ctrl-C once cancels the jobs of this run; after a second one "
            "'squeue --me --name ID' shows what is left and 'scancel --name ID' cancels it "
            "(ID: the SLURM run ID that Snakemake prints)"
        )
    else:
        # A limit of jobs a second is for clusters; on one machine it only wakes Snakemake up, once a second for each
        # job that has ended, and again after the last.
        workflow.scheduler.job_rate_limiter = None


onsuccess:
    for _line in [
        *measured_lines(settings.pathvars, _STARTED),
        *answer_lines(settings.pathvars, _STARTED),
    ]:
        logger.info(f"fabricast: {_line}")
    logger.info(f"fabricast: {summary_text(settings.pathvars, _STARTED)}")
