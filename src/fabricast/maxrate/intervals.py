"""Confidence intervals of fitted parameters: bootstrap and profile likelihood."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricast.maxrate.fitting import MaxRateRegressor, starting_points
from fabricast.maxrate.models import FORMS
from fabricast.maxrate.switching import BOUNDS, Array, fit_switched

__all__ = ["bootstrap_intervals", "parameter_intervals", "profile_intervals"]

#: A parameter is not identifiable if its 95 % interval spans this factor.
_WIDEST_INTERVAL = 10.0
#: With fewer blocks, more than 2.5 % of all resamples contain a single number of processes, which determines neither
#: `r_n` nor `r_c`: of three blocks 1 in 9, of four 1 in 64.
_FEWEST_BLOCKS = 4


def bootstrap_intervals(
    regressor: MaxRateRegressor,
    cells: Array,
    times: Array,
    *,
    draws: int,
    generator: np.random.Generator,
    blocks: NDArray[np.generic] | None = None,
) -> dict[str, tuple[float, float]]:
    """Return 95 % block-bootstrap intervals of the parameters.

    Errors of cells with the same number of processes, or from the same job, are correlated. Blocks are
    therefore resampled instead of cells.

    Parameters
    ----------
    regressor : MaxRateRegressor
        Fitted regressor; the fits of the resamples start from its parameters.
    cells, times : ndarray of float64
        Cells and times that the regressor was fitted to.
    draws : int
        Number of bootstrap resamples.
    generator : numpy.random.Generator
        Random generator of the resamples.
    blocks : ndarray, shape (cells,), optional
        Block of each cell; defaults to its number of processes. If there are fewer than four blocks, the cells of
        each block are resampled instead.

    Returns
    -------
    dict
        Lower and upper bound of each parameter.
    """
    names = FORMS[regressor.form].parameters
    key = cells[:, 1] if blocks is None else blocks
    rows_of = [np.flatnonzero(key == block) for block in np.unique(key)]
    samples = []
    for _ in range(draws):
        if len(rows_of) < _FEWEST_BLOCKS:
            resampled = [rows[generator.integers(0, rows.size, rows.size)] for rows in rows_of]
        else:
            resampled = [rows_of[i] for i in generator.integers(0, len(rows_of), len(rows_of))]
        rows = np.concatenate(resampled)
        fit = fit_switched(regressor.form, cells[rows], times[rows], regressor.parameters_)
        samples.append([fit.parameters[name] for name in names])
    ends = np.percentile(np.array(samples), [2.5, 97.5], axis=0)
    return {name: (float(ends[0, i]), float(ends[1, i])) for i, name in enumerate(names)}


#: Factors by which a parameter is changed while all other parameters are refitted.
_FACTORS = (1.01, 1.03, 1.1, 1.3, 2.0, 3.2, 10.0, 100.0, 1000.0)
#: A parameter is not identifiable if this change keeps the cost within the limit.
_UNDETERMINED_FACTOR = _WIDEST_INTERVAL**0.5
_BISECTIONS = 4
#: 95 % quantile of the chi-squared distribution with one degree of freedom.
_CHI_SQUARED = 3.841
#: Lower bound of the relative noise of measured times, for fits to few cells.
_FINEST_RESIDUAL = 0.003


def profile_intervals(regressor: MaxRateRegressor, cells: Array, times: Array) -> dict[str, tuple[float, float] | None]:
    """Return 95 % profile-likelihood intervals of the parameters.

    A parameter is moved away from its fitted value and all others are refitted. It is identifiable if the
    fit degrades by more than noise on both sides. Data for a single number of processes, for example,
    determine ``min(r_n, k r_c)`` but neither `r_n` nor `r_c`.

    Parameters
    ----------
    regressor : MaxRateRegressor
        Fitted regressor.
    cells : ndarray of float64, shape (cells, 2)
        Size in bytes and processes.
    times : ndarray of float64, shape (cells,)
        Times in s.

    Returns
    -------
    dict
        95 % interval of each parameter; None if the parameter is not identifiable, which means that the
        interval spans a factor of 10 or more.

    References
    ----------
    Raue et al., "Structural and practical identifiability analysis ... by exploiting the
    profile likelihood", Bioinformatics 2009. Errors of cells with the same number of
    processes are correlated: the log-likelihood is divided by their design effect (Kish 1965).

    Examples
    --------
    >>> from fabricast.maxrate.models import predict_time
    >>> size = 2.0 ** np.arange(4, 20)
    >>> X = np.column_stack([size, np.full(16, 8.0)])
    >>> y = predict_time("maxrate", {"s": 3e-6, "r_n": 6e9, "r_c": 3e9}, X[:, 0], X[:, 1])
    >>> profile_intervals(MaxRateRegressor("maxrate").fit(X, y), X, y)["r_n"] is None
    True
    """
    names = FORMS[regressor.form].parameters
    residual = np.log(regressor.predict(cells) / times)
    freedom = max(1, times.size - len(names))
    variance = max(2 * regressor.cost_ / freedom, _FINEST_RESIDUAL**2)
    limit = regressor.cost_ + _CHI_SQUARED / 2 * variance * _design_effect(residual, cells[:, 1])
    intervals: dict[str, tuple[float, float] | None] = {}
    rates = [name for name in names if name.startswith("r")]
    # One number of processes determines the aggregate rate only, which is the minimum of several parameters.
    hidden = set(rates) if len(rates) > 1 and np.unique(cells[:, 1]).size == 1 else set()
    for name in names:
        if name in hidden:
            intervals[name] = None
            continue
        low, high = (_profile_end(regressor, name, sign, limit, cells, times) for sign in (-1.0, 1.0))
        value = regressor.parameters_[name]
        identifiable = low is not None and high is not None
        intervals[name] = (value * float(np.exp(-low)), value * float(np.exp(high))) if identifiable else None  # type: ignore[operator,arg-type]
    return intervals


def _design_effect(residual: Array, block: Array) -> float:
    """Return the design effect (variance inflation) of blocks with correlated errors."""
    blocks, which = np.unique(block, return_inverse=True)
    if blocks.size < 2 or residual.size <= blocks.size:
        return 1.0
    counts = np.bincount(which)
    means = np.bincount(which, weights=residual) / counts
    within = float(((residual - means[which]) ** 2).sum() / (residual.size - blocks.size))
    size = float(counts.mean())
    between = float((counts * (means - residual.mean()) ** 2).sum() / (blocks.size - 1))
    if within + between <= 0:
        return 1.0
    correlation = max(0.0, (between - within) / (between + (size - 1) * within))
    return 1 + (size - 1) * correlation


def _profile_end(
    regressor: MaxRateRegressor, name: str, sign: float, limit: float, cells: Array, times: Array
) -> float | None:
    """Return the log distance from the fit to one end of the profile interval.

    None if the data do not determine the parameter in this direction.
    """
    form, best = regressor.form, regressor.parameters_
    low, high = np.log(BOUNDS[name[0]])
    at = float(np.log(best[name]))
    first = next(starting_points(form, cells, times, 1, np.random.default_rng(0)))
    warm = best

    def harmless(distance: float) -> bool:
        nonlocal warm
        # One fit below the limit is sufficient; the other starts guard against local optima.
        lowest = np.inf
        for start in (warm, best, first):
            fit = fit_switched(form, cells, times, start, held=(name, float(np.exp(at + sign * distance))))
            if fit.cost < lowest:
                lowest, warm = fit.cost, fit.parameters
            if lowest <= limit:
                break
        return bool(lowest <= limit)

    inside, outside = 0.0, None
    for factor in _FACTORS:
        distance = float(np.log(factor))
        if not low < at + sign * distance < high:
            # The parameter reaches its bound before the cost exceeds the limit: no interval end on this side.
            if outside is None:
                return None
            break
        if harmless(distance):
            inside, outside = distance, None
        elif outside is None:
            outside = distance
        if inside >= np.log(_UNDETERMINED_FACTOR):
            return None
    if outside is None:
        return None
    warm = best
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        if harmless(middle):
            inside = middle
        else:
            outside = middle
    return outside


def parameter_intervals(
    regressor: MaxRateRegressor, cells: Array, times: Array, *, draws: int, generator: np.random.Generator
) -> dict[str, tuple[float, float] | None]:
    """Return 95 % intervals of the identifiable parameters, None for the others.

    Parameters
    ----------
    regressor : MaxRateRegressor
        Fitted regressor.
    cells, times : ndarray of float64
        Cells and times that the regressor was fitted to.
    draws : int
        Number of bootstrap resamples.
    generator : numpy.random.Generator
        Random generator of the resamples.

    Returns
    -------
    dict
        Union of the profile and bootstrap intervals; None if it spans more than a factor of 10 or the
        profile has no interval.
    """
    profile = profile_intervals(regressor, cells, times)
    drawn = bootstrap_intervals(regressor, cells, times, draws=draws, generator=generator)
    intervals: dict[str, tuple[float, float] | None] = {}
    for name, profile_interval in profile.items():
        low, high = drawn[name]
        joint = None if profile_interval is None else (min(profile_interval[0], low), max(profile_interval[1], high))
        intervals[name] = None if joint is None or joint[1] > joint[0] * _WIDEST_INTERVAL else joint
    return intervals
