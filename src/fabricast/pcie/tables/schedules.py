"""Schedules as rows of the tables schedule, schedule_summary and schedule_histogram."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from fabricast.core.errors import InputError
from fabricast.inputs.yaml_files import load_model
from fabricast.pcie.graphs.patterns import Pattern, halo_pattern
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.schedules.enumeration import enumerate_schedules, run_schedule
from fabricast.pcie.schedules.results import Mode, SchedulePlan, ScheduleSearch
from fabricast.pcie.schedules.search import search_schedules
from fabricast.pcie.topology.tree import PcieTree

_BEST = 100
_BINS = 60
MODES: tuple[Mode, ...] = ("synchronised", "asynchronous")


class PublishedSchedule(BaseModel):
    """Schedule of the talk for a process grid; `fastest` states whether the talk presents it as the fastest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    grid: list[int] = Field(min_length=1)
    fastest: bool = True
    steps: list[str] = Field(min_length=1)

    def order(self, endpoints: int) -> tuple[tuple[int, ...], ...]:
        """Return the targets of each endpoint in sending order."""
        sends: list[list[int]] = [[] for _ in range(endpoints)]
        for step in self.steps:
            for pair in step.split():
                source, target = pair.split(">")
                sends[int(source)].append(int(target))
        return tuple(map(tuple, sends))


class _PublishedFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schedules: list[PublishedSchedule]


def read_published(path: Path | str) -> list[PublishedSchedule]:
    """Read published schedules from YAML."""
    return load_model(path, _PublishedFile).schedules


@dataclass(frozen=True)
class ScheduleTables:
    """Table rows of evaluated schedules."""

    #: Rows as in schema.sql.
    schedule: pd.DataFrame
    schedule_summary: pd.DataFrame
    schedule_histogram: pd.DataFrame


def _case_tables(
    tree: PcieTree,
    pattern: Pattern,
    model: str,
    search: ScheduleSearch,
    fastest: SchedulePlan | None,
    others: Sequence[SchedulePlan] = (),
) -> ScheduleTables:
    """Return the table rows of one topology, pattern, mode and model."""
    decomposition = f"{tree.name} {pattern.name} {search.mode} {model}"
    plans = dict(enumerate(search.best, start=1))
    if search.worst is not None:
        plans[search.schedules] = search.worst
    published = [*([] if fastest is None else [fastest]), *others]
    for shown in published:
        if any(plan.order == shown.order for plan in plans.values()):
            continue
        rank = search.rank_of(shown.elapsed_s)
        assert rank is not None
        # The rank of a published schedule is shared by all schedules of equal time: use the next free one.
        while rank in plans:
            rank += 1
        plans[rank] = shown
    names = tree.endpoint_names
    rows = [
        {
            "study": "pcie",
            "decomposition": decomposition,
            "rank": rank,
            "schedule": plan.text(names),
            "elapsed_s": plan.elapsed_s,
            "steps_s": list(plan.steps_s),
            "published": any(plan.order == shown.order for shown in published),
        }
        for rank, plan in plans.items()
    ]
    times = search.elapsed_s
    summary = {
        "study": "pcie",
        "decomposition": decomposition,
        "topology": tree.name,
        "pattern": pattern.name,
        "mode": search.mode,
        "model": model,
        "schedules": float(search.schedules),
        "evaluated": search.evaluated,
        "bound_s": search.bound_s,
        "best_s": search.best[0].elapsed_s,
        "ties": search.ties,
        "median_s": None if times is None else float(np.median(times)),
        "worst_s": None if search.worst is None else search.worst.elapsed_s,
        "naive_s": search.naive.elapsed_s,
        "published_s": None if fastest is None else fastest.elapsed_s,
        "published_rank": None if fastest is None else search.rank_of(fastest.elapsed_s),
        "gap": search.gap,
    }
    histogram = pd.DataFrame(columns=["study", "decomposition", "bin", "lower_s", "upper_s", "schedules"])
    if times is not None:
        top = float(times.max())
        counts, edges = np.histogram(times, bins=_BINS, range=(0.0, top * (1 + 1e-9)))
        histogram = pd.DataFrame(
            {
                "study": "pcie",
                "decomposition": decomposition,
                "bin": np.arange(_BINS),
                "lower_s": edges[:-1],
                "upper_s": edges[1:],
                "schedules": counts,
            }
        )
    return ScheduleTables(pd.DataFrame(rows), pd.DataFrame([summary]), histogram)


def schedule_tables(
    topologies: Iterable[PcieTree],
    grids: Iterable[tuple[int, ...]],
    searched: Iterable[tuple[PcieTree, tuple[int, ...]]],
    models: Iterable[str],
    published: list[PublishedSchedule],
    *,
    size_bytes: float,
    bandwidth_bytes_per_s: float,
    tau: float,
    crossing_cost: float,
    evaluations: int,
    seed: int,
    threads: int,
    progress: Callable[[int], None] | None = None,
) -> ScheduleTables:
    """Evaluate the schedules of all configured cases."""
    parts: list[ScheduleTables] = []
    keywords: dict[str, Any] = {
        "bandwidth_bytes_per_s": bandwidth_bytes_per_s,
        "tau": tau,
        "crossing_cost": crossing_cost,
    }
    models = list(models)
    for tree in topologies:
        for grid in grids:
            if math.prod(grid) > len(tree.endpoint_names):
                text = f"grid is {'x'.join(map(str, grid))}, expected at most as many processes as endpoints"
                raise InputError(f"{text} of {tree.name}")
            pattern = halo_pattern(grid, len(tree.endpoint_names), size_bytes=size_bytes)
            shown = [entry for entry in published if tuple(entry.grid) == tuple(grid)]
            for model in models:
                for mode in MODES:
                    search = enumerate_schedules(
                        tree, pattern, mode, model=MODELS[model], threads=threads, top=_BEST, **keywords
                    )
                    plans: dict[bool, list[SchedulePlan]] = {True: [], False: []}
                    for entry in shown:
                        order = entry.order(len(tree.endpoint_names))
                        plan = run_schedule(tree, pattern, order, mode, model=MODELS[model], **keywords)
                        plans[entry.fastest].append(plan)
                    fastest = plans[True][0] if plans[True] else None
                    parts.append(_case_tables(tree, pattern, model, search, fastest, plans[False]))
                    if progress is not None:
                        progress(1)
    for tree, grid in searched:
        count = len(tree.endpoint_names)
        if grid:
            pattern = halo_pattern(grid, count, size_bytes=size_bytes)
        else:
            others = tuple(tuple(t for t in range(count) if t != s) for s in range(count))
            pattern = Pattern("all-to-all", others, ((size_bytes,) * (count - 1),) * count)
        for mode in MODES:
            result = search_schedules(
                tree,
                pattern,
                mode,
                model=MODELS[models[0]],
                threads=threads,
                evaluations=evaluations,
                seed=seed,
                top=_BEST,
                **keywords,
            )
            parts.append(_case_tables(tree, pattern, models[0], result, None))
            if progress is not None:
                progress(1)
    names = ("schedule", "schedule_summary", "schedule_histogram")
    return ScheduleTables(*(pd.concat([getattr(part, name) for part in parts], ignore_index=True) for name in names))
