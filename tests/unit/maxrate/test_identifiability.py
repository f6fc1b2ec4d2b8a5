"""Tests of identifiable parameters with noise-free synthetic data for one, two and three numbers of processes."""

import numpy as np
import pytest

from fabricast.maxrate.fitting import MaxRateRegressor
from fabricast.maxrate.intervals import parameter_intervals, profile_intervals
from fabricast.maxrate.models import predict_time

SIZE = 2.0 ** np.arange(4, 22)
MAXRATE = {"s": 3e-6, "r_n": 6e9, "r_c": 3e9}
REFINED = {"s": 3e-6, "r_n": 6e9, "r_b": 3e9, "r_i": 1e9}


def identified(form, truth, counts):
    cells = np.concatenate([np.column_stack([SIZE, np.full(SIZE.size, float(count))]) for count in counts])
    times = predict_time(form, truth, cells[:, 0], cells[:, 1])
    regressor = MaxRateRegressor(form).fit(cells, times)
    intervals = profile_intervals(regressor, cells, times)
    for name, interval in intervals.items():
        if interval is not None:
            assert regressor.parameters_[name] == pytest.approx(truth[name], rel=0.02), name
            assert interval[0] <= truth[name] * 1.001 and truth[name] * 0.999 <= interval[1], name
    return {name for name, interval in intervals.items() if interval is not None}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((1,), {"s"}),
        ((8,), {"s"}),
        ((101,), {"s"}),
        ((200,), {"s"}),
        ((2000,), {"s"}),
        ((1, 8), {"s", "r_n", "r_c"}),
        ((4, 8), {"s", "r_n"}),
        ((1, 2, 8), {"s", "r_n", "r_c"}),
    ],
)
def test_parameters_of_the_max_rate_model(counts, expected):
    assert identified("maxrate", MAXRATE, counts) == expected


@pytest.mark.parametrize(
    ("counts", "expected"), [((16,), {"s"}), ((1, 8), {"s", "r_b"}), ((1, 2, 8), {"s", "r_n", "r_b", "r_i"})]
)
def test_parameters_of_the_refined_model(counts, expected):
    assert identified("refined", REFINED, counts) == expected


@pytest.mark.parametrize("counts", [(1, 16), (1, 4), (1, 2, 16)])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_two_or_three_numbers_of_processes_determine_both_rates(counts, noise):
    """Resamples must not contain one number of processes only, which determines no rate."""
    cells = np.concatenate([np.column_stack([SIZE, np.full(SIZE.size, float(count))]) for count in counts])
    times = predict_time("maxrate", MAXRATE, cells[:, 0], cells[:, 1])
    times *= np.exp(np.random.default_rng(3).normal(0, noise, times.size))
    regressor = MaxRateRegressor("maxrate").fit(cells, times)
    intervals = parameter_intervals(regressor, cells, times, draws=50, generator=np.random.default_rng(1))
    for name, truth in MAXRATE.items():
        low, high = intervals[name]
        assert low <= truth * 1.001 and truth * 0.999 <= high, name
        assert high < 1.15 * low, name
