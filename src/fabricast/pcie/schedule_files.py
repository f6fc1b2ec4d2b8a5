"""Schedules of the user's own pattern, for the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal

import pandas as pd

from fabricast.errors import InputError
from fabricast.files import whole_file, write_text
from fabricast.jobs import progress_of
from fabricast.pcie.graphs import from_arcs
from fabricast.pcie.machine_parameters import machine_parameters, refuse_peer_copies
from fabricast.pcie.models import named_model
from fabricast.pcie.schedules import (
    Pattern,
    ScheduleSearch,
    can_enumerate,
    enumerate_schedules,
    halo_pattern,
    read_pattern,
    search_schedules,
)
from fabricast.pcie.topology_files import load_tree
from fabricast.pcie.tree import PcieTree

__all__ = ["schedule_lines", "schedule_pattern", "write_schedules"]

_EVALUATIONS = 40_000


def _parse_grid(text: str) -> tuple[int, ...]:
    parts = text.lower().split("x")
    if len(parts) > 4 or not all(re.fullmatch("[0-9]{1,3}", part) for part in parts):
        raise InputError(f"--halo is '{text}', expected a grid such as 4x2 or 2x2x2")
    return tuple(int(part) for part in parts)


def schedule_pattern(
    topology: str,
    *,
    halo: str | None,
    communications: Path | None,
    mode: Literal["synchronised", "asynchronous"],
    model: str,
    bandwidth_bytes_per_s: float | None = None,
    tau: float | None = None,
    crossing_cost: float | None = None,
    parameters_file: Path | None = None,
    latency_s: float,
    size_bytes: float,
    top: int,
    threads: int,
    pcie_only: bool = False,
    include_display: bool = False,
) -> tuple[PcieTree, Pattern, ScheduleSearch, list[str]]:
    """Find the fastest schedules of a halo exchange or of a CSV file.

    Parameters
    ----------
    topology : str
        Built-in name or file.
    halo : str or None
        Process grid such as ``4x2``.
    communications : Path or None
        CSV with the columns ``source,target[,size_bytes]``; exactly one of both is given.
    mode, model, latency_s, top, threads
        As for `fabricast.pcie.schedules.enumerate_schedules`; the model by its name.
    bandwidth_bytes_per_s, tau, crossing_cost, parameters_file
        As for `fabricast.pcie.machine_parameters.machine_parameters`.
    size_bytes : float
        Size where it is not given.
    pcie_only : bool, default False
        Whether copies between endpoints with direct links take the tree all the same.
    include_display : bool, default False
        Whether graphics cards count as accelerators.

    Returns
    -------
    (PcieTree, Pattern, ScheduleSearch, list of str)
        Topology, communications, what was found, and what the user should know of it.

    Raises
    ------
    InputError
        If an argument is not as expected.
    """
    if (halo is None) == (communications is None):
        raise InputError("expected either --halo GRID or --communications FILE")
    chosen = named_model(model)
    if mode not in ("synchronised", "asynchronous"):
        raise InputError(f"--mode is '{mode}', expected synchronised or asynchronous")
    tree = load_tree(topology, include_display=include_display)
    if halo is not None:
        pattern = halo_pattern(_parse_grid(halo), len(tree.endpoint_names), size_bytes=size_bytes)
    else:
        assert communications is not None
        pattern = read_pattern(communications, tree, size_bytes=size_bytes)
    if not pcie_only:
        refuse_peer_copies(tree, from_arcs([pattern.arcs], size_bytes=1.0, names=["pattern"]))
    machine = machine_parameters(
        topology, tree, bandwidth_bytes_per_s=bandwidth_bytes_per_s, tau=tau, crossing_cost=crossing_cost,
        parameters_file=parameters_file,
    )  # fmt: skip
    notes = [*tree.notes, *machine.notes(chosen)]
    keywords = {
        "model": chosen, "bandwidth_bytes_per_s": machine.bandwidth_bytes_per_s, "tau": machine.tau,
        "crossing_cost": machine.crossing_cost, "latency_s": latency_s, "top": top, "threads": threads,
    }  # fmt: skip
    if can_enumerate(pattern):
        return tree, pattern, enumerate_schedules(tree, pattern, mode, **keywords), notes  # type: ignore[arg-type]
    with progress_of("searching schedules", _EVALUATIONS) as advance:
        found = search_schedules(
            tree, pattern, mode, evaluations=_EVALUATIONS, progress=advance, **keywords  # type: ignore[arg-type]
        )  # fmt: skip
    return tree, pattern, found, notes


def schedule_lines(tree: PcieTree, search: ScheduleSearch) -> list[str]:
    """Return what the user reads: the best schedules step by step, the bound, the gain.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    search : ScheduleSearch
        What was found.

    Returns
    -------
    list of str
        Lines.
    """
    names = tree.endpoint_names
    lines = []
    for rank, plan in enumerate(search.best, start=1):
        lines.append(f"schedule {rank}: {plan.elapsed_s * 1e3:.4f} ms")
        label = "takes" if search.mode == "synchronised" else "has ended after"
        for step, (text, time_s) in enumerate(zip(plan.text(names).split(" | "), plan.steps_s, strict=True), start=1):
            lines.append(f"  step {step}: {text}  ({label} {time_s * 1e3:.4f} ms)")
    best = search.best[0].elapsed_s
    lines.append(f"lower bound of any schedule: {search.bound_s * 1e3:.4f} ms")
    if search.elapsed_s is not None:
        lines.append(f"all {search.schedules:,} schedules evaluated; {search.ties:,} are this fast")
        assert search.worst is not None
        lines.append(f"slowest schedule: {search.worst.elapsed_s * 1e3:.4f} ms")
    else:
        proof = "so the best is optimal" if search.gap <= 1e-9 else f"the best is within {search.gap:.1%} of it"
        lines.append(f"{search.evaluated:,} of {float(search.schedules):.3g} schedules evaluated; {proof}")
    naive = search.naive.elapsed_s
    lines.append(f"naive order: {naive * 1e3:.4f} ms; the best saves {1 - best / naive:.1%}")
    return lines


def write_schedules(tree: PcieTree, search: ScheduleSearch, path: Path) -> None:
    """Write schedules as a table to paste: each rank with its ordered list of targets.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    search : ScheduleSearch
        What was found.
    path : Path
        CSV (schedule, source, step, target) or JSON (a list of schedules, source to targets).
    """
    names = tree.endpoint_names
    if path.suffix.lower() == ".json":
        entries = [
            {
                "elapsed_s": plan.elapsed_s,
                "targets": {names[s]: [names[t] for t in own] for s, own in enumerate(plan.order) if own},
            }
            for plan in search.best
        ]
        write_text(path, json.dumps(entries, indent=1) + "\n")
        return
    rows = [
        (rank, names[s], step, names[t], plan.elapsed_s)
        for rank, plan in enumerate(search.best, start=1)
        for s, own in enumerate(plan.order)
        for step, t in enumerate(own, start=1)
    ]
    table = pd.DataFrame(rows, columns=["schedule", "source", "step", "target", "elapsed_s"])
    with whole_file(path) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")
