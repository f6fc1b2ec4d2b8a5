"""The best schedule that a search finds, against a proved lower bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fabricast.core.seeds import random_generator
from fabricast.pcie.graphs.patterns import Pattern
from fabricast.pcie.models.catalogue import MODELS, Model
from fabricast.pcie.schedules.enumeration import evaluated_plans, lower_bound_s
from fabricast.pcie.schedules.results import SAME, Mode, Run, ScheduleSearch
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["search_schedules"]


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
    """Search a space that is too large to enumerate; the gap to a proved bound is told.

    A population of schedules is improved by exchanging two sends of one source, keeping
    exchanges that do not slow a schedule down; it ends early when the bound is reached,
    which proves the optimum.

    Parameters
    ----------
    tree, pattern, mode, model, bandwidth_bytes_per_s, tau, crossing_cost, latency_s, top, threads
        As for `enumerate_schedules`.
    evaluations : int, default 40000
        Schedules to evaluate at most.
    seed : int
        Root seed.
    progress : callable, optional
        Called with the number of schedules evaluated since the last call.

    Returns
    -------
    ScheduleSearch
        The fastest found; `gap` is 0 if they are proved optimal.

    Examples
    --------
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
    movable = [s for s, own in enumerate(pattern.targets) if len(own) > 1]
    population = 64

    def shuffled() -> list[list[int]]:
        return [generator.permutation(own).tolist() if own else [] for own in pattern.targets]

    current: list[list[list[int]]] = [[list(own) for own in pattern.targets]]
    current += [shuffled() for _ in range(population - 1)]
    plans = evaluated_plans(run, pattern, current, mode)
    naive = plans[0]
    known = {plan.order: plan for plan in plans}
    evaluated = len(plans)
    stale = np.zeros(population, dtype=np.int64)
    while movable and evaluated < evaluations and min(p.elapsed_s for p in plans) > bound_s * (1 + SAME):
        moved = []
        for order in current:
            other = [list(own) for own in order]
            for _ in range(1 + int(generator.integers(0, 3))):
                own = other[movable[int(generator.integers(len(movable)))]]
                i, j = generator.choice(len(own), 2, replace=False)
                own[i], own[j] = own[j], own[i]
            moved.append(other)
        tried = evaluated_plans(run, pattern, moved, mode)
        evaluated += population
        if progress is not None:
            progress(population)
        for k, plan in enumerate(tried):
            known.setdefault(plan.order, plan)
            stale[k] += 1
            if plan.elapsed_s <= plans[k].elapsed_s * (1 + SAME):
                if plan.elapsed_s < plans[k].elapsed_s * (1 - SAME):
                    stale[k] = 0
                plans[k], current[k] = plan, moved[k]
        # A schedule that no longer improves gives way to the best of all.
        best = min(range(population), key=lambda k: plans[k].elapsed_s)
        for k in np.flatnonzero(stale > 120).tolist():
            if k != best:
                plans[k], current[k] = plans[best], [list(own) for own in current[best]]
            stale[k] = 0
    fastest = sorted(known.values(), key=lambda plan: (round(plan.elapsed_s / bound_s, 9), plan.order))[:top]
    return ScheduleSearch(mode, pattern.schedules, bound_s, tuple(fastest), naive, None, None, evaluated)
