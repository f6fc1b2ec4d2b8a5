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

from fabricast.core.errors import unknown_name
from fabricast.maxrate.models import FORMS, predict_time, time_and_gradient

__all__ = [
    "BOUNDS",
    "Array",
    "ErrorSummary",
    "MaxRateRegressor",
    "TimeRegressor",
    "blocked_predictions",
    "first_start",
    "optimise",
    "summarise",
]

#: Bounds and ranges of random starts by the first letter of a parameter.
BOUNDS = {"s": (1e-10, 1e-2), "r": (1e6, 1e13), "k": (0.5, 1e3)}
_STARTS = {"s": (3e-8, 1e-5), "r": (2e8, 5e10), "k": (2.0, 40.0)}
_SOFT = 0.1
#: Changes below which a fit stops: of the cost, relative, and of the logs of parameters.
_COST_TOLERANCE, _LOG_TOLERANCE, _MOST_EVALUATIONS = 1e-6, 1e-6, 60
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
            raise unknown_name("model", self.form, FORMS)
        cells, times = self._checked(X, y)
        names = FORMS[self.form].parameters
        generator = np.random.default_rng(self.random_state)
        # The first start is read off the data, the others are random.
        starts = [first_start(names, cells, times)]
        starts += [
            np.array([generator.uniform(*np.log(_STARTS[name[0]])) for name in names]) for _ in range(self.starts - 1)
        ]
        results = [optimise(self.form, start, cells, times) for start in starts]
        best = min(results, key=lambda result: float(result.cost))
        self.parameters_ = dict(zip(names, np.exp(best.x).tolist(), strict=True))
        self.cost_ = float(best.cost)
        self.starts_reached_ = int(sum(result.cost <= best.cost * 1.001 + 1e-12 for result in results))
        return self

    def _predict(self, cells: Array) -> Array:
        return predict_time(self.form, self.parameters_, cells[:, 0], cells[:, 1])


def first_start(names: tuple[str, ...], cells: Array, times: Array) -> Array:
    """Start-up from the fastest cell, rates from the largest rates of one process and of the node."""
    rate = cells[:, 0] * cells[:, 1] / times
    alone = rate[cells[:, 1] == cells[:, 1].min()].max()
    guess = {
        "s": times.min(), "s0": times.min(), "s1": times.min() / 100, "s2": times.min() / 10,
        "r_c": alone, "r_b": alone, "r_i": alone / 2, "r_n": rate.max(), "r_x": rate.max(),
        "k0": float(np.median(cells[:, 1])),
    }  # fmt: skip
    return np.log([np.clip(guess[name], *BOUNDS[name[0]]) for name in names])


def optimise(
    form: str, start: Array, cells: Array, times: Array, *, fixed: tuple[int, float] | None = None
) -> OptimizeResult:
    """Fit from a start, all parameters or all but one that is fixed (position and log of its value)."""
    names = FORMS[form].parameters
    free = [name for place, name in enumerate(names) if fixed is None or place != fixed[0]]
    held = {} if fixed is None else {names[fixed[0]]: float(np.exp(fixed[1]))}
    low, high = (np.log([BOUNDS[name[0]][end] for name in free]) for end in (0, 1))
    log_time = np.log(times)
    size, processes = cells[:, 0], cells[:, 1]
    if fixed is not None:
        start = np.delete(start, fixed[0])

    last: tuple[Array, Array, dict[str, Array], dict[str, float]] | None = None

    def evaluated(logs: Array) -> tuple[Array, dict[str, Array], dict[str, float]]:
        # The optimiser asks for residuals first and for the Jacobian at the same place after.
        nonlocal last
        if last is None or not np.array_equal(last[0], logs):
            values = held | dict(zip(free, np.exp(logs).tolist(), strict=True))
            last = logs.copy(), *time_and_gradient(form, values, size, processes), values
        return last[1:]

    def residual(logs: Array) -> Array:
        return np.log(evaluated(logs)[0]) - log_time

    def jacobian(logs: Array) -> Array:
        time, gradient, values = evaluated(logs)
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
