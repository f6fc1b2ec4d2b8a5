"""What a run says first and last.

REQUIRED INPUTS: workflow/run_times.csv; what Snakemake remembers of earlier runs here.
OUTPUTS: a line with the expected time, and one with time, jobs and claims.
"""

import time
from dataclasses import replace

from snakemake.logging import logger

from fabricast.run_summary import (
    PlannedJob,
    duration_text,
    expected_time_s,
    read_run_times,
    verdict_text,
)

_RUN = {}


def remembered_time_s(job):
    """Seconds that a job took when it last ran here with these parameters; None if it never did."""
    if workflow.persistence.params_changed(job):
        return None
    records = [workflow.persistence.metadata(path) for path in job.output]
    times = [
        record.endtime - record.starttime
        for record in records
        if record and record.starttime and record.endtime
    ]
    return max(times, default=None)


def planned_jobs(jobs):
    """Jobs to run with their expected times, and which of them never ran here."""
    recorded = read_run_times(
        REPOSITORY / "workflow" / "run_times.csv", recorded_study()
    )
    planned, new = {}, []
    for job in jobs:
        duration_s = remembered_time_s(job) if job.output else 0.0
        if duration_s is None:
            new.append(job)
            duration_s = recorded.get(job.rule.name, 0.0)
        needs = tuple(workflow.dag.dependencies[job])
        planned[job] = PlannedJob(max(duration_s, 0.0), job.threads, needs)
    return planned, new


def recorded_study():
    """The study whose recorded times come nearest: smoke if that is configured."""
    smoke = load_configfile(REPOSITORY / "config" / "studies" / "smoke.yaml")
    # Where results lie says nothing of how long they take.
    smoke.pop("pathvars")
    return "smoke" if contains(_configured, smoke) else "default"


def contains(values, part):
    """Whether all values of a nested mapping are in another."""
    if not isinstance(part, dict):
        return values == part
    return isinstance(values, dict) and all(
        key in values and contains(values[key], value) for key, value in part.items()
    )


def say(text):
    """Tell the user, in the terminal and in Snakemake's log."""
    logger.info(f"fabricast: {text}")


onstart:
    jobs, new = planned_jobs(list(workflow.dag.needrun_jobs()))
    # On a cluster every job holds one place of its own.
    slots = (
        workflow.resource_settings.nodes or workflow.resource_settings.cores or 1
    )
    if workflow.resource_settings.nodes:
        jobs = {name: replace(job, threads=1) for name, job in jobs.items()}
    _RUN.update(start_s=time.monotonic(), jobs=len(jobs))
    source = "as they took here before"
    if new:
        known = (
            f"{len(jobs) - len(new)} {source}, the others "
            if len(new) < len(jobs)
            else ""
        )
        source = f"{known}as in the {recorded_study()} study elsewhere; a first run compiles too"
    text = duration_text(expected_time_s(jobs, slots))
    if workflow.resource_settings.nodes:
        say(
            "Ctrl-C once cancels the jobs of this run; after a second one, "
            "'squeue --me --name ID' shows what is left and 'scancel --name ID' cancels it "
            "(ID: the SLURM run ID that Snakemake prints)"
        )
    say(f"{len(jobs)} jobs, about {text} with {slots} at a time ({source})")


onsuccess:
    made = {job.rule.name: job.output for job in workflow.dag.jobs if job.output}
    text = f"{_RUN['jobs']} jobs in {duration_text(time.monotonic() - _RUN['start_s'])}"
    claims = verdict_text(list(map(str, made.get("evaluate_claims", []))))
    if claims:
        text += f"; claims: {claims}"
    if "write_report" in made:
        text += f"; report: {made['write_report'][0]}"
    say(text)
