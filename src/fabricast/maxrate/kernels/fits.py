"""Compiled max-rate fits: times, derivatives and bounded damped least squares.

`fabricast.maxrate.switching` selects the intervals of the switch points; these kernels fit one interval.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fabricast.runtime.compilation import allocation_free, njit

#: Array order of the parameters of all forms.
PARAMETERS = ("s", "s0", "s1", "s2", "k_s", "k0", "r_x", "r_c", "r_b", "r_i", "k_n")
_S, _S0, _S1, _S2, _K_S, _K0, _R_X, _R_C, _R_B, _R_I, _K_N = range(len(PARAMETERS))
FORM_CODES = {"postal": 0, "maxrate": 1, "refined": 2, "refined_latency": 3, "overload": 4}
_POSTAL, _MAXRATE, _, _LATENCY, _OVERLOAD = range(len(FORM_CODES))

#: Initial, smallest and largest damping relative to the largest curvature. Fits stop above the largest damping.
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-3, 1e-12, 1e12
#: Damping factors after a step that lowers the cost as predicted, and after a rejected step.
_LESS, _MORE = 0.1, 8.0
#: Longest step in logarithms of parameters; the quadratic approximation is invalid beyond it.
_LONGEST_STEP = 4.0


class Cells(NamedTuple):
    """Measured cells: bytes per process, sending processes, log of time in s."""

    size_bytes: np.ndarray
    processes: np.ndarray
    log_time: np.ndarray


class Piece(NamedTuple):
    """Form within one interval of each switch point, where it is smooth.

    ``node_after`` and ``start_up_after`` are the process counts above which the node limit and the second start-up
    term apply. ``held`` is the value of a fixed quantity, and ``following`` the index of the parameter that is
    derived from it, or -1.
    """

    form: int
    node_after: float
    start_up_after: float
    following: int
    held: float


@allocation_free(from_python=True)
def _cell_time(piece, values, n, k, slopes):
    """Return the time of a cell and write its derivatives by the parameters."""
    if piece.form == _POSTAL:
        slopes[_S] = 1.0
        slopes[_R_C] = -n / values[_R_C] ** 2
        return values[_S] + n / values[_R_C]
    if piece.form == _LATENCY:
        later = k > piece.start_up_after
        queued = k if later else values[_K_S]
        slopes[_S1] = 1.0
        slopes[_S2] = queued
        slopes[_K_S] = 0.0 if later else values[_S2]
        start = values[_S1] + queued * values[_S2]
    elif piece.form == _OVERLOAD:
        over = k > piece.start_up_after
        further = k - values[_K0] if over else 0.0
        each = values[_S2] + n / values[_R_X]
        slopes[_S0] = 1.0
        slopes[_S1] = k
        slopes[_S2] = further
        slopes[_K0] = -each if over else 0.0
        slopes[_R_X] = -further * n / values[_R_X] ** 2
        start = values[_S0] + k * values[_S1] + further * each
    else:
        slopes[_S] = 1.0
        start = values[_S]
    limited = k > piece.node_after
    sending = values[_K_N] if limited else k
    if piece.form == _MAXRATE:
        rate = values[_R_C] * sending
        slopes[_R_C] = sending
        slopes[_K_N] = values[_R_C] if limited else 0.0
    elif values[_K_N] < 1:
        # The node is slower than a single process: every process count is limited by the node.
        rate = values[_R_B] * values[_K_N]
        slopes[_R_B] = values[_K_N]
        slopes[_R_I] = 0.0
        slopes[_K_N] = values[_R_B]
    else:
        rate = values[_R_B] + (sending - 1) * values[_R_I]
        slopes[_R_B] = 1.0
        slopes[_R_I] = sending - 1
        slopes[_K_N] = values[_R_I] if limited else 0.0
    by_rate = -k * n / rate**2
    for parameter in range(_R_C, _K_N + 1):
        slopes[parameter] *= by_rate
    return start + k * n / rate


@allocation_free
def _follow(piece, values, by_others):
    """Set the parameter derived from the fixed one and write its derivatives."""
    by_others[:] = 0.0
    if piece.following == _R_C:
        values[_R_C] = piece.held / values[_K_N]
        by_others[_K_N] = -values[_R_C] / values[_K_N]
    elif piece.following == _R_I:
        beyond_first = values[_K_N] - 1
        values[_R_I] = (piece.held - values[_R_B]) / beyond_first
        by_others[_R_B] = -1 / beyond_first
        by_others[_K_N] = -values[_R_I] / beyond_first
    elif piece.following == _S2:
        values[_S2] = (piece.held - values[_S1]) / values[_K_S]
        by_others[_S1] = -1 / values[_K_S]
        by_others[_K_S] = -values[_S2] / values[_K_S]


@njit
def _evaluate(piece, values, free, logs, cells, soft, gradient, curvature):
    """Return the cost and write gradient and curvature by the log parameters."""
    slopes, by_others = np.zeros(len(PARAMETERS)), np.zeros(len(PARAMETERS))
    row = np.empty(free.size)
    for i in range(free.size):
        values[free[i]] = np.exp(logs[i])
    _follow(piece, values, by_others)
    gradient[:] = 0.0
    curvature[:] = 0.0
    cost = 0.0
    for cell in range(cells.size_bytes.size):
        time = _cell_time(piece, values, cells.size_bytes[cell], cells.processes[cell], slopes)
        if not time > 0:
            return np.inf
        residual = np.log(time) - cells.log_time[cell]
        spread = 1 + (residual / soft) ** 2
        root = np.sqrt(spread)
        cost += root - 1
        through = slopes[piece.following] if piece.following >= 0 else 0.0
        for i in range(free.size):
            slope = slopes[free[i]] + through * by_others[free[i]]
            row[i] = slope * values[free[i]] / time
        # First and second derivative of the soft loss, which is half the squared residual for small residuals.
        first, second = residual / root, 1 / (root * spread)
        for i in range(free.size):
            gradient[i] += first * row[i]
            scaled = second * row[i]
            for j in range(i + 1):
                curvature[i, j] += scaled * row[j]
    for i in range(free.size):
        for j in range(i):
            curvature[j, i] = curvature[i, j]
    return soft**2 * cost


@njit
def _solve(matrix, right, moving, step):
    """Solve for the moving parameters by Cholesky decomposition.

    Return False if the matrix is not positive definite.
    """
    count = right.size
    lower = np.zeros((count, count))
    for i in range(count):
        if not moving[i]:
            continue
        for j in range(i + 1):
            if not moving[j]:
                continue
            remainder = matrix[i, j]
            for m in range(j):
                remainder -= lower[i, m] * lower[j, m]
            if i != j:
                lower[i, j] = remainder / lower[j, j]
            elif remainder > 0:
                lower[i, i] = np.sqrt(remainder)
            else:
                return False
    for i in range(count):
        if moving[i]:
            remainder = right[i]
            for m in range(i):
                remainder -= lower[i, m] * step[m] if moving[m] else 0.0
            step[i] = remainder / lower[i, i]
    for i in range(count - 1, -1, -1):
        if moving[i]:
            remainder = step[i]
            for m in range(i + 1, count):
                remainder -= lower[m, i] * step[m] if moving[m] else 0.0
            step[i] = remainder / lower[i, i]
    return True


@njit
def _bounded_step(gradient, curvature, damping, logs, low, high, step):
    """Write the damped step within the bounds and return whether it exists.

    A parameter that would leave its bounds is clamped, and the system is solved again for the others.
    """
    count = logs.size
    damped = curvature.copy()
    moving = np.ones(count, dtype=np.bool_)
    for i in range(count):
        damped[i, i] += damping
        # A parameter at a bound stays there if the gradient points outwards.
        moving[i] = not ((logs[i] <= low[i] and gradient[i] >= 0) or (logs[i] >= high[i] and gradient[i] <= 0))
        step[i] = 0.0
    right = np.empty(count)
    for _ in range(count + 1):
        for i in range(count):
            right[i] = -gradient[i]
            for j in range(count):
                if not moving[j]:
                    right[i] -= damped[i, j] * step[j]
        if not moving.any():
            break
        if not _solve(damped, right, moving, step):
            return False
        stopped = False
        for i in range(count):
            if moving[i] and not low[i] <= logs[i] + step[i] <= high[i]:
                step[i] = (low[i] if step[i] < 0 else high[i]) - logs[i]
                moving[i] = False
                stopped = True
        if not stopped:
            break
    return True


@njit
def fit_piece(piece, values, free, logs, low, high, cells, soft, tolerance, most):
    """Minimise the soft cost over the logs of the free parameters, within bounds.

    Levenberg steps with the exact curvature of the loss (``soft_l1`` of SciPy's ``least_squares``). All parameters
    have the same damping, so that parameters not determined by the data keep their values. The fit stops if a step
    that meets its prediction lowers the cost by less than ``tolerance`` times the cost, or no step lowers it.

    ``values`` (all `PARAMETERS`) and ``logs`` are changed in place. Return the cost and the number of evaluations.
    """
    count = free.size
    gradient, curvature = np.empty(count), np.empty((count, count))
    next_gradient, next_curvature = np.empty(count), np.empty((count, count))
    step, moved = np.empty(count), np.empty(count)
    cost = _evaluate(piece, values, free, logs, cells, soft, gradient, curvature)
    largest = 0.0
    for i in range(count):
        largest = max(largest, curvature[i, i])
    damping, evaluations = _FIRST_DAMPING * largest, 1
    while evaluations < most and damping <= _MOST_DAMPING * largest:
        if not _bounded_step(gradient, curvature, damping, logs, low, high, step):
            damping *= _MORE
            continue
        predicted, longest = 0.0, 0.0
        for i in range(count):
            bent = 0.0
            for j in range(count):
                bent += curvature[i, j] * step[j]
            predicted -= step[i] * (gradient[i] + bent / 2)
            longest = max(longest, abs(step[i]))
            moved[i] = min(max(logs[i] + step[i], low[i]), high[i])
        if longest > _LONGEST_STEP:
            damping *= _MORE
            continue
        if predicted <= tolerance * tolerance * cost:
            break
        evaluations += 1
        next_cost = _evaluate(piece, values, free, moved, cells, soft, next_gradient, next_curvature)
        lowered = cost - next_cost
        if not lowered > 1e-4 * predicted:
            damping *= _MORE
            continue
        small = lowered <= tolerance * cost and lowered > predicted / 4 and damping <= _FIRST_DAMPING * largest
        if lowered > predicted / 4:
            damping = max(damping * _LESS, _LEAST_DAMPING * largest)
        cost = next_cost
        logs[:] = moved
        gradient[:] = next_gradient
        curvature[:] = next_curvature
        if small:
            break
    for i in range(count):
        values[free[i]] = np.exp(logs[i])
    _follow(piece, values, np.empty(len(PARAMETERS)))
    return cost, evaluations
