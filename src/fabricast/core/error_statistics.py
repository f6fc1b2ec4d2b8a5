"""Statistics of relative errors with bootstrap confidence intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

#: Error bands that every study reports in addition to its published tolerance.
COMMON_TOLERANCES = (0.05, 0.10, 0.15, 0.25)
#: Edges of bins of 1 %, with one open bin at each end.
_HISTOGRAM_EDGES = np.concatenate([[-np.inf], np.linspace(-0.6, 0.6, 121), [np.inf]])
#: Resamples per matrix product.
_BLOCK = 256


def error_histogram(error: NDArray[np.float64]) -> pd.DataFrame:
    """Count relative errors in bins of 1 % from -60 to 60 %, plus two open bins.

    >>> found = error_histogram(np.array([0.005, 0.007, -2.0]))
    >>> found[found["communications"] > 0].to_dict("list")
    {'bin': [0, 61], 'lower': [-inf, 0.0], 'upper': [-0.6, 0.01], 'communications': [1, 2]}
    """
    counts = np.histogram(error, bins=_HISTOGRAM_EDGES)[0]
    return pd.DataFrame(
        {
            "bin": np.arange(counts.size),
            "lower": np.round(_HISTOGRAM_EDGES[:-1], 10),
            "upper": np.round(_HISTOGRAM_EDGES[1:], 10),
            "communications": counts,
        }
    )


def draw_cases(cases: int, resamples: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """Draw bootstrap resamples of the cases.

    The errors of the comparisons of one case are correlated, so the bootstrap resamples whole cases.

    Shapes: result (resamples, cases).

    >>> draw_cases(7, 3, np.random.default_rng(1)).sum(axis=1).tolist()
    [7, 7, 7]
    """
    counts = np.empty((resamples, cases), dtype=np.uint8)
    for row in counts:
        row[:] = np.bincount(generator.integers(0, cases, size=cases), minlength=cases)
    return counts


def share_intervals(
    hits: NDArray[np.floating],
    sizes: NDArray[np.floating],
    counts: NDArray[np.uint8],
    cases: NDArray[np.integer] | slice = slice(None),
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bootstrap 95 % intervals of the share of errors within each band.

    All shares use the same resamples.

    Shapes: counts (resamples, cases).

    >>> counts = draw_cases(40, 500, np.random.default_rng(1))
    >>> hits = np.array([[1.0], [0.0]] * 20)
    >>> low, high = share_intervals(hits, np.ones((40, 1)), counts)
    >>> bool(0.3 < low[0] < 0.5 < high[0] < 0.7)
    True
    """
    drawn_hits = np.empty((counts.shape[0], hits.shape[1]))
    drawn = np.empty((counts.shape[0], sizes.shape[1]))
    # Integer sums below 2**24 are exact in single precision.
    hits, sizes = hits.astype(np.float32, copy=False), sizes.astype(np.float32, copy=False)
    for start in range(0, counts.shape[0], _BLOCK):
        # Block by block: the selection and conversion of all rows at once would copy most of the counts.
        block = counts[start : start + _BLOCK][:, cases].astype(np.float32)
        drawn_hits[start : start + _BLOCK] = block @ hits
        drawn[start : start + _BLOCK] = block @ sizes
    drawn = np.repeat(drawn, hits.shape[1] // sizes.shape[1], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = drawn_hits / drawn
    # Resamples without a case of a small subset have no share: 0/0 is NaN and is ignored below.
    never = ~(drawn > 0).any(axis=0)
    shares[:, never] = 0.0
    # Both functions agree on data without NaN; `percentile` is much faster.
    percentile = np.nanpercentile if np.isnan(shares).any() else np.percentile
    low, high = percentile(shares, [2.5, 97.5], axis=0)
    high[never] = 1.0
    return low, high


def error_statistics(error: NDArray[np.float64]) -> dict[str, float]:
    """Return summary statistics of relative errors.

    Shapes: error (comparisons,).

    >>> error_statistics(np.array([-0.2, 0.0, 0.1]))["max_absolute"]
    0.2
    """
    p05, median, p95 = np.percentile(error, [5, 50, 95]).tolist()
    absolute = np.abs(error)
    return {
        "n": error.size,
        "median": median,
        "p05": p05,
        "p95": p95,
        "mean_absolute": float(absolute.mean()),
        "max_absolute": float(absolute.max()),
    }
