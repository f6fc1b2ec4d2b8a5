"""Errors of forecasts on measured machines, with those of NCCL's estimate and an alpha-beta model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.collectives.constants import Constants
from fabricast.collectives.evidence.measured import MeasuredCase, is_of_nccl_tests, measured_cases, measured_machine
from fabricast.collectives.expected import (
    LINKS_ONLY,
    PAIRS_MEASURED,
    SIZE_CLASSES,
    STATE_COLUMNS,
    coverage,
    ratio_range,
)
from fabricast.collectives.model import CollectiveModel
from fabricast.collectives.step_rates import Transport, ring_hops
from fabricast.core.resources import published
from fabricast.inputs.csv_files import CsvRow, read_csv
from fabricast.nccl.costs import steps_of

#: Share of an error that is within the band.
BAND = 0.15
#: Name of the forecasts of machines that were left out of the fit of the constants.
LEFT_OUT = "fabricast, machine left out of the fit"
_RECORD = "transport", "size_class", "forecast", "rows", "machines", "median", "within_band", "worst"


def recorded_errors() -> list[CsvRow]:
    """Return the errors in config/published/collectives/errors.csv.

    `scripts/fit_collectives.py` records them, because a fit without each machine would delay every run.
    """
    return read_csv(published() / "collectives" / "errors.csv", _RECORD)


def _alpha_beta(case: MeasuredCase) -> NDArray[np.float64]:
    """Return the times of an alpha-beta model with the latency and the rate of an isolated pair, in s."""
    communicator = measured_machine(case.system)
    ranks = len(communicator.ranks)
    hops = ring_hops(communicator, range(ranks))
    latency = float(np.mean([communicator.latency_of(hop.source, hop.target) for hop in hops]))
    rate = communicator.machine.rates.one_way_bytes_per_s
    steps = steps_of(case.operation, ranks)
    times: NDArray[np.float64] = steps * (latency + case.size_bytes / ranks / rate)
    return times


def case_times(case: MeasuredCase, model: CollectiveModel) -> pd.DataFrame:
    """Return measured and forecast times of a case in s."""
    choices = model.choices(case.size_bytes)
    transport = "P2P" if all(hop.transport is Transport.P2P for hop in model.step(choices[-1][0]).hops) else "SHM"
    nccl = model.nccl_times(choices, case.size_bytes)
    classes = np.empty(case.size_bytes.size, dtype=object)
    for name in SIZE_CLASSES:
        classes[case.of_class(name)] = name
    return pd.DataFrame(
        {
            "system": case.system,
            "operation": str(case.operation),
            "transport": transport,
            "size_class": classes,
            "size_bytes": case.size_bytes,
            "measured_s": case.measured_s,
            "forecast_s": model.chosen_times(choices, case.size_bytes),
            "nccl_s": np.nan if nccl is None else nccl,
            "alpha_beta_s": _alpha_beta(case),
        }
    )


def one_row_per_size(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one case in which a size that was measured several times has the mean of its times."""
    times = ["measured_s", "forecast_s", "nccl_s", "alpha_beta_s"]
    others = [name for name in rows.columns if name not in times and name != "size_bytes"]
    grouped = rows.groupby("size_bytes", as_index=False)
    return grouped.agg({**dict.fromkeys(times, "mean"), **dict.fromkeys(others, "first")})


def machine_errors(left_out: Mapping[str, Constants] | None = None, *, with_pairs: bool = True) -> pd.DataFrame:
    """Return measured and forecast times of all cases, with or without the measured pairs of their machines."""
    frames = []
    for case in measured_cases():
        name = measured_machine(case.system).tree.name
        model = case.model(None if left_out is None else left_out[name], with_pairs=with_pairs)
        frames.append(one_row_per_size(case_times(case, model)))
    return pd.concat(frames, ignore_index=True)


def state_errors(left_out: Mapping[str, Constants]) -> pd.DataFrame:
    """Return the errors and the range of all_reduce by what is known about the machine, each left out of the fit."""
    rows = []
    for state in (PAIRS_MEASURED, LINKS_ONLY):
        times = _of_nccl_tests(machine_errors(left_out, with_pairs=state == PAIRS_MEASURED))
        times = times.assign(ratio=times["measured_s"] / times["forecast_s"])
        for (transport, name), part in times.groupby(["transport", "size_class"], sort=True):
            error = (1 / part["ratio"] - 1).abs()
            shortest, longest = ratio_range(part["system"], part["ratio"])
            numbers = {
                "median": error.median(),
                "within_band": (error <= BAND).mean(),
                "worst": error.max(),
                "shortest": shortest,
                "longest": longest,
                "coverage": coverage(part["system"], part["ratio"]),
            }
            counts = {"machines": part["system"].nunique(), "rows": len(part)}
            row = {"state": state, "transport": transport, "size_class": name, **counts}
            rows.append({**row, **{key: round(float(number), 4) for key, number in numbers.items()}})
    return pd.DataFrame(rows, columns=list(STATE_COLUMNS))


def _of_nccl_tests(times: pd.DataFrame) -> pd.DataFrame:
    """Return the times of all_reduce that no other program measured."""
    return times[(times["operation"] == "all_reduce") & times["system"].map(is_of_nccl_tests)]


def error_table(times: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return the errors of all_reduce by transport and size class."""
    rows = []
    times = _of_nccl_tests(times)
    for transport in ("P2P", "SHM"):
        for size_class in SIZE_CLASSES:
            part = times[(times["transport"] == transport) & (times["size_class"] == size_class)]
            for name, column in columns.items():
                error = (part[column] / part["measured_s"] - 1).abs().dropna()
                rows.append(
                    {
                        "transport": transport,
                        "size_class": size_class,
                        "forecast": name,
                        "rows": len(error),
                        "machines": part["system"].nunique(),
                        "median": float(error.median()),
                        "within_band": float((error <= BAND).mean()),
                        "worst": float(error.max()),
                    }
                )
    return pd.DataFrame(rows)
