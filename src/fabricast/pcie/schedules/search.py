"""Stochastic search for fast schedules, with a proved lower bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fabricast.core.seeds import random_generator
from fabricast.pcie.graphs.patterns import Pattern
from fabricast.pcie.models.catalogue import MODELS, Model
from fabricast.pcie.schedules.enumeration import evaluated_plans, lower_bound_s
from fabricast.pcie.schedules.results import SAME, Mode, Run, ScheduleSearch
from fabricast.pcie.topology.tree import PcieTree


def search_schedules(
    tree: PcieTree,
    pattern: Pattern,
    mode: Mode,
    *,
    model: Model = MODELS["congestion_factor"],
    bandwidth_bytes_per_s: float,
    tau: float,
    crossing_cost: float = 1.0,
    latency_s: float = 0.0,
    top: int = 10,
    evaluations: int = 40_000,
    seed: int = 20161113,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> ScheduleSearch:
    """Search for fast schedules in a space that is too large to enumerate.

    In each iteration, every schedule of a population of 64 exchanges one to three pairs of copies within sources. A
    changed schedule that is not slower replaces its predecessor. Schedules without progress are replaced by the best
    one. The search ends early if a schedule reaches the proved lower bound and is therefore optimal.

    >>> from fabricast.pcie.graphs.patterns import halo_pattern
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> pattern = halo_pattern((4, 2), 8, size_bytes=1.0)
    >>> found = search_schedules(storm8, pattern, "asynchronous", bandwidth_bytes_per_s=1.0, tau=0.1735)
    >>> round(found.gap, 9)
    0.0
    """
    run = Run(tree, model, bandwidth_bytes_per_s, tau, crossing_cost, latency_s, threads)
    bound_s = lower_bound_s(tree, pattern, bandwidth_bytes_per_s=bandwidth_bytes_per_s, latency_s=latency_s)
    generator = random_generator(seed, f"pcie.schedules.{tree.name}.{pattern.name}.{mode}")
    movable = [s for s, targets in enumerate(pattern.targets) if len(targets) > 1]
    population = 64

    def shuffled() -> list[list[int]]:
        return [generator.permutation(targets).tolist() if targets else [] for targets in pattern.targets]

    current: list[list[list[int]]] = [[list(targets) for targets in pattern.targets]]
    current += [shuffled() for _ in range(population - 1)]
    plans = evaluated_plans(run, pattern, current, mode)
    naive = plans[0]
    plans_by_order = {plan.order: plan for plan in plans}
    evaluated = len(plans)
    stale = np.zeros(population, dtype=np.int64)
    while movable and evaluated < evaluations and min(p.elapsed_s for p in plans) > bound_s * (1 + SAME):
        moved = []
        for order in current:
            neighbour = [list(targets) for targets in order]
            for _ in range(1 + int(generator.integers(0, 3))):
                targets = neighbour[movable[int(generator.integers(len(movable)))]]
                i, j = generator.choice(len(targets), 2, replace=False)
                targets[i], targets[j] = targets[j], targets[i]
            moved.append(neighbour)
        tried = evaluated_plans(run, pattern, moved, mode)
        evaluated += population
        if progress is not None:
            progress(population)
        for k, plan in enumerate(tried):
            plans_by_order.setdefault(plan.order, plan)
            stale[k] += 1
            if plan.elapsed_s <= plans[k].elapsed_s * (1 + SAME):
                if plan.elapsed_s < plans[k].elapsed_s * (1 - SAME):
                    stale[k] = 0
                plans[k], current[k] = plan, moved[k]
        # A schedule without improvement in 120 iterations is replaced by the best one.
        best = min(range(population), key=lambda k: plans[k].elapsed_s)
        for k in np.flatnonzero(stale > 120).tolist():
            if k != best:
                plans[k], current[k] = plans[best], [list(targets) for targets in current[best]]
            stale[k] = 0
    fastest = sorted(plans_by_order.values(), key=lambda plan: (round(plan.elapsed_s / bound_s, 9), plan.order))[:top]
    return ScheduleSearch(mode, pattern.schedules, bound_s, tuple(fastest), naive, None, None, evaluated)
