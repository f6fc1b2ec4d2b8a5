"""Effect of faster components on totals (what-if analysis)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.breakdown.components import COMPONENTS, GROUPS, METRICS, System, form
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.seeds import random_generator

__all__ = ["Outcome", "reduce_components", "required_reduction", "sample_totals", "share_of"]


@dataclass(frozen=True)
class Outcome:
    """Effect of a reduction on a total.

    Parameters
    ----------
    before_ns, after_ns : float
        Total in ns before and after the reduction.
    share_removed : float
        Removed fraction of the total, which the slides plot as speed-up.
    speedup_ratio : float
        Total before divided by total after the reduction.
    """

    before_ns: float
    after_ns: float
    share_removed: float
    speedup_ratio: float


def _metric(system: System, metric: str) -> dict[str, float]:
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    return form(metric, system.posts_per_completion)


def _members(name: str) -> tuple[str, ...]:
    if name not in GROUPS:
        raise unknown_name("component", name, GROUPS)
    return GROUPS[name]


def reduce_components(system: System, metric: str, reductions: Mapping[str, float]) -> Outcome:
    """Return the effect of reduced components or groups on a total.

    Parameters
    ----------
    system : System
        System to evaluate.
    metric : str
        Key of `METRICS`.
    reductions : mapping
        Removed fraction, 0 to 1, of each component or group. If a component belongs to several entries,
        their remaining fractions are multiplied.

    Returns
    -------
    Outcome
        Totals before and after, removed fraction and ratio.

    Raises
    ------
    InputError
        If a name is unknown or a reduction is not between 0 and 1.

    References
    ----------
    Zambre et al., slides 41-45: T' = T - y X.

    Examples
    --------
    >>> from fabricast.breakdown.components import read_systems
    >>> from fabricast.core.resources import published
    >>> thunderx2 = read_systems(published() / "breakdown_components.csv")[0]
    >>> round(reduce_components(thunderx2, "injection", {"hlp": 0.2}).share_removed, 6)
    0.064475
    """
    weights = _metric(system, metric)
    remaining = dict.fromkeys(COMPONENTS, 1.0)
    for name, reduction in reductions.items():
        if not 0 <= reduction <= 1:
            raise InputError(f"reduction of '{name}' is {reduction:g}, expected 0 to 1 (0 % to 100 %)")
        for member in _members(name):
            remaining[member] *= 1 - reduction
    before = math.fsum(weight * system.time_ns(c) for c, weight in weights.items())
    after = math.fsum(weight * system.time_ns(c) * remaining[c] for c, weight in weights.items())
    if before == 0:
        raise InputError(f"{metric} of system '{system.system}' is 0 ns, expected a positive total")
    return Outcome(before, after, 1 - after / before, before / after if after > 0 else math.inf)


def share_of(system: System, metric: str, name: str) -> float:
    """Return the share of a component or group in a total.

    The share is the upper bound of what a reduction of the component can remove.

    Parameters
    ----------
    system : System
        System to evaluate.
    metric, name : str
        Names of the total and of the component or group.

    Returns
    -------
    float
        Share of the total, 0 to 1.
    """
    return reduce_components(system, metric, {name: 1.0}).share_removed


def required_reduction(system: System, metric: str, name: str, share: float) -> float | None:
    """Return the component reduction that removes a share of a total.

    Parameters
    ----------
    system : System
        System to evaluate.
    metric, name : str
        Names of the total and of the component or group.
    share : float
        Share of the total to remove, 0 to 1.

    Returns
    -------
    float or None
        Reduction, 0 to 1; None if removing the whole component is not sufficient.

    Raises
    ------
    InputError
        If the share is not between 0 and 1.
    """
    if not 0 <= share <= 1:
        raise InputError(f"share is {share:g}, expected 0 to 1 (0 % to 100 %)")
    most = share_of(system, metric, name)
    if share == 0:
        return 0.0
    return share / most if most > 0 and share <= most * (1 + 1e-12) else None


def sample_totals(system: System, *, samples: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """Sample totals by Monte Carlo from the spreads of the components.

    Parameters
    ----------
    system : System
        System to sample. Component times are independent and normal, clipped at 0.
    samples : int
        Number of samples.
    seed : int
        Root seed.

    Returns
    -------
    dict
        Samples of every metric in ns, ndarray of float64, shape (samples,).
    """
    generator = random_generator(seed, f"breakdown.{system.system}")
    times = {
        name: np.maximum(0.0, generator.normal(part.time_ns, part.spread_ns, size=samples))
        for name in COMPONENTS
        if (part := system.components.get(name)) is not None
    }
    zero = np.zeros(samples)
    return {
        metric: sum(
            (weight * times.get(c, zero) for c, weight in form(metric, system.posts_per_completion).items()), zero
        )
        for metric in METRICS
    }
