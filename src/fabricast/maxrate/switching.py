"""Max-rate fits parametrised by the process counts at which the models switch.

``min(r_n, r_b + (k - 1) r_i)`` equals ``r_b + (min(k, k_n) - 1) r_i``, where ``k_n`` is the number of processes
above which the node limits the rate. If every switch point stays between two measured process counts, times are
smooth in all parameters, and the fit does not depend on rounding. At the interval borders the model is not smooth.
The fit therefore searches the neighbouring intervals until the cost no longer decreases.
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

Array = NDArray[np.float64]
_Interval = tuple[float, float]

#: Bounds by the first letter of a parameter.
BOUNDS = {"s": (1e-10, 1e-2), "r": (1e6, 1e13), "k": (0.5, 1e3)}
#: Fit parameters of each form. `r_n` and the `s0` of the latency term are derived from the switch points.
SWITCHED = {
    "postal": ("s", "r_c"),
    "maxrate": ("s", "r_c", "k_n"),
    "refined": ("s", "r_b", "r_i", "k_n"),
    "refined_latency": ("s1", "s2", "k_s", "r_b", "r_i", "k_n"),
    "overload": ("s0", "s1", "s2", "k0", "r_x", "r_b", "r_i", "k_n"),
}
#: Derived parameters by form: the switch point of each, and the parameter that is derived if it is fixed instead.
_FOLLOWS = {
    "maxrate": {"r_n": ("k_n", "r_c")},
    "refined": {"r_n": ("k_n", "r_i")},
    "refined_latency": {"r_n": ("k_n", "r_i"), "s0": ("k_s", "s2")},
    "overload": {"r_n": ("k_n", "r_i")},
}
#: Log residual above which the loss is linear.
_SOFT = 0.1
#: Relative change of the cost at which a fit in one interval stops, and its largest number of evaluations.
_TOLERANCE, _MOST_EVALUATIONS = 1e-9, 200
#: Switch point of the start-up time by form.
_START_UP_SWITCH = {"refined_latency": "k_s", "overload": "k0"}
_NUMBER_OF = {name: number for number, name in enumerate(PARAMETERS)}
#: Largest cost ratio at which another interval is considered better; excludes rounding errors.
_BETTER = 1 - 1e-6
#: Lower bound of a switch point if a start-up time or rate is fixed.
_LEAST_SWITCH = 1e-3
#: Lower bound of a switch point if the fixed rate is divided by the process count minus 1.
_BEYOND_ONE = 1 + 1e-6


@dataclass(frozen=True)
class SwitchedFit:
    """Result of a fit."""

    parameters: dict[str, float]  # Parameters of the form in s, bytes/s and processes
    cost: float  # Half the sum of the soft loss of all residuals


class _Interim(NamedTuple):
    """Fit within one interval of each switch point."""

    cost: float
    logs: Array
    values: dict[str, float]


def fit_switched(
    form: str, cells: Array, times: Array, start: Mapping[str, float], *, held: tuple[str, float] | None = None
) -> SwitchedFit:
    """Fit a form from a starting point, optionally with one fixed parameter.

    Shapes: cells (cells, 2); times (cells,).

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
    """Return the values of `later_only` to try.

    True: the latency term exceeds a fixed start-up time ``s0`` in all cells, so that ``s0`` never applies.
    """
    return (False, True) if form == "refined_latency" and held is not None and held[0] == "s0" else (False,)


class _Problem:
    """Fits of a form to data within one interval of each switch point."""

    def __init__(
        self, form: str, cells: Array, times: Array, held: tuple[str, float] | None, later_only: bool = False
    ) -> None:
        self.form, self.later_only = form, later_only
        self.held, self.held_value = held or ("", np.nan)
        size, processes = np.ascontiguousarray(cells.T)
        self.cells = Cells(size, processes, np.log(times))
        self.known = np.unique(processes)
        follows = _FOLLOWS.get(form, {})
        #: Switch point and derived parameter if the fixed parameter is not in `SWITCHED`.
        nothing: tuple[str | None, str | None] = (None, None)
        self.switch, self.following = nothing if later_only else follows.get(self.held, nothing)
        self.intervals = {
            switch: intervals
            for switch in SWITCHED[form]
            if switch.startswith("k") and (intervals := self._intervals_of(switch)) and switch != self.held
        }
        fixed = {self.held, self.following} | {s for s in SWITCHED[form] if s[0] == "k" and s not in self.intervals}
        self.free = [parameter for parameter in SWITCHED[form] if parameter not in fixed]

    def _intervals_of(self, switch: str) -> list[_Interval]:
        """Return the intervals of a switch point.

        These lie between measured process counts; intervals outside are included if they affect the times.
        """
        low, high = BOUNDS["k"]
        first, last = float(self.known[0]), float(self.known[-1])
        inner = list(pairwise(self.known.tolist()))
        if switch == "k_s" and self.later_only:
            return []
        if switch == "k0":
            # Overload below the first process count changes the rate of all cells.
            return [(low, first), *inner] if first > low else inner
        if switch == "k_n":
            # The node may limit below the smallest measured process count, but the data do not determine where. A
            # switch point below one process means that the fixed rate of one process exceeds that of the node.
            before = [_LEAST_SWITCH] if self.held in ("r_b", "r_c") else []
            inner = list(pairwise(sorted({*before, 1.0, *self.known.tolist()})))
        if switch == self.switch:
            # The fixed value may be reached above or below all measured process counts.
            below = [(_LEAST_SWITCH, first)] if switch == "k_s" else []
            return [*below, *inner, (last, high)]
        return inner

    def values_of(self, parameters: Mapping[str, float]) -> dict[str, float]:
        """Convert a starting point to the parameters of `SWITCHED`."""
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
        """Move to the best neighbouring interval until the cost no longer decreases."""
        fits: dict[tuple[int, ...], _Interim] = {}

        def fit(place: tuple[int, ...], logs: Array) -> _Interim:
            if place not in fits:
                fits[place] = self._fit_within(place, logs, values)
            return fits[place]

        place = tuple(
            next((i for i, (_, high) in enumerate(bounds) if values[switch] <= high), len(bounds) - 1)
            for switch, bounds in self.intervals.items()
        )
        # A start outside the bounds, such as a time of 0, begins at them.
        start = np.maximum([values[name] for name in self.free], np.finfo(np.float64).tiny)
        best = fit(place, np.log(start))
        counts = [len(bounds) for bounds in self.intervals.values()]
        while True:
            around = [
                (*place[:i], place[i] + step, *place[i + 1 :])
                for i, count in enumerate(counts)
                for step in (-1, 1)
                if 0 <= place[i] + step < count
            ]
            nearest = min(around, key=lambda other: fit(other, best.logs).cost, default=place)
            if not fits[nearest].cost < best.cost * _BETTER:
                break
            place, best = nearest, fits[nearest]
        return SwitchedFit(self._parameters_of(best.values), best.cost)

    def _fit_within(self, place: tuple[int, ...], logs: Array, values: Mapping[str, float]) -> _Interim:
        """Fit with every switch point in one interval, where the form is smooth."""
        within = {switch: bounds[i] for (switch, bounds), i in zip(self.intervals.items(), place, strict=True)}
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
            piece,
            all_values,
            free,
            at,
            np.ascontiguousarray(low),
            np.ascontiguousarray(high),
            self.cells,
            _SOFT,
            _TOLERANCE,
            _MOST_EVALUATIONS,
        )
        return _Interim(cost, at, dict(zip(PARAMETERS, all_values.tolist(), strict=True)))

    def _bounds_of(self, name: str, within: Mapping[str, _Interval]) -> _Interval:
        low, high = within.get(name, BOUNDS[name[0]])
        if name == self.switch and self.following == "r_i":
            low = max(low, _BEYOND_ONE)
        if self.later_only and name == "s1":
            low = self.held_value
        # Limit to the fixed value so that the derived parameter is positive.
        if (self.following, name) in {("r_i", "r_b"), ("s2", "s1")}:
            high = self.held_value
        return low, high

    def _parameters_of(self, values: Mapping[str, float]) -> dict[str, float]:
        """Convert fitted values to the parameters of the form."""
        parameters = dict(values)
        if self.form == "maxrate":
            parameters["r_n"] = values["r_c"] * values["k_n"]
        elif values["k_n"] < 1:
            parameters["r_n"] = values["r_b"] * values["k_n"]
        else:
            parameters["r_n"] = values["r_b"] + (values["k_n"] - 1) * values["r_i"]
        if self.form == "refined_latency":
            parameters["s0"] = values["s1"] + values["k_s"] * values["s2"]
        if self.held:
            parameters[self.held] = self.held_value
        return {name: parameters[name] for name in FORMS[self.form].parameters}
