"""Fits with one parameter set for each protocol, switch points found in the data."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fabricast.maxrate.fitting import MaxRateRegressor
from fabricast.maxrate.models import FORMS

__all__ = ["ProtocolRegressor"]

#: Sizes at which libraries are known to switch protocols, a factor of 4 apart.
_CANDIDATES = (512.0, 2048.0, 8192.0, 32768.0, 131072.0)
_FEWEST_SIZES = 2


class ProtocolRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """One max-rate model for each range of message sizes.

    The switch points and their number are those with the lowest corrected Akaike criterion
    on the log residuals; they belong to the run, not to the machine, because libraries move
    them with the size of a job.

    Parameters
    ----------
    form : str, default 'refined_latency'
        Key of `fabricast.maxrate.models.FORMS`, the same in every range.
    protocols : int, default 3
        Most ranges.
    starts : int, default 4
        Random starts of each fit.
    random_state : int, default 0
        Seed of the starts.

    Attributes
    ----------
    breakpoints_ : list of float
        First size of every range but the first, in bytes.
    regressors_ : list of MaxRateRegressor
        Fit of each range.
    """

    def __init__(
        self, form: str = "refined_latency", protocols: int = 3, starts: int = 4, random_state: int = 0
    ) -> None:
        self.form = form
        self.protocols = protocols
        self.starts = starts
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> ProtocolRegressor:  # noqa: N803  scikit-learn's name
        """Fit switch points and parameters.

        Parameters
        ----------
        X : array-like, shape (cells, 2)
            Size in bytes and processes.
        y : array-like, shape (cells,)
            Times in s.

        Returns
        -------
        ProtocolRegressor
            Itself.
        """
        cells, times = validate_data(self, X, y, dtype=np.float64)
        sizes = cells[:, 0]
        inner = [c for c in _CANDIDATES if np.unique(sizes[sizes < c]).size >= _FEWEST_SIZES
                 and np.unique(sizes[sizes >= c]).size >= _FEWEST_SIZES]  # fmt: skip
        edges = [-np.inf, *inner, np.inf]
        pieces: dict[tuple[int, int], tuple[float, MaxRateRegressor]] = {}
        for first, last in itertools.combinations(range(len(edges)), 2):
            inside = (sizes >= edges[first]) & (sizes < edges[last])
            if np.unique(sizes[inside]).size >= _FEWEST_SIZES:
                fitted = MaxRateRegressor(self.form, self.starts, self.random_state).fit(cells[inside], times[inside])
                pieces[first, last] = (fitted.cost_, fitted)
        best: tuple[float, tuple[int, ...]] | None = None
        for count in range(1, self.protocols + 1):
            for cuts in itertools.combinations(range(1, len(edges) - 1), count - 1):
                path = (0, *cuts, len(edges) - 1)
                if all(pair in pieces for pair in itertools.pairwise(path)):
                    cost = sum(pieces[pair][0] for pair in itertools.pairwise(path))
                    criterion = _corrected_akaike(
                        cost, sizes.size, count * len(FORMS[self.form].parameters) + count - 1
                    )
                    if best is None or criterion < best[0]:
                        best = (criterion, path)
        assert best is not None
        self.breakpoints_ = [edges[place] for place in best[1][1:-1]]
        self.regressors_ = [pieces[pair][1] for pair in itertools.pairwise(best[1])]
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
        time = np.empty(cells.shape[0])
        which = np.searchsorted(self.breakpoints_, cells[:, 0], side="right")
        for number, regressor in enumerate(self.regressors_):
            if (which == number).any():
                time[which == number] = regressor.predict(cells[which == number])
        return time

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: None = None) -> float:  # noqa: N803
        """Return one minus the median absolute relative error.

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


def _corrected_akaike(cost: float, cells: int, parameters: int) -> float:
    penalty = 2 * parameters * (parameters + 1) / max(1, cells - parameters - 1)
    return cells * float(np.log(max(2 * cost / cells, 1e-12))) + 2 * parameters + penalty
