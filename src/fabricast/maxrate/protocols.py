"""Fits with one parameter set for each protocol, switch points found in the data."""

from __future__ import annotations

from bisect import insort

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabricast.maxrate.fitting import MaxRateRegressor, TimeRegressor
from fabricast.maxrate.models import FORMS

__all__ = ["ProtocolRegressor"]

_FEWEST_SIZES = 2


class ProtocolRegressor(TimeRegressor):
    """One max-rate model for each range of message sizes.

    Switch points are added one at a time, each where the corrected Akaike criterion on the
    log residuals falls most, until it falls no more; they belong to the run, not to the
    machine, because libraries move them with the size of a job.

    Parameters
    ----------
    form : str, default 'overload'
        Key of `fabricast.maxrate.models.FORMS`, the same in every range.
    protocols : int, default 4
        Most ranges.
    starts : int, default 3
        Starts of the fit of each range.
    random_state : int, default 0
        Seed of the starts.
    breakpoints : list of float, optional
        Switch points in bytes, if they are known; they are then not sought.

    Attributes
    ----------
    breakpoints_ : list of float
        First size of every range but the first, in bytes.
    regressors_ : list of MaxRateRegressor
        Fit of each range.
    """

    def __init__(
        self,
        form: str = "overload",
        protocols: int = 4,
        starts: int = 3,
        random_state: int = 0,
        breakpoints: list[float] | None = None,
    ) -> None:
        self.form = form
        self.protocols = protocols
        self.starts = starts
        self.random_state = random_state
        self.breakpoints = breakpoints

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
        cells, times = self._checked(X, y)
        sizes = cells[:, 0]
        costs: dict[tuple[float, float], float] = {}

        def piece(low: float, high: float, starts: int) -> MaxRateRegressor:
            inside = (sizes >= low) & (sizes < high)
            return MaxRateRegressor(self.form, starts, self.random_state).fit(cells[inside], times[inside])

        def cost(part: tuple[float, float]) -> float:
            # One start tells well enough where to cut; the ranges found are fitted from all.
            if part not in costs:
                costs[part] = piece(*part, starts=1).cost_
            return costs[part]

        def ranges(cuts: list[float]) -> list[tuple[float, float]]:
            return list(zip([-np.inf, *cuts], [*cuts, np.inf], strict=True))

        def criterion(cuts: list[float]) -> float:
            total = sum(cost(part) for part in ranges(cuts))
            free = len(FORMS[self.form].parameters) * (len(cuts) + 1) + len(cuts)
            return _corrected_akaike(total, sizes.size, free)

        known = np.unique(sizes)
        cuts = list(self.breakpoints or [])
        if self.breakpoints is None:
            lowest = criterion(cuts)
            while len(cuts) + 1 < self.protocols:
                options = []
                for low, high in ranges(cuts):
                    own = known[(known >= low) & (known < high)]
                    options += own[_FEWEST_SIZES : own.size - _FEWEST_SIZES + 1].tolist()
                found = [(criterion(sorted([*cuts, cut])), cut) for cut in options]
                if not found or min(found)[0] >= lowest:
                    break
                lowest, cut = min(found)
                insort(cuts, cut)
        self.breakpoints_ = cuts
        self.regressors_ = [piece(*part, starts=self.starts) for part in ranges(cuts)]
        return self

    def _predict(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        time = np.empty(cells.shape[0])
        which = np.searchsorted(self.breakpoints_, cells[:, 0], side="right")
        for number, regressor in enumerate(self.regressors_):
            if (which == number).any():
                time[which == number] = regressor.predict(cells[which == number])
        return time


def _corrected_akaike(cost: float, cells: int, parameters: int) -> float:
    penalty = 2 * parameters * (parameters + 1) / max(1, cells - parameters - 1)
    return cells * float(np.log(max(2 * cost / cells, 1e-12))) + 2 * parameters + penalty
