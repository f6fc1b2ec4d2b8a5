"""Robust fits of the max-rate models, as a scikit-learn estimator, and what the data can tell.

Plain least squares in seconds fits only the largest messages, and the minimum in the
models makes local optima: residuals are logarithms, the loss is soft, starts are many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult, least_squares
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.utils.validation import check_is_fitted, validate_data

from fabricast.errors import InputError
from fabricast.maxrate.models import FORMS, predict_time, time_and_gradient

__all__ = [
    "ErrorSummary",
    "MaxRateRegressor",
    "TimeRegressor",
    "blocked_predictions",
    "bootstrap_intervals",
    "profile_intervals",
    "summarise",
    "told_intervals",
]

#: Bounds and ranges of random starts by the first letter of a parameter.
_BOUNDS = {"s": (1e-10, 1e-2), "r": (1e6, 1e13), "k": (0.5, 1e3)}
_STARTS = {"s": (3e-8, 1e-5), "r": (2e8, 5e10), "k": (2.0, 40.0)}
_SOFT = 0.1
#: Changes below which a fit stops: of the cost, relative, and of the logs of parameters.
_COST_TOLERANCE, _LOG_TOLERANCE, _MOST_EVALUATIONS = 1e-6, 1e-6, 60
#: A parameter whose 95 % interval spans this factor is not told by the data.
_WIDEST_INTERVAL = 10.0
_FOLDS = 4

Array = NDArray[np.float64]


class TimeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What estimators of times have in common: rows of X are (size in bytes, processes), y is in s."""

    def _predict(self, cells: Array) -> Array:
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> Array:  # noqa: N803  scikit-learn's name
        """Return modelled times.

        Parameters
        ----------
        X : array-like, shape (cells, 2)
            Size in bytes and processes.

        Returns
        -------
        ndarray of float64, shape (cells,)
            Times in s.
        """
        check_is_fitted(self)
        return self._predict(validate_data(self, X, reset=False, dtype=np.float64))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: None = None) -> float:  # noqa: N803
        """Return one minus the median absolute relative error, so that larger is better.

        Parameters
        ----------
        X : array-like, shape (cells, 2)
            Size in bytes and processes.
        y : array-like, shape (cells,)
            Times in s.
        sample_weight : None
            Not used.

        Returns
        -------
        float
            1 is perfect.
        """
        times = np.asarray(y, dtype=np.float64)
        return 1.0 - float(np.median(np.abs(self.predict(X) / times - 1)))

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:  # noqa: N803
        cells, times = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        if cells.shape[1] != 2:
            raise ValueError(f"X has {cells.shape[1]} features, expected 2: size in bytes and processes")
        if (cells[:, 0] < 0).any() or (cells[:, 1] < 1).any():
            raise ValueError("sizes must not be negative and processes at least 1")
        if (times <= 0).any():
            raise ValueError("times must be positive")
        return cells, times

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sizes, processes and times are positive, and that X has two columns."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags


class MaxRateRegressor(TimeRegressor):
    """Time of k processes that each send n bytes, fitted to measurements.

    Parameters
    ----------
    form : str, default 'refined'
        Key of `fabricast.maxrate.models.FORMS`.
    starts : int, default 25
        Random starts of the optimiser; the fit with the lowest cost is kept.
    random_state : int, default 0
        Seed of the starts.

    Attributes
    ----------
    parameters_ : dict
        Fitted value of each parameter, in s, bytes/s and processes.
    cost_ : float
        Cost of the fit.
    starts_reached_ : int
        Starts that ended within 0.1 % of the lowest cost.

    Notes
    -----
    Rows of X are (size in bytes, processes); y is the time in s, positive.

    Examples
    --------
    >>> size, k = np.meshgrid(2.0 ** np.arange(4, 20), np.arange(1.0, 9.0))
    >>> X = np.column_stack([size.ravel(), k.ravel()])
    >>> truth = {"s": 3e-6, "r_n": 6e9, "r_b": 3e9, "r_i": 1e9}
    >>> y = predict_time("refined", truth, X[:, 0], X[:, 1])
    >>> {name: f"{value:.2e}" for name, value in MaxRateRegressor().fit(X, y).parameters_.items()}
    {'s': '3.00e-06', 'r_n': '6.00e+09', 'r_b': '3.00e+09', 'r_i': '1.00e+09'}
    """

    def __init__(self, form: str = "refined", starts: int = 25, random_state: int = 0) -> None:
        self.form = form
        self.starts = starts
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> MaxRateRegressor:  # noqa: N803
        """Fit the parameters.

        Parameters
        ----------
        X : array-like, shape (cells, 2)
            Size in bytes and processes.
        y : array-like, shape (cells,)
            Times in s.

        Returns
        -------
        MaxRateRegressor
            Itself.
        """
        if self.form not in FORMS:
            raise InputError(f"model '{self.form}' is unknown, expected one of {', '.join(FORMS)}")
        cells, times = self._checked(X, y)
        names = FORMS[self.form].parameters
        generator = np.random.default_rng(self.random_state)
        # The first start is read off the data, the others are random.
        starts = [_first_start(names, cells, times)]
        starts += [
            np.array([generator.uniform(*np.log(_STARTS[name[0]])) for name in names]) for _ in range(self.starts - 1)
        ]
        results = [_optimise(self.form, start, cells, times) for start in starts]
        best = min(results, key=lambda result: float(result.cost))
        self.parameters_ = dict(zip(names, np.exp(best.x).tolist(), strict=True))
        self.cost_ = float(best.cost)
        self.starts_reached_ = int(sum(result.cost <= best.cost * 1.001 + 1e-12 for result in results))
        return self

    def _predict(self, cells: Array) -> Array:
        return predict_time(self.form, self.parameters_, cells[:, 0], cells[:, 1])


def _first_start(names: tuple[str, ...], cells: Array, times: Array) -> Array:
    """Start-up from the fastest cell, rates from the largest rates of one process and of the node."""
    rate = cells[:, 0] * cells[:, 1] / times
    alone = rate[cells[:, 1] == cells[:, 1].min()].max()
    guess = {
        "s": times.min(), "s0": times.min(), "s1": times.min() / 100, "s2": times.min() / 10,
        "r_c": alone, "r_b": alone, "r_i": alone / 2, "r_n": rate.max(), "r_x": rate.max(),
        "k0": float(np.median(cells[:, 1])),
    }  # fmt: skip
    return np.log([np.clip(guess[name], *_BOUNDS[name[0]]) for name in names])


def _optimise(
    form: str, start: Array, cells: Array, times: Array, *, fixed: tuple[int, float] | None = None
) -> OptimizeResult:
    """Fit from a start, all parameters or all but one that is fixed (position and log of its value)."""
    names = FORMS[form].parameters
    free = [name for place, name in enumerate(names) if fixed is None or place != fixed[0]]
    held = {} if fixed is None else {names[fixed[0]]: float(np.exp(fixed[1]))}
    low, high = (np.log([_BOUNDS[name[0]][end] for name in free]) for end in (0, 1))
    log_time = np.log(times)
    size, processes = cells[:, 0], cells[:, 1]
    if fixed is not None:
        start = np.delete(start, fixed[0])

    def residual(logs: Array) -> Array:
        values = held | dict(zip(free, np.exp(logs).tolist(), strict=True))
        modelled: Array = np.log(predict_time(form, values, size, processes))
        return modelled - log_time

    def jacobian(logs: Array) -> Array:
        values = held | dict(zip(free, np.exp(logs).tolist(), strict=True))
        time, gradient = time_and_gradient(form, values, size, processes)
        return np.stack([gradient[name] * values[name] / time for name in free], axis=1)

    inside = np.clip(start, low + 1e-9, high - 1e-9)
    return least_squares(
        residual, inside, jac=jacobian, bounds=(low, high), loss="soft_l1", f_scale=_SOFT, ftol=_COST_TOLERANCE,
        xtol=_LOG_TOLERANCE, max_nfev=_MOST_EVALUATIONS,
    )  # fmt: skip


@dataclass(frozen=True)
class ErrorSummary:
    """Errors of a fit.

    Parameters
    ----------
    median, p90, largest : float
        Absolute relative errors.
    within_10 : float
        Share of cells within 10 %.
    """

    median: float
    p90: float
    largest: float
    within_10: float


def summarise(modelled: Array, measured: Array) -> ErrorSummary:
    """Summarise the errors of modelled times.

    Parameters
    ----------
    modelled, measured : ndarray of float64, shape (cells,)
        Times in s.

    Returns
    -------
    ErrorSummary
        Statistics of ``modelled / measured - 1``.
    """
    error = np.abs(modelled / measured - 1)
    return ErrorSummary(
        float(np.median(error)), float(np.percentile(error, 90)), float(error.max()), float((error <= 0.1).mean())
    )


def blocked_predictions(regressor: TimeRegressor, cells: Array, times: Array, blocks: NDArray[np.generic]) -> Array:
    """Predict every cell by a fit that has not seen its block.

    Parameters
    ----------
    regressor : TimeRegressor
        What is fitted, once a fold.
    cells, times : ndarray of float64
        Data.
    blocks : ndarray, shape (cells,)
        Block of each cell: its number of processes, or its job. Cells of one block err
        together, so they are left out together.

    Returns
    -------
    ndarray of float64, shape (cells,)
        Times in s; NaN if all cells stand in one block.
    """
    count = np.unique(blocks).size
    if count < 2:
        return np.full(times.size, np.nan)
    folds = GroupKFold(n_splits=min(_FOLDS, count))
    found: Array = cross_val_predict(regressor, cells, times, groups=blocks, cv=folds)
    return found


def bootstrap_intervals(
    regressor: MaxRateRegressor,
    cells: Array,
    times: Array,
    *,
    draws: int,
    generator: np.random.Generator,
    blocks: NDArray[np.generic] | None = None,
) -> dict[str, tuple[float, float]]:
    """Return 95 % intervals of the parameters; whole blocks are drawn.

    Cells of one number of processes, or of one job, err together, so blocks are resampled, not cells.

    Parameters
    ----------
    regressor : MaxRateRegressor
        A fitted regressor; draws start from its parameters.
    cells, times : ndarray of float64
        What it was fitted to.
    draws : int
        Bootstrap draws.
    generator : numpy.random.Generator
        Source of randomness.
    blocks : ndarray, shape (cells,), optional
        Block of each cell; its number of processes if left out, or the cell itself if there
        is but one block.

    Returns
    -------
    dict
        Lower and upper end by parameter.
    """
    names = FORMS[regressor.form].parameters
    start = np.log([regressor.parameters_[name] for name in names])
    key = cells[:, 1] if blocks is None else blocks
    if np.unique(key).size == 1:
        # One block tells nothing of its own spread; its cells are then drawn one by one.
        key = np.arange(times.size)
    rows_of = [np.flatnonzero(key == block) for block in np.unique(key)]
    found = []
    for _ in range(draws):
        rows = np.concatenate([rows_of[i] for i in generator.integers(0, len(rows_of), len(rows_of))])
        found.append(np.exp(_optimise(regressor.form, start, cells[rows], times[rows]).x))
    ends = np.percentile(np.array(found), [2.5, 97.5], axis=0)
    return {name: (float(ends[0, i]), float(ends[1, i])) for i, name in enumerate(names)}


#: Factors by which a parameter is moved while all others are fitted anew, up to where it is not told.
_FACTORS = (1.01, 1.03, 1.1, 1.3, 2.0, 3.2, 10.0, 100.0, 1000.0)
#: A parameter that may be moved by this factor without harm is not told.
_UNTOLD_FACTOR = _WIDEST_INTERVAL**0.5
_BISECTIONS = 4
#: 95 % of chi squared with one degree of freedom.
_CHI_SQUARED = 3.841
#: Measured times are never better than this share, whatever a fit to few cells leaves.
_FINEST_RESIDUAL = 0.003


def profile_intervals(regressor: MaxRateRegressor, cells: Array, times: Array) -> dict[str, tuple[float, float] | None]:
    """Return what the data tell of each parameter, by profile likelihood.

    A parameter is moved away from its fitted value, all others are fitted anew, and it is told
    where the fit then gets worse on both sides by more than noise explains. Data at one number
    of processes, for example, determine ``min(r_n, k r_c)`` and neither of the two.

    Parameters
    ----------
    regressor : MaxRateRegressor
        A fitted regressor.
    cells : ndarray of float64, shape (cells, 2)
        Size in bytes and processes.
    times : ndarray of float64, shape (cells,)
        Times in s.

    Returns
    -------
    dict
        95 % interval by parameter; None where the data do not tell it: the interval would span
        a factor of 10 or more.

    References
    ----------
    Raue et al., "Structural and practical identifiability analysis ... by exploiting the
    profile likelihood", Bioinformatics 2009. Cells of one number of processes err together:
    the likelihood is divided by their design effect (Kish 1965).

    Examples
    --------
    >>> size = 2.0 ** np.arange(4, 20)
    >>> X = np.column_stack([size, np.full(16, 8.0)])
    >>> y = predict_time("maxrate", {"s": 3e-6, "r_n": 6e9, "r_c": 3e9}, X[:, 0], X[:, 1])
    >>> profile_intervals(MaxRateRegressor("maxrate").fit(X, y), X, y)["r_n"] is None
    True
    """
    names = FORMS[regressor.form].parameters
    best = np.log([regressor.parameters_[name] for name in names])
    residual = np.log(regressor.predict(cells) / times)
    freedom = max(1, times.size - len(names))
    variance = max(2 * regressor.cost_ / freedom, _FINEST_RESIDUAL**2)
    limit = regressor.cost_ + _CHI_SQUARED / 2 * variance * _design_effect(residual, cells[:, 1])
    first = _first_start(names, cells, times)
    found: dict[str, tuple[float, float] | None] = {}
    for column, name in enumerate(names):
        ends = [_profile_end(regressor.form, best, first, column, sign, limit, cells, times) for sign in (-1.0, 1.0)]
        told = all(end is not None for end in ends)
        value = regressor.parameters_[name]
        found[name] = (value * float(np.exp(-ends[0])), value * float(np.exp(ends[1]))) if told else None  # type: ignore[arg-type,operator]
    return found


def _design_effect(residual: Array, block: Array) -> float:
    """Return by how much cells that err together count less than independent ones."""
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
    form: str, best: Array, first: Array, column: int, sign: float, limit: float, cells: Array, times: Array
) -> float | None:
    """Return how far, in logs, a parameter can be moved without harm; None where it is not told."""
    names = FORMS[form].parameters
    low, high = np.log(_BOUNDS[names[column][0]])
    warm = best

    def harmless(distance: float) -> bool:
        nonlocal warm
        fixed = best[column] + sign * distance
        fits = [_optimise(form, start, cells, times, fixed=(column, fixed)) for start in (warm, best, first)]
        fit = min(fits, key=lambda one: float(one.cost))
        warm = np.insert(fit.x, column, fixed)
        return bool(fit.cost <= limit)

    inside, outside = 0.0, None
    for factor in _FACTORS:
        distance = float(np.log(factor))
        if not low < best[column] + sign * distance < high:
            # The bound of the fit is met before any harm: nothing holds the parameter on this side.
            if outside is None:
                return None
            break
        if harmless(distance):
            inside, outside = distance, None
        elif outside is None:
            outside = distance
        if inside >= np.log(_UNTOLD_FACTOR):
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


def told_intervals(
    regressor: MaxRateRegressor,
    cells: Array,
    times: Array,
    *,
    draws: int,
    generator: np.random.Generator,
) -> dict[str, tuple[float, float] | None]:
    """Return 95 % intervals of the parameters that the data tell, None for the others.

    Parameters
    ----------
    regressor : MaxRateRegressor
        A fitted regressor.
    cells, times : ndarray of float64
        What it was fitted to.
    draws : int
        Bootstrap draws.
    generator : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    dict
        The wider of profile and bootstrap on each side; None where either spans a factor of 10.
    """
    profile = profile_intervals(regressor, cells, times)
    drawn = bootstrap_intervals(regressor, cells, times, draws=draws, generator=generator)
    found: dict[str, tuple[float, float] | None] = {}
    for name, own in profile.items():
        low, high = drawn[name]
        joint = None if own is None else (min(own[0], low), max(own[1], high))
        found[name] = None if joint is None or joint[1] > joint[0] * _WIDEST_INTERVAL else joint
    return found
