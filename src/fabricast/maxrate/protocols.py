"""Fits with one parameter set per protocol and fitted protocol switch points."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabricast.maxrate.fitting import MaxRateRegressor, TimeRegressor
from fabricast.maxrate.models import FORMS

#: Form whose ranges are fitted fast enough to try all divisions.
_EXACT = "postal"
#: Ratio of times from which messages use a protocol for too large sizes.
_LATE = 1.3


class LateSwitch(NamedTuple):
    """Sizes that would be faster with the protocol of larger messages."""

    #: Size in bytes at which the lines of both protocols cross, and largest size of the earlier protocol.
    from_bytes: float
    to_bytes: float
    #: Time in s at the largest size, and that of the later protocol.
    time_s: float
    other_s: float

    @property
    def factor(self) -> float:
        """Ratio of the times at the largest size."""
        return self.time_s / self.other_s


class ProtocolRegressor(TimeRegressor):
    """Max-rate models for several ranges of message sizes.

    The switch points minimise the corrected Akaike information criterion of the log residuals: for the form ``postal``
    over all divisions of the sizes, for others step by step, each where it lowers the criterion most. They are
    properties of a run and not of the machine, because MPI libraries change them with the size of a job.

    Arguments: form: key of `fabricast.maxrate.models.FORMS`, the same in every range; protocols: largest number of
    ranges; starts: number of starting points of the fit of each range; random_state: seed of the starting points;
    breakpoints: known switch points in bytes; fitted if omitted; fewest_sizes: least number of message sizes of a
    range; breakpoints_: first size in bytes of every range except the first range; regressors_: fit of each range.
    """

    def __init__(
        self,
        form: str = "overload",
        protocols: int = 4,
        starts: int = 3,
        random_state: int = 0,
        breakpoints: list[float] | None = None,
        fewest_sizes: int = 2,
    ) -> None:
        self.form = form
        self.protocols = protocols
        self.starts = starts
        self.random_state = random_state
        self.breakpoints = breakpoints
        self.fewest_sizes = fewest_sizes

    def fit(self, X: ArrayLike, y: ArrayLike) -> ProtocolRegressor:  # noqa: N803
        """Fit switch points and parameters."""
        cells, times = self._checked(X, y)
        sizes = cells[:, 0]
        costs: dict[tuple[float, float], float] = {}

        def piece(low: float, high: float, starts: int) -> MaxRateRegressor:
            inside = (sizes >= low) & (sizes < high)
            return MaxRateRegressor(self.form, starts, self.random_state).fit(cells[inside], times[inside])

        def cost(part: tuple[float, float]) -> float:
            # One starting point is sufficient to compare switch points; the final fits use all starting points.
            if part not in costs:
                costs[part] = piece(*part, starts=1).cost_
            return costs[part]

        def criterion(cuts: list[float]) -> float:
            total = sum(cost(part) for part in _ranges(cuts, -np.inf, np.inf))
            free = len(FORMS[self.form].parameters) * (len(cuts) + 1) + len(cuts)
            return _corrected_akaike(total, sizes.size, free)

        distinct_sizes = np.unique(sizes)
        cuts = list(self.breakpoints or [])
        if self.breakpoints is None and self.form == _EXACT:
            divisions = _best_divisions(distinct_sizes, cost, self.protocols, self.fewest_sizes)
            cuts = min(divisions, key=criterion, default=[])
        elif self.breakpoints is None:
            lowest = criterion(cuts)
            while len(cuts) + 1 < self.protocols:
                options = []
                for low, high in _ranges(cuts, -np.inf, np.inf):
                    range_sizes = distinct_sizes[(distinct_sizes >= low) & (distinct_sizes < high)]
                    options += range_sizes[self.fewest_sizes : range_sizes.size - self.fewest_sizes + 1].tolist()
                candidates = [(criterion(sorted([*cuts, cut])), cut) for cut in options]
                if not candidates or min(candidates)[0] >= lowest:
                    break
                lowest, cut = min(candidates)
                insort(cuts, cut)
        self.breakpoints_ = cuts
        self.regressors_ = [piece(*part, starts=self.starts) for part in _ranges(cuts, -np.inf, np.inf)]
        return self

    def pieces(
        self, smallest_bytes: float = 0.0, largest_bytes: float = np.inf
    ) -> list[tuple[float, float, MaxRateRegressor]]:
        """Return first size, size behind the last one, and fit of each range within some limits."""
        ranges = _ranges(self.breakpoints_, smallest_bytes, largest_bytes)
        return [(*sizes, regressor) for sizes, regressor in zip(ranges, self.regressors_, strict=True)]

    def _predict(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        time = np.empty(cells.shape[0])
        which = np.searchsorted(self.breakpoints_, cells[:, 0], side="right")
        for number, regressor in enumerate(self.regressors_):
            if (which == number).any():
                time[which == number] = regressor.predict(cells[which == number])
        return time


def late_switch(split: ProtocolRegressor, sizes: NDArray[np.float64]) -> LateSwitch | None:
    """Return the switch of protocols of a process that comes latest in relation to the crossing of their lines.

    >>> size = 2.0 ** np.arange(20)
    >>> time = np.where(size < 2**18, 1e-6 + size / 9e9, 3e-6 + size / 25e9)
    >>> split = ProtocolRegressor("postal").fit(np.column_stack([size, np.ones(20)]), time)
    >>> found = late_switch(split, size)
    >>> round(found.from_bytes), int(found.to_bytes), round(found.factor, 2)
    (32768, 131072, 1.89)
    """
    found: list[LateSwitch] = []
    cuts = [float(sizes.min()), *split.breakpoints_]
    for first, cut, one, other in zip(cuts, cuts[1:], split.regressors_, split.regressors_[1:], strict=False):
        before = sizes[sizes < cut]
        if not before.size:
            continue
        last = np.array([[float(before.max()), 1.0]])
        time_s, other_s = float(one.predict(last)[0]), float(other.predict(last)[0])
        slower = 1 / one.parameters_["r_c"] - 1 / other.parameters_["r_c"]
        if time_s > _LATE * other_s and slower > 0:
            # The line of the earlier protocol says nothing about sizes below its first.
            crossing = max((other.parameters_["s"] - one.parameters_["s"]) / slower, first)
            found.append(LateSwitch(float(sizes[sizes >= crossing].min()), float(before.max()), time_s, other_s))
    return max(found, key=lambda switch: switch.factor, default=None)


def _best_divisions(
    sizes: NDArray[np.float64], cost: Callable[[tuple[float, float]], float], most: int, fewest: int
) -> list[list[float]]:
    """Return the switch points of least total cost for each number of ranges up to `most`.

    Dynamic program: the best division of the first sizes into k ranges is that of fewer sizes into k - 1, and another.
    """
    ends = [-np.inf, *sizes[1:].tolist(), np.inf]
    best: list[dict[int, tuple[float, list[float]]]] = [{0: (0.0, [])}]
    for _ in range(min(most, sizes.size // fewest)):
        longer: dict[int, tuple[float, list[float]]] = {}
        for first, (total, cuts) in best[-1].items():
            for last in range(first + fewest, sizes.size + 1):
                found = total + cost((ends[first], ends[last]))
                if last not in longer or found < longer[last][0]:
                    longer[last] = found, [*cuts, ends[first]] if first else cuts
        best.append(longer)
    return [reached[sizes.size][1] for reached in best[1:] if sizes.size in reached]


def _ranges(cuts: list[float], first: float, last: float) -> list[tuple[float, float]]:
    """Return the ranges that some switch points make of the sizes from `first` to below `last`."""
    return list(zip([first, *cuts], [*cuts, last], strict=True))


def _corrected_akaike(cost: float, cells: int, parameters: int) -> float:
    penalty = 2 * parameters * (parameters + 1) / max(1, cells - parameters - 1)
    return cells * float(np.log(max(2 * cost / cells, 1e-12))) + 2 * parameters + penalty
