"""What `fabricast fit` prints: parameters with intervals, errors, and exports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from fabricast.errors import InputError
from fabricast.maxrate.benchmark_output import read_measurement_file
from fabricast.maxrate.fitting import (
    MaxRateRegressor,
    blocked_predictions,
    bootstrap_intervals,
    identifiable_parameters,
    summarise,
)
from fabricast.maxrate.loggp import from_maxrate, simgrid_properties
from fabricast.maxrate.models import FORMS
from fabricast.maxrate.protocols import ProtocolRegressor
from fabricast.seeds import stream

__all__ = ["fit_lines"]

_UNITS = {"s": (1e6, "us"), "r": (1e-9, "GB/s"), "k": (1.0, "processes")}
_FEWEST_CELLS = 4


def fit_lines(
    file: Path, model: str, *, processes: int | None, smallest_bytes: float, draws: int, seed: int
) -> Iterator[str]:
    """Fit a model to every data set of a file.

    Parameters
    ----------
    file : Path
        CSV or output of a benchmark program.
    model : str
        Key of `fabricast.maxrate.models.FORMS`.
    processes : int or None
        Pairs, where an output does not name them.
    smallest_bytes : float
        Smaller messages are left out.
    draws : int
        Bootstrap draws.
    seed : int
        Root seed.

    Yields
    ------
    str
        Lines: parameters, errors, a LogGOPS line, SimGrid's factors.
    """
    if model not in FORMS:
        raise InputError(f"--model is '{model}', expected one of {', '.join(FORMS)}")
    rows = read_measurement_file(file, processes=processes)
    rows = rows[rows["size_bytes"] >= smallest_bytes]
    if rows.empty:
        raise InputError(f"holds no message of at least {smallest_bytes:g} bytes", path=file)
    for dataset, part in rows.groupby("dataset", sort=True):
        if len(part) < max(_FEWEST_CELLS, len(FORMS[model].parameters)):
            raise InputError(
                f"data set '{dataset}' has {len(part)} cells, expected at least "
                f"{max(_FEWEST_CELLS, len(FORMS[model].parameters))} for the model '{model}'", path=file,
            )  # fmt: skip
        yield from _dataset_lines(str(dataset), part, model, draws, seed)


def _dataset_lines(dataset: str, part: pd.DataFrame, model: str, draws: int, seed: int) -> Iterator[str]:
    cells = part[["size_bytes", "processes"]].to_numpy(dtype=np.float64)
    times = part["time_s"].to_numpy(dtype=np.float64)
    conventions = sorted(set(part["convention"]))
    if len(conventions) > 1:
        raise InputError(f"data set '{dataset}' mixes the conventions {', '.join(conventions)}, expected one")
    regressor = MaxRateRegressor(model, random_state=seed % 2**32).fit(cells, times)
    intervals = bootstrap_intervals(
        regressor, cells, times, draws=draws, generator=stream(seed, f"maxrate.{dataset}")
    )  # fmt: skip
    told = identifiable_parameters(regressor, cells, intervals)
    yield f"{dataset}: {len(part)} cells, {int(cells[:, 1].max())} processes at most, {conventions[0]} times"
    yield f"  T = {FORMS[model].formula}"
    for name, value in regressor.parameters_.items():
        scale, unit = _UNITS[name[0]]
        if name in told:
            low, high = intervals[name]
            yield f"  {name:4} {value * scale:.5g} {unit} ({low * scale:.5g} to {high * scale:.5g})"
        else:
            yield f"  {name:4} not told by these data"
    errors = summarise(regressor.predict(cells), times)
    yield f"  error: median {errors.median:.1%}, 90 % of cells below {errors.p90:.1%}, largest {errors.largest:.1%}"
    unseen = blocked_predictions(regressor, cells, times, cells[:, 1])
    if np.isfinite(unseen).all():
        yield f"  error on numbers of processes left out of the fit: median {summarise(unseen, times).median:.1%}"
    usable = {name: regressor.parameters_[name] for name in told}
    if ("s" in usable or "s0" in usable) and ("r_b" in usable or "r_c" in usable):
        yield f"  LogGOPS (ns, overhead o not told by ping-pongs): {from_maxrate(usable, conventions[0]).line()}"
    else:
        yield "  LogGOPS: not told by these data, which need start-up time and rate of one process"
    alone = cells[:, 1] == 1
    if conventions[0] != "windowed" and alone.sum() >= _FEWEST_CELLS:
        split = ProtocolRegressor("postal").fit(cells[alone], times[alone])
        yield "  SimGrid, one process:"
        for line in simgrid_properties(split, conventions[0]):
            yield f"    {line}"
