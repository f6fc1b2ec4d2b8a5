"""The max-rate study as rows of the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fabricast.maxrate.fitting import (
    MaxRateRegressor,
    bootstrap_intervals,
    identifiable_parameters,
    summarise,
)
from fabricast.maxrate.models import FORMS, SLIDE_PARAMETERS, predict_time
from fabricast.maxrate.protocols import ProtocolRegressor
from fabricast.seeds import stream

__all__ = ["LARGE_BYTES", "MaxRateTables", "maxrate_tables"]

#: From here on messages are long enough that rates, not start-up times, decide.
LARGE_BYTES = 8192
_PROTOCOL_MODEL = "protocols"


@dataclass(frozen=True)
class MaxRateTables:
    """Rows that the study adds to the tables.

    Parameters
    ----------
    maxrate_measurement, maxrate_fit, prediction, reference, parameter : pandas.DataFrame
        Rows as in schema.sql.
    """

    maxrate_measurement: pd.DataFrame
    maxrate_fit: pd.DataFrame
    prediction: pd.DataFrame
    reference: pd.DataFrame
    parameter: pd.DataFrame


def _fit_row(
    dataset: str, model: str, protocol: str, modelled: Any, measured: Any, parameters: dict[str, float], **more: Any
) -> dict[str, Any]:
    errors = summarise(modelled, measured)
    return {
        "dataset": dataset, "model": model, "protocol": protocol, "cells": len(measured),
        "median_error": errors.median, "p90_error": errors.p90, "max_error": errors.largest,
        "share_within_10": errors.within_10, **{name: parameters.get(name) for name in _PARAMETERS}, **more,
    }  # fmt: skip


_PARAMETERS = ("s", "s0", "s1", "s2", "r_c", "r_n", "r_b", "r_i")


def maxrate_tables(
    measurement: pd.DataFrame,
    *,
    slide_dataset: str,
    starts: int,
    draws: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> MaxRateTables:
    """Fit every model to every data set and hold the published parameters against the data.

    Parameters
    ----------
    measurement : pandas.DataFrame
        Rows as `fabricast.maxrate.measurements.read_measurements` gives.
    slide_dataset : str
        Data set of the machine whose parameters the slides print.
    starts : int
        Random starts of each fit.
    draws : int
        Bootstrap draws of the refined model on large messages.
    seed : int
        Root seed.
    progress : callable, optional
        Called with 1 after every data set.

    Returns
    -------
    MaxRateTables
        Rows of all data sets.
    """
    fits: list[dict[str, Any]] = []
    predictions: list[pd.DataFrame] = []
    references: list[pd.DataFrame] = []
    for name, rows in measurement.groupby("dataset", sort=True):
        dataset = str(name)
        cells = rows[["size_bytes", "processes"]].to_numpy(dtype=np.float64)
        times = rows["time_s"].to_numpy(dtype=np.float64)
        large = cells[:, 0] >= LARGE_BYTES
        common = {
            "study": "maxrate",
            "case_id": [f"{dataset}/{int(k)}/{int(n)}" for n, k in cells.tolist()],
            "item": "", "quantity": "time", "unit": "s",
        }  # fmt: skip
        references.append(
            pd.DataFrame(
                {**common, "kind": "measured", "origin": dataset, "value": times, "spread": rows["spread"].to_numpy(),
                 "tag": "measured"}
            )
        )  # fmt: skip

        def predicted(model: str, value: Any, common: dict[str, Any] = common) -> None:
            predictions.append(pd.DataFrame({**common, "model": model, "value": value}))

        if dataset == slide_dataset:
            slides = predict_time("refined", SLIDE_PARAMETERS, cells[:, 0], cells[:, 1])
            predicted("slides", slides)
            fits.append(_fit_row(dataset, "slides", "all", slides, times, SLIDE_PARAMETERS, identifiable=[]))
        for form in FORMS:
            for protocol, inside in (("all", np.ones_like(large)), ("large", large)):
                regressor = MaxRateRegressor(form, starts, seed % 2**32).fit(cells[inside], times[inside])
                modelled = regressor.predict(cells[inside])
                told: list[str] = []
                more: dict[str, Any] = {"starts_reached": regressor.starts_reached_}
                if form == "refined" and protocol == "large":
                    intervals = bootstrap_intervals(
                        regressor, cells[inside], times[inside], draws=draws,
                        generator=stream(seed, f"maxrate.{dataset}"),
                    )  # fmt: skip
                    told = identifiable_parameters(regressor, cells[inside], intervals)
                    for parameter, (low, high) in intervals.items():
                        more |= {f"{parameter}_low": low, f"{parameter}_high": high}
                fits.append(
                    _fit_row(dataset, form, protocol, modelled, times[inside], regressor.parameters_,
                             identifiable=told, **more)
                )  # fmt: skip
                if protocol == "all":
                    predicted(form, modelled)
        split = ProtocolRegressor(random_state=seed % 2**32).fit(cells, times)
        predicted(_PROTOCOL_MODEL, split.predict(cells))
        fits.append(
            _fit_row(dataset, _PROTOCOL_MODEL, "all", split.predict(cells), times, {}, identifiable=[],
                     breakpoints=list(split.breakpoints_))
        )  # fmt: skip
        which = np.searchsorted(split.breakpoints_, cells[:, 0], side="right")
        for number, regressor in enumerate(split.regressors_):
            inside = which == number
            fits.append(
                _fit_row(dataset, _PROTOCOL_MODEL, f"range {number + 1}", regressor.predict(cells[inside]),
                         times[inside], regressor.parameters_, identifiable=[])
            )  # fmt: skip
        if progress is not None:
            progress(1)
    units = {"s": "s", "r": "bytes/s"}
    published = pd.DataFrame(
        [
            {"study": "maxrate", "system": "blue_waters.slides", "name": name, "value": value, "unit": units[name[0]],
             "tag": "published", "source": "Gropp et al., slides: Blue Waters, full ping-pong"}
            for name, value in SLIDE_PARAMETERS.items()
        ]
    )  # fmt: skip
    columns = ["dataset", "system", "path", "processes", "size_bytes", "time_s", "convention", "estimator", "spread"]
    return MaxRateTables(
        measurement[columns],
        pd.DataFrame(fits),
        pd.concat(predictions, ignore_index=True),
        pd.concat(references, ignore_index=True),
        published,
    )
