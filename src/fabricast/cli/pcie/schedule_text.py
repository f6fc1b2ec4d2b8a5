"""Schedules as text, CSV and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from fabricast.core.errors import InputError
from fabricast.core.units import time_text
from fabricast.inputs.files import atomic_write, write_text

if TYPE_CHECKING:
    from fabricast.pcie.schedules.results import ScheduleSearch
    from fabricast.pcie.topology.tree import PcieTree


def parse_grid(text: str) -> tuple[int, ...]:
    """Return a process grid from text such as 4x2."""
    parts = text.lower().split("x")
    if len(parts) > 4 or not all(re.fullmatch("[0-9]{1,3}", part) for part in parts):
        raise InputError(f"--halo is '{text}', expected a grid such as 4x2 or 2x2x2")
    return tuple(int(part) for part in parts)


def schedule_lines(tree: PcieTree, search: ScheduleSearch) -> list[str]:
    """Return the best schedules step by step, the lower bound and the gain as text."""
    names = tree.endpoint_names
    lines = []
    for rank, plan in enumerate(search.best, start=1):
        lines.append(f"schedule {rank}: {time_text(plan.elapsed_s)}")
        label = "takes" if search.mode == "synchronised" else "complete after"
        for step, (text, time_s) in enumerate(zip(plan.text(names).split(" | "), plan.steps_s, strict=True), start=1):
            lines.append(f"  step {step}: {text}  ({label} {time_text(time_s)})")
    best = search.best[0].elapsed_s
    lines.append(f"lower bound of all schedules: {time_text(search.bound_s)}")
    if search.elapsed_s is not None:
        lines.append(f"all {search.schedules:,} schedules evaluated; {search.ties:,} are this fast")
        assert search.worst is not None
        lines.append(f"slowest schedule: {time_text(search.worst.elapsed_s)}")
    else:
        proof = (
            "the best is optimal" if search.gap <= 1e-9 else f"the best is within {search.gap:.1%} of the lower bound"
        )
        lines.append(f"{search.evaluated:,} of {float(search.schedules):.3g} schedules evaluated; {proof}")
    naive = search.naive.elapsed_s
    lines.append(f"naive order: {time_text(naive)}; the best saves {1 - best / naive:.1%}")
    return lines


def write_schedules(tree: PcieTree, search: ScheduleSearch, path: Path) -> None:
    """Write the ordered targets of each rank to a file."""
    names = tree.endpoint_names
    if path.suffix.lower() == ".json":
        entries = [
            {
                "elapsed_s": plan.elapsed_s,
                "targets": {names[s]: [names[t] for t in targets] for s, targets in enumerate(plan.order) if targets},
            }
            for plan in search.best
        ]
        write_text(path, json.dumps(entries, indent=1) + "\n")
        return
    rows = [
        (rank, names[s], step, names[t], plan.elapsed_s)
        for rank, plan in enumerate(search.best, start=1)
        for s, targets in enumerate(plan.order)
        for step, t in enumerate(targets, start=1)
    ]
    table = pd.DataFrame(rows, columns=["schedule", "source", "step", "target", "elapsed_s"])
    with atomic_write(path) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")
