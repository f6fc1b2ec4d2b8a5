"""Fits of the max-rate models in the numbers of processes at which they switch.

``min(r_n, r_b + (k - 1) r_i)`` is ``r_b + (min(k, k_n) - 1) r_i`` with the number of processes ``k_n`` from which
on the node limits. Between two measured numbers of processes nothing switches: there times are smooth in all
parameters, and a fit comes to the same place whatever the last digits of the arithmetic. Across the switches, where an
optimiser of smooth functions stops anywhere, a fit goes from interval to interval as long as it gets better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.maxrate.kernels.fits import FORM_CODES, PARAMETERS, Cells, Piece, fit_piece
from fabricast.maxrate.models import FORMS

__all__ = ["BOUNDS", "SWITCHED", "Array", "SwitchedFit", "fit_switched"]

Array = NDArray[np.float64]
_Interval = tuple[float, float]

#: Bounds by the first letter of a parameter.
BOUNDS = {"s": (1e-10, 1e-2), "r": (1e6, 1e13), "k": (0.5, 1e3)}
#: Parameters of each form in a fit: `r_n` and the `s0` of the latency term follow from where the form switches.
SWITCHED = {
    "postal": ("s", "r_c"),
    "maxrate": ("s", "r_c", "k_n"),
    "refined": ("s", "r_b", "r_i", "k_n"),
    "refined_latency": ("s1", "s2", "k_s", "r_b", "r_i", "k_n"),
    "overload": ("s0", "s1", "s2", "k0", "r_x", "r_b", "r_i", "k_n"),
}
#: Parameters that follow, the switch behind each, and the parameter that follows in its stead when it is held.
_FOLLOWS = {
    "maxrate": {"r_n": ("k_n", "r_c")},
    "refined": {"r_n": ("k_n", "r_i")},
    "refined_latency": {"r_n": ("k_n", "r_i"), "s0": ("k_s", "s2")},
    "overload": {"r_n": ("k_n", "r_i")},
}
#: Residuals of logs beyond which the loss grows linearly.
_SOFT = 0.1
#: Relative change of the cost below which a fit in one interval stops.
_TOLERANCE, _MOST_EVALUATIONS = 1e-9, 200
#: The switch of a start-up time, by form.
_START_UP_SWITCH = {"refined_latency": "k_s", "overload": "k0"}
_NUMBER_OF = {name: number for number, name in enumerate(PARAMETERS)}
#: Another interval is better if its cost is less by more than rounding.
_BETTER = 1 - 1e-6
#: Where a held start-up time meets the latency term, or a held rate that of the node, before the first process.
_LEAST_SWITCH = 1e-3
#: No switch is at one process or below it where a held rate divides by the processes beyond the first.
_BEYOND_ONE = 1 + 1e-6


@dataclass(frozen=True)
class SwitchedFit:
    """A fit.

    Parameters
    ----------
    parameters : dict of str to float
        Parameters of the form in s, bytes/s and processes.
    cost : float
        Half the sum of the soft residuals.
    """

    parameters: dict[str, float]
    cost: float


class _Interim(NamedTuple):
    """A fit within one interval of each switch: its cost, the logs of the free parameters, and all values."""

    cost: float
    logs: Array
    values: dict[str, float]


def fit_switched(
    form: str, cells: Array, times: Array, start: Mapping[str, float], *, held: tuple[str, float] | None = None
) -> SwitchedFit:
    """Fit a form from a start, all parameters or all but one that is held.

    Parameters
    ----------
    form : str
        Key of `fabricast.maxrate.models.FORMS`.
    cells : ndarray of float64, shape (cells, 2)
        Size in bytes and processes.
    times : ndarray of float64, shape (cells,)
        Times in s, positive.
    start : mapping of str to float
        Parameters of the form, in s, bytes/s and processes.
    held : (str, float), optional
        A parameter of the form and the value that it keeps.

    Returns
    -------
    SwitchedFit
        The best fit on the way. Where data do not tell a parameter, it stays where it started; a rate of the node
        that no cell meets is that at the most processes.

    Examples
    --------
    >>> size, k = np.meshgrid(2.0 ** np.arange(4, 20), np.arange(1.0, 9.0))
    >>> X = np.column_stack([size.ravel(), k.ravel()])
    >>> y = 3e-6 + X[:, 1] * X[:, 0] / np.minimum(6e9, 2e9 * X[:, 1])
    >>> found = fit_switched("maxrate", X, y, {"s": 1e-6, "r_n": 2e10, "r_c": 1e9})
    >>> {name: f"{value:.3e}" for name, value in found.parameters.items()}
    {'s': '3.000e-06', 'r_n': '6.000e+09', 'r_c': '2.000e+09'}
    """
    fits = []
    for later_only in _start_up_cases(form, held):
        problem = _Problem(form, cells, times, held, later_only)
        fits.append(problem.best_interval(problem.values_of(start)))
    return min(fits, key=lambda fit: fit.cost)


def _start_up_cases(form: str, held: tuple[str, float] | None) -> tuple[bool, ...]:
    """Tell whether the latency term may be larger for all cells: a start-up time held below it then never applies."""
    return (False, True) if form == "refined_latency" and held is not None and held[0] == "s0" else (False,)


class _Problem:
    """Fits of a form to data, an interval of each switch at a time."""

    def __init__(
        self, form: str, cells: Array, times: Array, held: tuple[str, float] | None, later_only: bool = False
    ) -> None:
        self.form, self.later_only = form, later_only
        self.held, self.held_value = held or ("", np.nan)
        size, processes = np.ascontiguousarray(cells.T)
        self.cells = Cells(size, processes, np.log(times))
        self.known = np.unique(processes)
        follows = _FOLLOWS.get(form, {})
        #: The switch and the parameter that follow from a held one that is none of `SWITCHED`.
        nothing: tuple[str | None, str | None] = (None, None)
        self.switch, self.following = nothing if later_only else follows.get(self.held, nothing)
        self.intervals = {
            switch: found
            for switch in SWITCHED[form]
            if switch.startswith("k") and (found := self._intervals_of(switch)) and switch != self.held
        }
        fixed = {self.held, self.following} | {s for s in SWITCHED[form] if s[0] == "k" and s not in self.intervals}
        self.free = [parameter for parameter in SWITCHED[form] if parameter not in fixed]

    def _intervals_of(self, switch: str) -> list[_Interval]:
        """Return the intervals of a switch between measured numbers of processes, and those outside that matter."""
        low, high = BOUNDS["k"]
        first, last = float(self.known[0]), float(self.known[-1])
        inner = list(pairwise(self.known.tolist()))
        if switch == "k_s" and self.later_only:
            return []
        if switch == "k0":
            # Overload from the first process on is another rate for all.
            return [(low, first), *inner] if first > low else inner
        if switch == "k_n":
            # A node may be limited before the fewest processes measured; where, they do not tell. Below one process
            # it is where the rate of one is held above that of the node.
            before = [_LEAST_SWITCH] if self.held in ("r_b", "r_c") else []
            inner = list(pairwise(sorted({*before, 1.0, *self.known.tolist()})))
        if switch == self.switch:
            # What is held may be met at no measured number of processes, or at all.
            below = [(_LEAST_SWITCH, first)] if switch == "k_s" else []
            return [*below, *inner, (last, high)]
        return inner

    def values_of(self, parameters: Mapping[str, float]) -> dict[str, float]:
        """Return a start in the parameters of `SWITCHED`."""
        first, last = float(self.known[0]), float(self.known[-1])
        values = {name: value for name, value in parameters.items() if name in SWITCHED[self.form]}
        if self.form == "maxrate":
            values["k_n"] = parameters["r_n"] / parameters["r_c"]
        elif "r_n" in parameters:
            values["k_n"] = 1 + max(0.0, parameters["r_n"] - parameters["r_b"]) / max(parameters["r_i"], BOUNDS["r"][0])
        if self.form == "refined_latency":
            values["k_s"] = max(0.0, parameters["s0"] - parameters["s1"]) / max(parameters["s2"], BOUNDS["s"][0])
        for name, least in (("k_n", min(1.0, first)), ("k_s", first)):
            if name in values:
                values[name] = float(np.clip(values[name], least, last))
        if self.later_only:
            values["k_s"] = 0.0
        if self.held in SWITCHED[self.form]:
            values[self.held] = self.held_value
        return values

    def best_interval(self, values: dict[str, float]) -> SwitchedFit:
        """Go to the neighbouring interval with the best fit until none is better than here."""
        found: dict[tuple[int, ...], _Interim] = {}

        def fit(place: tuple[int, ...], logs: Array) -> _Interim:
            if place not in found:
                found[place] = self._fit_within(place, logs, values)
            return found[place]

        place = tuple(
            next((i for i, (_, high) in enumerate(own) if values[switch] <= high), len(own) - 1)
            for switch, own in self.intervals.items()
        )
        best = fit(place, np.log([values[name] for name in self.free]))
        counts = [len(own) for own in self.intervals.values()]
        while True:
            around = [
                (*place[:i], place[i] + step, *place[i + 1 :])
                for i, count in enumerate(counts)
                for step in (-1, 1)
                if 0 <= place[i] + step < count
            ]
            nearest = min(around, key=lambda other: fit(other, best.logs).cost, default=place)
            if not found[nearest].cost < best.cost * _BETTER:
                break
            place, best = nearest, found[nearest]
        return SwitchedFit(self._parameters_of(best.values), best.cost)

    def _fit_within(self, place: tuple[int, ...], logs: Array, values: Mapping[str, float]) -> _Interim:
        """Fit with every switch in one interval, where nothing switches."""
        within = {switch: own[i] for (switch, own), i in zip(self.intervals.items(), place, strict=True)}
        low, high = np.log([self._bounds_of(name, within) for name in self.free]).T
        after = {switch: within[switch][0] if switch in within else value for switch, value in values.items()}
        piece = Piece(
            FORM_CODES[self.form],
            after.get("k_n", np.inf),
            after.get(_START_UP_SWITCH.get(self.form, ""), np.inf),
            _NUMBER_OF[self.following] if self.following else -1,
            self.held_value,
        )
        all_values = np.array([values.get(name, np.nan) for name in PARAMETERS])
        free = np.array([_NUMBER_OF[name] for name in self.free], dtype=np.int64)
        at = np.clip(logs, low, high)
        cost, _ = fit_piece(
            piece, all_values, free, at, np.ascontiguousarray(low), np.ascontiguousarray(high), self.cells,
            _SOFT, _TOLERANCE, _MOST_EVALUATIONS,
        )  # fmt: skip
        return _Interim(cost, at, dict(zip(PARAMETERS, all_values.tolist(), strict=True)))

    def _bounds_of(self, name: str, within: Mapping[str, _Interval]) -> _Interval:
        low, high = within.get(name, BOUNDS[name[0]])
        if name == self.switch and self.following == "r_i":
            low = max(low, _BEYOND_ONE)
        if self.later_only and name == "s1":
            low = self.held_value
        # Below what is held: the following parameter is positive.
        if (self.following, name) in {("r_i", "r_b"), ("s2", "s1")}:
            high = self.held_value
        return low, high

    def _parameters_of(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the parameters of the form."""
        found = dict(values)
        if self.form == "maxrate":
            found["r_n"] = values["r_c"] * values["k_n"]
        elif values["k_n"] < 1:
            found["r_n"] = values["r_b"] * values["k_n"]
        else:
            found["r_n"] = values["r_b"] + (values["k_n"] - 1) * values["r_i"]
        if self.form == "refined_latency":
            found["s0"] = values["s1"] + values["k_s"] * values["s2"]
        if self.held:
            found[self.held] = self.held_value
        return {name: found[name] for name in FORMS[self.form].parameters}
