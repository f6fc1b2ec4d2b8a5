"""Predictions beside references, and their error statistics, for every study alike."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.seeds import stream

__all__ = ["COMMON_TOLERANCES", "compare", "error_bands", "share_interval", "share_intervals"]

_CASE = ["study", "case_id", "item", "quantity"]
#: Bands that every study reports beside its own tolerance.
COMMON_TOLERANCES = (0.05, 0.10, 0.15, 0.25)
#: Resamples that are multiplied at a time.
_BLOCK = 256


def compare(prediction: pd.DataFrame, reference: pd.DataFrame, *, tolerance: float) -> pd.DataFrame:
    """Put every prediction beside every reference of the same case, item and quantity.

    Parameters
    ----------
    prediction, reference : pandas.DataFrame
        Rows as in schema.sql.
    tolerance : float
        The study's tolerance.

    Returns
    -------
    pandas.DataFrame
        Rows of the table comparison; the relative error is
        ``(predicted - reference) / reference``.

    Raises
    ------
    ValueError
        If a reference is zero or units differ.

    Examples
    --------
    >>> case = {"study": ["pcie"], "case_id": ["g"], "item": [""], "quantity": ["rate"], "unit": ["bytes/s"]}
    >>> p = pd.DataFrame(case | {"model": ["m"], "value": [11.0]})
    >>> r = pd.DataFrame(case | {"kind": ["measured"], "origin": ["o"], "value": [10.0]})
    >>> row = compare(p, r, tolerance=0.15).iloc[0]
    >>> round(float(row["relative_error"]), 3), bool(row["within"])
    (0.1, True)
    """
    pairs = prediction.merge(reference, on=_CASE, suffixes=("_predicted", "_reference"))
    if not (pairs["unit_predicted"] == pairs["unit_reference"]).all():
        raise ValueError("prediction and reference have different units")
    if (pairs["value_reference"] == 0).any():
        raise ValueError("a reference is zero: it has no relative error")
    error = (pairs["value_predicted"] - pairs["value_reference"]) / pairs["value_reference"]
    return pairs[[*_CASE, "model", "kind", "origin"]].assign(
        predicted=pairs["value_predicted"],
        reference=pairs["value_reference"],
        relative_error=error,
        tolerance=tolerance,
        within=error.abs() <= tolerance,
    )


def share_interval(
    within: NDArray[np.bool_], case: NDArray[np.int64], *, resamples: int, generator: np.random.Generator
) -> tuple[float, float]:
    """Return the 95 % interval of a share, resampled by case.

    Communications of one graph err together, so whole graphs are drawn.

    Parameters
    ----------
    within : ndarray of bool, shape (comparisons,)
        Whether each comparison is within the band.
    case : ndarray of int64, shape (comparisons,)
        Case number of each comparison.
    resamples : int
        Number of bootstrap resamples.
    generator : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    (float, float)
        2.5th and 97.5th percentile.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> share_interval(np.ones(4, bool), np.arange(4), resamples=100, generator=rng)
    (1.0, 1.0)
    """
    numbers, compact = np.unique(case, return_inverse=True)
    hits = np.bincount(compact, weights=within)
    sizes = np.bincount(compact).astype(np.float64)
    shares = np.empty(resamples)
    for start in range(0, resamples, 64):
        stop = min(start + 64, resamples)
        counts = generator.multinomial(numbers.size, np.full(numbers.size, 1 / numbers.size), size=stop - start)
        shares[start:stop] = (counts @ hits) / (counts @ sizes)
    low, high = np.percentile(shares, [2.5, 97.5])
    return float(low), float(high)


def share_intervals(
    hits: NDArray[np.float64], sizes: NDArray[np.integer], counts: NDArray[np.uint8]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the 95 % intervals of many shares from one set of bootstrap draws.

    Parameters
    ----------
    hits : ndarray, shape (cases, shares)
        Comparisons within the band, of each case and share.
    sizes : ndarray, shape (cases, subsets)
        All comparisons of each case; the shares of a subset stand one after the other,
        equally many for each.
    counts : ndarray of uint8, shape (resamples, cases)
        How often each resample draws each case: Poisson counts of mean 1, which stand for
        drawing as many cases with replacement as there are.

    Returns
    -------
    (ndarray of float64, ndarray of float64), each of shape (shares,)
        2.5th and 97.5th percentiles; 0 and 1 where no resample draws a case of the share.

    Examples
    --------
    >>> counts = np.random.default_rng(1).poisson(1.0, size=(500, 40)).astype(np.uint8)
    >>> hits = np.array([[1.0], [0.0]] * 20)
    >>> low, high = share_intervals(hits, np.ones((40, 1)), counts)
    >>> bool(0.3 < low[0] < 0.5 < high[0] < 0.7)
    True
    """
    drawn_hits = np.empty((counts.shape[0], hits.shape[1]), dtype=np.float32)
    drawn = np.empty((counts.shape[0], sizes.shape[1]), dtype=np.float32)
    for start in range(0, counts.shape[0], _BLOCK):
        block = counts[start : start + _BLOCK].astype(np.float32)
        drawn_hits[start : start + _BLOCK] = block @ hits.astype(np.float32)
        drawn[start : start + _BLOCK] = block @ sizes.astype(np.float32)
    drawn = np.repeat(drawn, hits.shape[1] // sizes.shape[1], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (drawn_hits / drawn).astype(np.float64)
    # Resamples that draw no case of a small subset say nothing of its share.
    never = ~(drawn > 0).any(axis=0)
    shares[:, never] = 0.0
    low, high = np.nanpercentile(shares, [2.5, 97.5], axis=0)
    high[never] = 1.0
    return low, high


def error_statistics(error: NDArray[np.float64]) -> dict[str, float]:
    """Return number, median, 5th and 95th percentile, mean and largest absolute value of errors.

    Parameters
    ----------
    error : ndarray of float64, shape (comparisons,)
        Relative errors.

    Returns
    -------
    dict
        Columns n, median, p05, p95, mean_absolute, max_absolute of the table error_band.

    Examples
    --------
    >>> error_statistics(np.array([-0.2, 0.0, 0.1]))["max_absolute"]
    0.2
    """
    p05, median, p95 = np.percentile(error, [5, 50, 95]).tolist()
    absolute = np.abs(error)
    return {
        "n": error.size, "median": median, "p05": p05, "p95": p95,
        "mean_absolute": float(absolute.mean()), "max_absolute": float(absolute.max()),
    }  # fmt: skip


def error_bands(comparison: pd.DataFrame, *, resamples: int, seed: int) -> pd.DataFrame:
    """Summarise errors by model, kind and origin of reference, and tolerance.

    Parameters
    ----------
    comparison : pandas.DataFrame
        Rows of the table comparison of one study.
    resamples : int
        Bootstrap resamples behind each interval.
    seed : int
        Root seed.

    Returns
    -------
    pandas.DataFrame
        Rows of the table error_band, for the subset ``all`` and each quantity. Kinds
        of reference are never mixed.
    """
    rows = []
    for (study, model, kind, origin), group in comparison.groupby(["study", "model", "kind", "origin"], sort=True):
        own = set(group["tolerance"])
        subsets = {"all": group} | {str(q): part for q, part in group.groupby("quantity", sort=True)}
        for subset, part in subsets.items():
            error = part["relative_error"].to_numpy(dtype=np.float64)
            statistics = error_statistics(error)
            case = pd.factorize(part["case_id"], sort=True)[0]
            for tolerance in sorted(own | set(COMMON_TOLERANCES)):
                within = np.abs(error) <= tolerance
                purpose = f"{study}.{model}.{kind}.{origin}.{subset}.{tolerance}"
                low, high = share_interval(within, case, resamples=resamples, generator=stream(seed, purpose))
                rows.append(
                    {
                        "study": study, "model": model, "kind": kind, "origin": origin,
                        "tolerance": tolerance, "subset": subset, "share_within": within.mean(),
                        "share_within_low": low, "share_within_high": high, **statistics,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)
