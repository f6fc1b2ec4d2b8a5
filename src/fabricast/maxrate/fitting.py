"""Robust fits of the max-rate models as a scikit-learn estimator.

Least squares of times in s would fit only the largest messages, and the minimum in the models causes local
optima. Fits therefore use logarithmic residuals, a soft loss and a search over the switch points
(`fabricast.maxrate.switching`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.utils.validation import check_is_fitted, validate_data

from fabricast.core.errors import unknown_name
from fabricast.maxrate.models import FORMS, predict_time
from fabricast.maxrate.switching import BOUNDS, Array, fit_switched

__all__ = [
    "Array",
    "ErrorSummary",
    "MaxRateRegressor",
    "TimeRegressor",
    "blocked_predictions",
    "starting_points",
    "summarise",
]

#: Ranges of random starting points by the first letter of a parameter.
_STARTS = {"s": (3e-8, 1e-5), "r": (2e8, 5e10), "k": (2.0, 40.0)}
#: Ratio of costs that are considered equal.
_SAME_COST = 1 + 1e-4
_FOLDS = 4


class TimeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of time estimators: X is (size in bytes, processes), y is in s."""

    def _predict(self, cells: Array) -> Array:
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> Array:  # noqa: N803
        """Return predicted times.

        Parameters
        ----------
        X : array-like, shape (cells, 2)
            Message size in bytes and number of processes.

        Returns
        -------
        ndarray of float64, shape (cells,)
            Times in s.
        """
        check_is_fitted(self)
        return self._predict(validate_data(self, X, reset=False, dtype=np.float64))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: None = None) -> float:  # noqa: N803
        """Return one minus the median absolute relative error.

        Parameters
        ----------
        X : array-like, shape (cells, 2)
            Message size in bytes and number of processes.
        y : array-like, shape (cells,)
            Times in s.
        sample_weight : None
            Ignored.

        Returns
        -------
        float
            Score; 1 is a perfect fit.
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
        """Return scikit-learn tags: X and y are positive."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags


class MaxRateRegressor(TimeRegressor):
    """Max-rate model of k processes that each send n bytes, fitted to measurements.

    Parameters
    ----------
    form : str, default 'refined'
        Key of `fabricast.maxrate.models.FORMS`.
    starts : int, default 4
        Number of starting points; the fit with the lowest cost is kept.
    random_state : int, default 0
        Seed of the random starting points.

    Attributes
    ----------
    parameters_ : dict
        Fitted value of each parameter, in s, bytes/s and processes.
    cost_ : float
        Cost of the best fit.
    starts_reached_ : int
        Number of starting points whose fits are within 0.1 % of the lowest cost.

    Notes
    -----
    Rows of X are (size in bytes, processes); y is the positive time in s.

    Examples
    --------
    >>> size, k = np.meshgrid(2.0 ** np.arange(4, 20), np.arange(1.0, 9.0))
    >>> X = np.column_stack([size.ravel(), k.ravel()])
    >>> truth = {"s": 3e-6, "r_n": 6e9, "r_b": 3e9, "r_i": 1e9}
    >>> y = predict_time("refined", truth, X[:, 0], X[:, 1])
    >>> {name: f"{value:.2e}" for name, value in MaxRateRegressor().fit(X, y).parameters_.items()}
    {'s': '3.00e-06', 'r_n': '6.00e+09', 'r_b': '3.00e+09', 'r_i': '1.00e+09'}
    """

    def __init__(self, form: str = "refined", starts: int = 4, random_state: int = 0) -> None:
        self.form = form
        self.starts = starts
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> MaxRateRegressor:  # noqa: N803
        """Fit the parameters of the form.

        Parameters
        ----------
        X : array-like, shape (cells, 2)
            Message size in bytes and number of processes.
        y : array-like, shape (cells,)
            Times in s.

        Returns
        -------
        MaxRateRegressor
            Fitted estimator.
        """
        if self.form not in FORMS:
            raise unknown_name("model", self.form, FORMS)
        cells, times = self._checked(X, y)
        generator = np.random.default_rng(self.random_state)
        points = starting_points(self.form, cells, times, self.starts, generator)
        fits = [fit_switched(self.form, cells, times, point) for point in points]
        # Among equal costs choose the first fit, so that rounding does not affect the result.
        lowest = min(fit.cost for fit in fits)
        best = next(fit for fit in fits if fit.cost <= lowest * _SAME_COST)
        self.parameters_ = best.parameters
        self.cost_ = best.cost
        self.starts_reached_ = sum(fit.cost <= lowest * 1.001 + 1e-12 for fit in fits)
        return self

    def _predict(self, cells: Array) -> Array:
        return predict_time(self.form, self.parameters_, cells[:, 0], cells[:, 1])


def starting_points(
    form: str, cells: Array, times: Array, count: int, generator: np.random.Generator
) -> Iterator[dict[str, float]]:
    """Yield starting points of a fit.

    The first point is estimated from the data. Further points place the start-up switch at the smallest and
    largest process count, and the remaining points are random.

    Parameters
    ----------
    form : str
        Key of `fabricast.maxrate.models.FORMS`.
    cells : ndarray of float64, shape (cells, 2)
        Size in bytes and processes.
    times : ndarray of float64, shape (cells,)
        Times in s.
    count : int
        Number of starting points.
    generator : numpy.random.Generator
        Random generator of the random points.

    Yields
    ------
    dict of str to float
        Parameters of the form, in s, bytes/s and processes.
    """
    names = FORMS[form].parameters
    rate = cells[:, 0] * cells[:, 1] / times
    process_counts = np.unique(cells[:, 1])
    base_rate, fastest = rate[cells[:, 1] == process_counts[0]].max(), times.min()
    guess = {
        "s": fastest,
        "s0": fastest,
        "s1": fastest / 100,
        "s2": fastest / 10,
        "r_c": base_rate,
        "r_b": base_rate,
        "r_i": base_rate / 2,
        "r_n": rate.max(),
        "r_x": rate.max(),
        "k0": float(np.median(process_counts)),
    }
    first = {name: float(np.clip(guess[name], *BOUNDS[name[0]])) for name in names}
    points = [first]
    for switch in (float(process_counts[0]), float(process_counts[-1])):
        if form == "overload":
            points.append(first | {"k0": switch})
        elif form == "refined_latency":
            points.append(first | {"s0": first["s1"] + switch * first["s2"]})
    yield from points[:count]
    for _ in range(count - len(points)):
        yield {name: float(np.exp(generator.uniform(*np.log(_STARTS[name[0]])))) for name in names}


@dataclass(frozen=True)
class ErrorSummary:
    """Error statistics of a fit.

    Parameters
    ----------
    median, p90, largest : float
        Median, 90th percentile and maximum of the absolute relative errors.
    within_10 : float
        Share of cells with an error of at most 10 %.
    """

    median: float
    p90: float
    largest: float
    within_10: float


def summarise(modelled: Array, measured: Array) -> ErrorSummary:
    """Compute error statistics of modelled times.

    Parameters
    ----------
    modelled, measured : ndarray of float64, shape (cells,)
        Times in s.

    Returns
    -------
    ErrorSummary
        Statistics of the absolute value of ``modelled / measured - 1``.
    """
    error = np.abs(modelled / measured - 1)
    return ErrorSummary(
        float(np.median(error)), float(np.percentile(error, 90)), float(error.max()), float((error <= 0.1).mean())
    )


def blocked_predictions(regressor: TimeRegressor, cells: Array, times: Array, blocks: NDArray[np.generic]) -> Array:
    """Predict every cell by cross-validation with left-out blocks.

    Errors of cells in one block are correlated, so whole blocks are left out of the fit.

    Parameters
    ----------
    regressor : TimeRegressor
        Estimator that is fitted once per fold.
    cells, times : ndarray of float64
        Cells and times in s.
    blocks : ndarray, shape (cells,)
        Block of each cell, such as its number of processes or its job.

    Returns
    -------
    ndarray of float64, shape (cells,)
        Predicted times in s; NaN if there is only one block.
    """
    count = np.unique(blocks).size
    if count < 2:
        return np.full(times.size, np.nan)
    folds = GroupKFold(n_splits=min(_FOLDS, count))
    predicted: Array = cross_val_predict(regressor, cells, times, groups=blocks, cv=folds)
    return predicted
