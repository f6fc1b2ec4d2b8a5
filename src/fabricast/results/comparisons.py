"""Comparison of predictions with references, and error statistics, for all studies."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

from fabricast.core.error_statistics import COMMON_TOLERANCES, draw_cases, error_statistics, share_intervals
from fabricast.core.seeds import random_generator

_CASE = ["study", "case_id", "item", "quantity"]


def compare(prediction: pd.DataFrame, reference: pd.DataFrame, *, tolerance: float) -> pd.DataFrame:
    """Compare each prediction with each reference of the same case, item and quantity.

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
        raise ValueError("a reference is 0, expected a nonzero value: its relative error is undefined")
    error = (pairs["value_predicted"] - pairs["value_reference"]) / pairs["value_reference"]
    return pairs[[*_CASE, "model", "kind", "origin"]].assign(
        predicted=pairs["value_predicted"],
        reference=pairs["value_reference"],
        relative_error=error,
        tolerance=tolerance,
        within=error.abs() <= tolerance,
    )


def error_bands(comparison: pd.DataFrame, *, resamples: int, seed: int) -> pd.DataFrame:
    """Summarise relative errors by model, kind and origin of reference, and tolerance."""
    rows = []
    for (study, model, kind, origin), group in comparison.groupby(["study", "model", "kind", "origin"], sort=True):
        tolerances = sorted(set(group["tolerance"]) | set(COMMON_TOLERANCES))
        error = group["relative_error"].to_numpy(dtype=np.float64)
        quantities = {str(name): (group["quantity"] == name).to_numpy() for name in sorted(set(group["quantity"]))}
        subsets = {"all": np.ones(error.size, dtype=np.bool_)} | quantities
        case = pd.factorize(group["case_id"], sort=True)[0]
        cases = int(case.max()) + 1
        sizes = np.stack([np.bincount(case[inside], minlength=cases) for inside in subsets.values()], axis=1)
        hits = np.stack(
            [
                np.bincount(case[inside], weights=np.abs(error[inside]) <= limit, minlength=cases).astype(np.float64)
                for inside in subsets.values()
                for limit in tolerances
            ],
            axis=1,
        )
        counts = draw_cases(cases, resamples, random_generator(seed, f"{study}.{model}.{kind}.{origin}"))
        low, high = share_intervals(hits, sizes.astype(np.float64), counts)
        for position, (subset, tolerance) in enumerate(product(subsets, tolerances)):
            errors = error[subsets[subset]]
            rows.append(
                {
                    "study": study,
                    "model": model,
                    "kind": kind,
                    "origin": origin,
                    "tolerance": tolerance,
                    "subset": subset,
                    "share_within": (np.abs(errors) <= tolerance).mean(),
                    "share_within_low": low[position],
                    "share_within_high": high[position],
                    **error_statistics(errors),
                }
            )
    return pd.DataFrame(rows)
