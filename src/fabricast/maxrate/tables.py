"""Result tables of the max-rate study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.seeds import random_generator
from fabricast.maxrate.fitting import MaxRateRegressor, TimeRegressor, blocked_predictions, summarise
from fabricast.maxrate.intervals import parameter_intervals
from fabricast.maxrate.models import FORMS, SINGLE_FORMS, SLIDE_PARAMETERS, predict_time
from fabricast.maxrate.protocols import ProtocolRegressor

__all__ = ["LARGE_BYTES", "PROTOCOL_MODELS", "MaxRateTables", "maxrate_tables"]

#: Smallest message size for which rates rather than start-up times dominate.
LARGE_BYTES = 8192
#: Models with one parameter set per protocol, and their forms.
PROTOCOL_MODELS = {"protocols": "refined_latency", "overload_protocols": "overload"}

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MaxRateTables:
    """Result tables of the max-rate study."""

    #: Rows as defined in schema.sql.
    maxrate_measurement: pd.DataFrame
    maxrate_fit: pd.DataFrame
    prediction: pd.DataFrame
    reference: pd.DataFrame
    parameter: pd.DataFrame


_PARAMETERS = ("s", "s0", "s1", "s2", "k0", "r_c", "r_n", "r_b", "r_i", "r_x")
_UNITS = {"s": "s", "r": "bytes/s", "k": "1"}


def _fit_row(
    dataset: str, model: str, protocol: str, modelled: Array, measured: Array, parameters: dict[str, float], **more: Any
) -> dict[str, Any]:
    errors = summarise(modelled, measured)
    return {
        "dataset": dataset,
        "model": model,
        "protocol": protocol,
        "cells": len(measured),
        "median_error": errors.median,
        "p90_error": errors.p90,
        "max_error": errors.largest,
        "share_within_10": errors.within_10,
        "identifiable": [],
        **{name: parameters.get(name) for name in _PARAMETERS},
        **more,
    }


def _unseen(regressor: TimeRegressor, cells: Array, times: Array) -> dict[str, float]:
    """Return error statistics for process counts that were left out of the fit."""
    predicted = blocked_predictions(regressor, cells, times, cells[:, 1])
    if np.isnan(predicted).any():
        return {}
    errors = summarise(predicted, times)
    return {"unseen_median_error": errors.median, "unseen_p90_error": errors.p90}


def maxrate_tables(
    measurement: pd.DataFrame,
    *,
    slide_system: str,
    starts: int,
    draws: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> MaxRateTables:
    """Fit every model to every data set and validate the published parameters."""
    fits: list[dict[str, Any]] = []
    predictions: list[pd.DataFrame] = []
    references: list[pd.DataFrame] = []
    for name, rows in measurement.groupby("dataset", sort=True):
        dataset = str(name)
        cells = rows[["size_bytes", "processes"]].to_numpy(dtype=np.float64)
        times = rows["time_s"].to_numpy(dtype=np.float64)
        case = [f"{dataset}/{int(k)}/{int(n)}" for n, k in cells.tolist()]
        common = {"study": "maxrate", "case_id": case, "item": "", "quantity": "time", "unit": "s"}
        references.append(
            pd.DataFrame(
                {
                    **common,
                    "kind": "measured",
                    "origin": dataset,
                    "value": times,
                    "spread": rows["spread"].to_numpy(),
                    "tag": "measured",
                }
            )
        )
        rows_and_times = _published_fit(dataset, cells, times) if set(rows["system"]) == {slide_system} else []
        generator = random_generator(seed, f"maxrate.{dataset}")
        rows_and_times += _form_fits(dataset, cells, times, starts, draws, seed, generator)
        rows_and_times += _protocol_fits(dataset, cells, times, seed)
        whole = [(row, modelled) for row, modelled in rows_and_times if row["protocol"] == "all"]
        predictions += [pd.DataFrame({**common, "model": row["model"], "value": modelled}) for row, modelled in whole]
        # The chosen model has the smallest median error on process counts that were left out of the fit.
        ranked = [row for row, _ in whole if "unseen_median_error" in row]
        if ranked:
            min(ranked, key=lambda row: float(row["unseen_median_error"]))["chosen"] = True
        fits += [{"chosen": False, **row} for row, _ in rows_and_times]
        if progress is not None:
            progress(1)
    published = pd.DataFrame(
        [
            {
                "study": "maxrate",
                "system": "blue_waters.slides",
                "name": name,
                "value": value,
                "unit": _UNITS[name[0]],
                "tag": "published",
                "source": "Gropp et al., slides: Blue Waters, full ping-pong",
            }
            for name, value in SLIDE_PARAMETERS.items()
        ]
    )
    columns = ["dataset", "system", "path", "processes", "size_bytes", "time_s", "convention", "estimator", "spread"]
    return MaxRateTables(
        measurement[columns],
        pd.DataFrame(fits),
        pd.concat(predictions, ignore_index=True),
        pd.concat(references, ignore_index=True),
        published,
    )


_Fits = list[tuple[dict[str, Any], Array]]


def _published_fit(dataset: str, cells: Array, times: Array) -> _Fits:
    slides = predict_time("refined", SLIDE_PARAMETERS, cells[:, 0], cells[:, 1])
    return [(_fit_row(dataset, "slides", "all", slides, times, SLIDE_PARAMETERS), slides)]


def _form_fits(
    dataset: str, cells: Array, times: Array, starts: int, draws: int, seed: int, generator: np.random.Generator
) -> _Fits:
    """Return fits with one parameter set: to all sizes and to large messages."""
    fits: _Fits = []
    large = cells[:, 0] >= LARGE_BYTES
    for form in SINGLE_FORMS:
        for protocol, inside in (("all", np.ones_like(large)), ("large", large)):
            if inside.sum() < len(FORMS[form].parameters):
                continue
            regressor = MaxRateRegressor(form, starts, seed % 2**32).fit(cells[inside], times[inside])
            more: dict[str, Any] = {"starts_reached": regressor.starts_reached_}
            if form == "refined" and protocol == "large":
                intervals = parameter_intervals(
                    regressor, cells[inside], times[inside], draws=draws, generator=generator
                )
                more["identifiable"] = [name for name, interval in intervals.items() if interval is not None]
                for name, interval in intervals.items():
                    low, high = interval or (None, None)
                    more |= {f"{name}_low": low, f"{name}_high": high}
            if protocol == "all":
                more |= _unseen(MaxRateRegressor(form, 2, seed % 2**32), cells, times)
            modelled = regressor.predict(cells[inside])
            row = _fit_row(dataset, form, protocol, modelled, times[inside], regressor.parameters_, **more)
            fits.append((row, modelled))
    return fits


def _protocol_fits(dataset: str, cells: Array, times: Array, seed: int) -> _Fits:
    """Return fits with one parameter set per protocol for each of `PROTOCOL_MODELS`."""
    fits: _Fits = []
    for model, form in PROTOCOL_MODELS.items():
        split = ProtocolRegressor(form, random_state=seed % 2**32).fit(cells, times)
        again = ProtocolRegressor(form, starts=1, random_state=seed % 2**32, breakpoints=split.breakpoints_)
        modelled = split.predict(cells)
        more = {"breakpoints": list(split.breakpoints_), **_unseen(again, cells, times)}
        fits.append((_fit_row(dataset, model, "all", modelled, times, {}, **more), modelled))
        which = np.searchsorted(split.breakpoints_, cells[:, 0], side="right")
        for number, regressor in enumerate(split.regressors_):
            inside = which == number
            range_times = modelled[inside]
            row = _fit_row(dataset, model, f"range {number + 1}", range_times, times[inside], regressor.parameters_)
            fits.append((row, range_times))
    return fits
