"""Fits across switches: derivatives, agreement with the models, and numbers that rounding does not decide."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricast.core.resources import published
from fabricast.maxrate.fitting import MaxRateRegressor, starting_points
from fabricast.maxrate.measurements import read_measurements
from fabricast.maxrate.models import FORMS, predict_time
from fabricast.maxrate.switching import SWITCHED, fit_switched, switched_time

FORM_NAMES = sorted(FORMS)
SEEDS = st.integers(0, 10**6)
SCALE = {"s": 1e-6, "r": 1e9, "k": 5.3}


def noisy_times(seed, form, processes=(1.0, 2.0, 3.0, 5.0, 8.0, 12.0), noise=0.03):
    """Cells and times of a random truth, with noise."""
    rng = np.random.default_rng(seed)
    truth = {name: SCALE[name[0]] * float(rng.uniform(0.5, 4)) for name in FORMS[form].parameters}
    size, k = np.meshgrid(2.0 ** np.arange(4, 22, 2), processes)
    cells = np.column_stack([size.ravel(), k.ravel()])
    times = predict_time(form, truth, cells[:, 0], cells[:, 1]) * rng.lognormal(0, noise, len(cells))
    return cells, times


def cost_of(form, parameters, cells, times):
    """Half the sum of soft residuals, by the definition of the models."""
    residual = np.log(predict_time(form, parameters, cells[:, 0], cells[:, 1]) / times)
    return 0.01 * float((np.sqrt(1 + (residual / 0.1) ** 2) - 1).sum())


@given(st.floats(1, 1e7), st.integers(1, 64), st.sampled_from(FORM_NAMES), SEEDS)
def test_derivatives_are_those_of_the_times(size, processes, form, seed):
    rng = np.random.default_rng(seed)
    values = {name: SCALE[name[0]] * rng.uniform(0.5, 2) for name in SWITCHED[form]}
    n, k = np.array([size]), np.array([float(processes)])
    beyond = {name: k > value for name, value in values.items() if name[0] == "k"}
    time, gradient = switched_time(form, values, beyond, n, k)
    assert set(gradient) == set(SWITCHED[form])
    for name, value in values.items():
        ends = [switched_time(form, {**values, name: value * (1 + h)}, beyond, n, k)[0][0] for h in (-1e-6, 1e-6)]
        slope = (ends[1] - ends[0]) / (2e-6 * value)
        assert gradient[name][0] * value == pytest.approx(slope * value, rel=1e-3, abs=1e-7 * time[0])


@settings(max_examples=15)
@given(SEEDS, st.sampled_from(FORM_NAMES))
def test_costs_are_those_of_the_models(seed, form):
    cells, times = noisy_times(seed, form)
    start = next(starting_points(form, cells, times, 1, np.random.default_rng(0)))
    fit = fit_switched(form, cells, times, start)
    assert list(fit.parameters) == list(FORMS[form].parameters)
    assert fit.cost == pytest.approx(cost_of(form, fit.parameters, cells, times), rel=1e-6)
    assert fit.cost <= cost_of(form, start, cells, times) * (1 + 1e-9)
    # No small step of any parameter is better, switches or not.
    for name in fit.parameters:
        for factor in (0.99, 1.01):
            moved = cost_of(form, {**fit.parameters, name: fit.parameters[name] * factor}, cells, times)
            assert moved >= fit.cost * (1 - 1e-3), (name, factor)


@settings(max_examples=10)
@given(SEEDS, st.sampled_from(FORM_NAMES), st.data())
def test_what_is_held_stays_and_costs_no_less(seed, form, data):
    cells, times = noisy_times(seed, form)
    name = data.draw(st.sampled_from(FORMS[form].parameters))
    best = MaxRateRegressor(form).fit(cells, times)
    for factor in (0.5, 2.0):
        value = best.parameters_[name] * factor
        fit = fit_switched(form, cells, times, best.parameters_, held=(name, value))
        assert fit.parameters[name] == value
        assert fit.cost >= best.cost_ * (1 - 1e-3)
        assert fit.cost == pytest.approx(cost_of(form, fit.parameters, cells, times), rel=1e-6)


@pytest.mark.parametrize("form", FORM_NAMES)
@pytest.mark.parametrize("dataset", ["lassen_spectrum_cpu", "alaska_ib"])
def test_the_last_digits_of_times_decide_nothing(dataset, form):
    data = read_measurements(published() / "maxrate_measurements.csv")
    rows = data[data["dataset"] == dataset]
    cells = rows[["size_bytes", "processes"]].to_numpy(dtype=float)
    times = rows["time_s"].to_numpy(dtype=float)
    other = times * (1 + 1e-13 * np.random.default_rng(7).standard_normal(times.size))
    one, two = (MaxRateRegressor(form).fit(cells, own) for own in (times, other))
    assert one.cost_ == pytest.approx(two.cost_, rel=1e-6)
    assert one.predict(cells) == pytest.approx(two.predict(cells), rel=1e-4)
