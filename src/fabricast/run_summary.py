"""What a run says first and last: about how long it will take, and what came of it."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fabricast.csv_files import read_csv

__all__ = ["PlannedJob", "duration_text", "expected_time_s", "read_run_times", "verdict_text"]

_VERDICTS = {"reproduced": "reproduced", "deviates": "deviate", "not_testable": "not testable"}


@dataclass(frozen=True)
class PlannedJob:
    """One job that is to run.

    Parameters
    ----------
    duration_s : float
        How long it took before.
    threads : int
        Cores that it holds.
    needs : tuple of hashable
        Jobs that must end first.
    """

    duration_s: float
    threads: int = 1
    needs: tuple[Hashable, ...] = ()


def expected_time_s(jobs: Mapping[Hashable, PlannedJob], cores: int) -> float:
    """Return how long jobs take together: each starts as soon as what it needs is there and cores are free.

    Parameters
    ----------
    jobs : mapping
        Jobs by name; needs that are not among them count as done. Jobs that wait at the same
        moment start in this order.
    cores : int
        Cores of the machine.

    Returns
    -------
    float
        Time of the last end, in seconds.

    Examples
    --------
    >>> jobs = {"a": PlannedJob(2.0), "b": PlannedJob(1.0), "c": PlannedJob(4.0, threads=2, needs=("a",))}
    >>> expected_time_s(jobs, cores=2), expected_time_s(jobs, cores=1)
    (6.0, 7.0)
    """
    place = {name: number for number, name in enumerate(jobs)}
    missing = {name: sum(need in jobs for need in job.needs) for name, job in jobs.items()}
    unlocked: dict[Hashable, list[Hashable]] = {name: [] for name in jobs}
    for name, job in jobs.items():
        for need in job.needs:
            if need in jobs:
                unlocked[need].append(name)
    ready = [place[name] for name, count in missing.items() if count == 0]
    names = list(jobs)
    running: list[tuple[float, int]] = []
    free, now = cores, 0.0
    while ready or running:
        for number in sorted(ready):
            threads = min(jobs[names[number]].threads, cores)
            if threads <= free:
                free -= threads
                ready.remove(number)
                heapq.heappush(running, (now + jobs[names[number]].duration_s, number))
        now, number = heapq.heappop(running)
        free += min(jobs[names[number]].threads, cores)
        for name in unlocked[names[number]]:
            missing[name] -= 1
            if missing[name] == 0:
                ready.append(place[name])
    return now


def duration_text(seconds: float) -> str:
    """Return a time as people say it.

    Examples
    --------
    >>> duration_text(47.4), duration_text(167), duration_text(3725)
    ('47 s', '2 min 47 s', '1 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def read_run_times(path: Path | str, study: str) -> dict[str, float]:
    """Return the recorded seconds of one job of every rule.

    Parameters
    ----------
    path : Path or str
        CSV with columns study, rule, seconds.
    study : str
        Which study was run.

    Returns
    -------
    dict
        Mean seconds by rule.
    """
    rows = read_csv(path, ("study", "rule", "seconds"))
    return {row["rule"]: row.number("seconds") for row in rows if row["study"] == study}


def verdict_text(claims: Sequence[Path | str]) -> str:
    """Return how many claims have which verdict.

    Parameters
    ----------
    claims : sequence of Path or str
        Parquet files of the table claim.

    Examples
    --------
    >>> verdict_text([])
    ''
    """
    if not claims:
        return ""
    # Imported here: a run that does nothing needs no database.
    from fabricast.tables import read_table

    counts = read_table(*claims)["verdict"].value_counts()
    return ", ".join(f"{counts.get(verdict, 0)} {word}" for verdict, word in _VERDICTS.items())
