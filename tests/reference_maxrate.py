"""Reference implementation of the max-rate fits with NumPy and SciPy."""

import numpy as np
from scipy.optimize import least_squares


def switched_time(form, values, beyond, size_bytes, processes):
    """Return the times of a form and their derivatives by the `SWITCHED` parameters."""
    n, k, one = size_bytes, processes, np.ones_like(processes)
    if form == "postal":
        return values["s"] + n / values["r_c"], {"s": one, "r_c": -n / values["r_c"] ** 2}
    start, gradient = _start_up(form, values, beyond, n, k)
    limited = beyond["k_n"]
    sending = np.where(limited, values["k_n"], k)
    if form == "maxrate":
        rate = values["r_c"] * sending
        slopes = {"r_c": sending, "k_n": values["r_c"] * limited}
    elif values["k_n"] < 1:
        # The node is slower than a single process: every process count is limited by the node.
        rate = np.full_like(k, values["r_b"] * values["k_n"])
        slopes = {"r_b": one * values["k_n"], "r_i": 0 * one, "k_n": values["r_b"] * one}
    else:
        rate = values["r_b"] + (sending - 1) * values["r_i"]
        slopes = {"r_b": one, "r_i": sending - 1, "k_n": values["r_i"] * limited}
    by_rate = -k * n / rate**2
    return start + k * n / rate, gradient | {name: by_rate * slope for name, slope in slopes.items()}


def _start_up(form, values, beyond, n, k):
    one = np.ones_like(k)
    if form == "refined_latency":
        later = beyond["k_s"]
        queued = np.where(later, k, values["k_s"])
        return values["s1"] + queued * values["s2"], {"s1": one, "s2": queued, "k_s": values["s2"] * ~later}
    if form == "overload":
        further = np.where(beyond["k0"], k - values["k0"], 0.0)
        each = values["s2"] + n / values["r_x"]
        return values["s0"] + k * values["s1"] + further * each, {
            "s0": one,
            "s1": k,
            "s2": further,
            "k0": -each * beyond["k0"],
            "r_x": -further * n / values["r_x"] ** 2,
        }
    return values["s"] * one, {"s": one}


def fitted_by_scipy(form, values, beyond, free, low, high, cells, times, soft):
    """Return the cost of a bounded SciPy fit of the free parameters from `values`."""
    names = list(free)

    def inside(logs):
        return values | dict(zip(names, np.exp(logs).tolist(), strict=True))

    def residuals(logs):
        return np.log(switched_time(form, inside(logs), beyond, *cells.T)[0] / times)

    def slopes(logs):
        parameters = inside(logs)
        time, gradient = switched_time(form, parameters, beyond, *cells.T)
        return np.stack([gradient[name] * parameters[name] / time for name in names], axis=1)

    start = np.clip(np.log([values[name] for name in names]), low, high)
    fit = least_squares(
        residuals,
        start,
        jac=slopes,
        bounds=(low, high),
        loss="soft_l1",
        f_scale=soft,
        ftol=1e-12,
        xtol=1e-12,
        gtol=1e-12,
        max_nfev=500,
    )
    return float(fit.cost)
