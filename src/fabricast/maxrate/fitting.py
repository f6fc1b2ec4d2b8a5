"""Robust fits of the max-rate models, as a scikit-learn estimator, and what the data can tell.

Plain least squares in seconds fits only the largest messages, and the minimum in the
models makes local optima: residuals are logarithms, the loss is soft, starts are many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fabricast.errors import InputError
from fabricast.maxrate.models import FORMS, predict_time

__all__ = ["ErrorSummary", "MaxRateRegressor", "bootstrap_intervals", "identifiable_parameters", "summarise"]

_BOUNDS = {"s": (1e-9, 1e-2), "r": (1e6, 1e13)}
_STARTS = {"s": (3e-7, 1e-5), "r": (2e8, 5e10)}
_SOFT = 0.1
#: A parameter whose 95 % interval spans more than this factor is not told by the data.
_WIDEST_INTERVAL = 10.0


class MaxRateRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
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
        Fitted value of each parameter, in s and bytes/s.
    cost_ : float
        Cost of the fit.
    starts_reached_ : int
        Starts that ended within 0.1 % of the lowest cost.
    jacobian_ : ndarray, shape (cells, parameters)
        Derivatives of the log time by the log parameters.

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

    def fit(self, X: ArrayLike, y: ArrayLike) -> MaxRateRegressor:  # noqa: N803  scikit-learn's name
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
        cells, times = validate_data(self, X, y, dtype=np.float64)
        _check(cells, times)
        names = FORMS[self.form].parameters
        log_time = np.log(times)
        low = np.log([_BOUNDS[name[0]][0] for name in names])
        high = np.log([_BOUNDS[name[0]][1] for name in names])

        def residual(logs: NDArray[np.float64]) -> NDArray[np.float64]:
            values = dict(zip(names, np.exp(logs), strict=True))
            modelled: NDArray[np.float64] = np.log(predict_time(self.form, values, cells[:, 0], cells[:, 1]))
            modelled -= log_time
            return modelled

        generator = np.random.default_rng(self.random_state)
        results = []
        for _ in range(self.starts):
            start = [generator.uniform(*np.log(_STARTS[name[0]])) for name in names]
            results.append(least_squares(residual, start, bounds=(low, high), loss="soft_l1", f_scale=_SOFT))
        best = min(results, key=lambda result: float(result.cost))
        self.parameters_ = dict(zip(names, np.exp(best.x).tolist(), strict=True))
        self.cost_ = float(best.cost)
        self.starts_reached_ = int(sum(result.cost <= best.cost * 1.001 + 1e-12 for result in results))
        self.jacobian_ = best.jac
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
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
        cells = validate_data(self, X, reset=False, dtype=np.float64)
        return predict_time(self.form, self.parameters_, cells[:, 0], cells[:, 1])

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

    def __sklearn_tags__(self):  # type: ignore[no-untyped-def]
        """Tell scikit-learn that sizes, processes and times are positive."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.positive_only = True
        return tags


def _check(cells: NDArray[np.float64], times: NDArray[np.float64]) -> None:
    if cells.shape[1] != 2:
        raise ValueError(f"X has {cells.shape[1]} features, expected 2: size in bytes and processes")
    if (cells[:, 0] < 0).any() or (cells[:, 1] < 1).any():
        raise ValueError("sizes must not be negative and processes at least 1")
    if (times <= 0).any():
        raise ValueError("times must be positive")


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


def summarise(modelled: NDArray[np.float64], measured: NDArray[np.float64]) -> ErrorSummary:
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


def bootstrap_intervals(
    regressor: MaxRateRegressor,
    cells: NDArray[np.float64],
    times: NDArray[np.float64],
    *,
    draws: int,
    generator: np.random.Generator,
) -> dict[str, tuple[float, float]]:
    """Return 95 % intervals of the parameters; whole numbers of processes are drawn.

    Cells of one number of processes err together, so blocks are resampled, not cells.

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

    Returns
    -------
    dict
        Lower and upper end by parameter.
    """
    names = FORMS[regressor.form].parameters
    low = np.log([_BOUNDS[name[0]][0] for name in names])
    high = np.log([_BOUNDS[name[0]][1] for name in names])
    start = np.clip(np.log([regressor.parameters_[name] for name in names]), low + 1e-9, high - 1e-9)
    blocks = [np.flatnonzero(cells[:, 1] == k) for k in np.unique(cells[:, 1])]
    found = []
    for _ in range(draws):
        rows = np.concatenate([blocks[i] for i in generator.integers(0, len(blocks), len(blocks))])
        size, processes, log_time = cells[rows, 0], cells[rows, 1], np.log(times[rows])

        def residual(
            logs: NDArray[np.float64],
            size: NDArray[np.float64] = size,
            processes: NDArray[np.float64] = processes,
            log_time: NDArray[np.float64] = log_time,
        ) -> NDArray[np.float64]:
            values = dict(zip(names, np.exp(logs), strict=True))
            modelled: NDArray[np.float64] = np.log(predict_time(regressor.form, values, size, processes))
            return modelled - log_time

        found.append(np.exp(least_squares(residual, start, bounds=(low, high), loss="soft_l1", f_scale=_SOFT).x))
    ends = np.percentile(np.array(found), [2.5, 97.5], axis=0)
    return {name: (float(ends[0, i]), float(ends[1, i])) for i, name in enumerate(names)}


def identifiable_parameters(
    regressor: MaxRateRegressor, cells: NDArray[np.float64], intervals: dict[str, tuple[float, float]]
) -> list[str]:
    """Return the parameters that the data determine.

    Parameters
    ----------
    regressor : MaxRateRegressor
        A fitted regressor.
    cells : ndarray of float64, shape (cells, 2)
        What it was fitted to.
    intervals : dict
        Bootstrap intervals.

    Returns
    -------
    list of str
        Those whose column of the Jacobian is not null and whose interval spans less than a
        factor of 10. The node's rate also needs processes beyond the knee, the increment at
        least two numbers of processes before it.
    """
    value = regressor.parameters_
    counts = np.unique(cells[:, 1])
    found = []
    for column, name in enumerate(FORMS[regressor.form].parameters):
        low, high = intervals[name]
        if np.abs(regressor.jacobian_[:, column]).max() < 1e-6 or high > low * _WIDEST_INTERVAL:
            continue
        if "r_b" in value:
            rate = value["r_b"] + (counts - 1) * value["r_i"]
            # On the limit itself data cannot tell the node's rate from the next process's.
            if name == "r_n" and rate.max() <= value["r_n"] * 1.02:
                continue
            if name == "r_i" and (rate < value["r_n"]).sum() < 2:
                continue
        elif name == "r_n" and (counts * value["r_c"]).max() <= value["r_n"] * 1.02:
            continue
        found.append(name)
    return found
