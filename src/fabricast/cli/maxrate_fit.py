"""Output of `fabricast fit`: parameters with intervals, errors, and exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.api.maxrate import FEWEST_CELLS, DatasetFit, fit_datasets
from fabricast.api.messages import datasets_of_facts, message_facts, netgauge_tables
from fabricast.core.errors import InputError
from fabricast.core.number_text import size_text
from fabricast.core.seeds import random_generator
from fabricast.maxrate.fitting import MaxRateRegressor, blocked_predictions, summarise
from fabricast.maxrate.intervals import parameter_intervals
from fabricast.maxrate.loggp import LogGOPS, from_maxrate, from_netgauge, read_netgauge, simgrid_properties
from fabricast.maxrate.models import CONVENTIONS, FORMS
from fabricast.maxrate.protocols import ProtocolRegressor

__all__ = ["fit_lines", "fit_table"]

_UNITS = {"s": (1e6, "us"), "r": (1e-9, "GB/s"), "k": (1.0, "processes")}


def fit_lines(
    files: Sequence[str],
    model: str,
    *,
    processes: int | None,
    node_pairs: int,
    smallest_bytes: float,
    draws: int,
    seed: int,
) -> Iterator[str]:
    """Fit a model to every data set of some files and yield the lines to print."""
    facts = message_facts(files)
    fits = []
    for path, rows in datasets_of_facts(facts, processes=processes, node_pairs=node_pairs):
        for fit in fit_datasets(rows, model, smallest_bytes=smallest_bytes, draws=draws, seed=seed, path=path):
            fits.append(fit)
            yield from _dataset_lines(fit, model, draws, seed)
    yield from _joint_line(fits)
    for path, text in netgauge_tables(facts):
        yield (
            "  LogGOPS (ns, with netgauge's estimators; its L is half a round trip, which includes 2 o: subtract them "
            f"for simulators that add o): {_netgauge_line(path, text)}"
        )
    for problem in facts.problems:
        yield f"  left out: {problem}"


def fit_table(
    files: Sequence[str],
    model: str,
    *,
    processes: int | None,
    node_pairs: int,
    smallest_bytes: float,
    draws: int,
    seed: int,
) -> pd.DataFrame:
    """Fit a model to every data set of some files and return one row for each parameter, with its 95 % interval."""
    rows = []
    facts = message_facts(files)
    for path, found in datasets_of_facts(facts, processes=processes, node_pairs=node_pairs):
        for fit in fit_datasets(found, model, smallest_bytes=smallest_bytes, draws=draws, seed=seed, path=path):
            errors = summarise(fit.regressor.predict(fit.cells), fit.times)
            for name, value in fit.regressor.parameters_.items():
                interval = fit.intervals[name]
                low, high = (np.nan, np.nan) if interval is None else interval
                unit = {"s": "s", "r": "bytes/s", "k": "1"}[name[0]]
                known = np.nan if interval is None else value
                rows.append((fit.dataset, model, name, known, low, high, unit, interval is not None, errors.median))
    columns = ["dataset", "model", "parameter", "value", "low", "high", "unit", "determined", "median_error"]
    return pd.DataFrame(rows, columns=columns)


def _joint_line(fits: Sequence[DatasetFit]) -> Iterator[str]:
    """Yield the parameters that a latency test and a windowed test determine together, if there is one of each."""
    latency = [fit for fit in fits if fit.convention != "windowed" and (fit.cells[:, 1] == 1).any()]
    windowed = [fit for fit in fits if fit.convention == "windowed" and (fit.cells[:, 1] == 1).sum() >= FEWEST_CELLS]
    if len(latency) != 1 or len(windowed) != 1 or max(fit.cells[:, 0].min() for fit in fits) > _SMALL_BYTES:
        return
    cells, times = windowed[0].cells, windowed[0].times
    one = cells[:, 1] == 1
    rate = MaxRateRegressor("postal").fit(cells[one], times[one]).parameters_["r_c"]
    start = (latency[0].cells[:, 1] == 1) & (latency[0].cells[:, 0] == latency[0].cells[:, 0].min())
    found = LogGOPS(
        float(latency[0].times[start].min()) / CONVENTIONS[latency[0].convention],
        0.0,
        float(times[one][np.argmin(cells[one, 0])]),
        1 / rate,
    )
    yield (
        f"LogGOPS (ns), L from {latency[0].dataset}, g and G from {windowed[0].dataset}; o is not determined, and L "
        f"includes it twice: {found.line()}"
    )


def _netgauge_line(path: str, text: str) -> str:
    """Return the LogGOPS parameters determined by netgauge's message trains."""
    try:
        return from_netgauge(read_netgauge(path, text=text)).line()
    except InputError as error:
        return f"not determined ({error.reason})"


def _dataset_lines(fit: DatasetFit, model: str, draws: int, seed: int) -> Iterator[str]:
    dataset, convention, cells, times = fit.dataset, fit.convention, fit.cells, fit.times
    regressor, intervals = fit.regressor, fit.intervals
    counts = np.unique(cells[:, 1]).astype(int)
    shown = ", ".join(map(str, counts)) if counts.size <= 8 else f"{counts[0]} to {counts[-1]}"
    of = _RATES[convention]
    yield f"{dataset}: {len(cells)} cells, {shown} processes, {convention} times; rates are those of {of}"
    yield f"  T = {FORMS[model].formula}"
    for name, value in regressor.parameters_.items():
        yield f"  {name:4} {_with_interval(value, intervals[name], *_UNITS[name[0]])}"
    yield from _smallest_lines(cells, times)
    missing = [name for name, interval in intervals.items() if interval is None]
    rates = _rates_together(cells, times, counts, draws, seed, dataset) if missing else {}
    for count, (value, interval) in rates.items():
        who = f"{count} processes together" if count > 1 else "1 process (isolated)"
        yield f"  {who}, long messages: {_with_interval(value, interval, 1e-9, 'GB/s')}"
    advice_of = {name: _ADVICE[name].removeprefix("a single process, or " if 1 in rates else "") for name in missing}
    if cells[:, 0].min() < _SMALL_BYTES:
        # The file has small messages already.
        advice_of.pop("s", None)
    for advice in dict.fromkeys(advice_of.values()):
        yield f"  to determine {', '.join(name for name in missing if advice_of.get(name) == advice)}: {advice}"
    errors = summarise(regressor.predict(cells), times)
    yield f"  error: median {errors.median:.1%}, 90 % of cells below {errors.p90:.1%}, largest {errors.largest:.1%}"
    unseen = blocked_predictions(regressor, cells, times, cells[:, 1])
    if np.isfinite(unseen).all():
        yield f"  error on process counts left out of the fit: median {summarise(unseen, times).median:.1%}"
    yield from _export_lines(regressor, intervals, rates, cells, times, convention)


def _smallest_lines(cells: NDArray[np.float64], times: NDArray[np.float64]) -> Iterator[str]:
    """Yield the time of the smallest message, and sizes at which the time falls: there the protocol changes."""
    count = cells[:, 1].min()
    one = cells[:, 1] == count
    order = np.argsort(cells[one, 0], kind="stable")
    size, time = cells[one, 0][order], times[one][order]
    who = f"{count:.0f} processes" if count > 1 else "1 process"
    smallest = size_text(float(size[0]))
    yield f"  latency at {smallest}, {who}: {time[0] * 1e6:.4g} us; s is the start of the fitted protocol"
    falls = np.flatnonzero(time[1:] < time[:-1] * (1 - _FALL))
    for place in falls[:2]:
        yield (
            f"  the time falls from {time[place] * 1e6:.4g} us at {size_text(float(size[place]))} to "
            f"{time[place + 1] * 1e6:.4g} us at {size_text(float(size[place + 1]))}: the protocol changes there"
        )


#: Size in bytes of small messages, and share by which the time falls at a change of the protocol.
_SMALL_BYTES, _FALL = 1024, 0.05
_RATES = {"round_trip": "round trips", "one_way": "one-way messages", "windowed": "overlapping one-way messages"}
#: Additional measurements that determine a parameter, by parameter.
_ADVICE = {
    "s": "messages below 1 KiB, where the start-up time dominates",
    **dict.fromkeys(("s0", "s1", "s2"), "small messages at several process counts"),
    **dict.fromkeys(
        ("r_b", "r_c"), "a single process, or several process counts at which the aggregate rate still increases"
    ),
    "r_i": "two or more process counts at which the aggregate rate still increases",
    "r_n": "more processes, until the aggregate rate saturates; if it is saturated, use model maxrate with fewer rates",
    **dict.fromkeys(("k0", "r_x"), "process counts below and above the onset of overload"),
}


def _with_interval(value: float, interval: tuple[float, float] | None, scale: float, unit: str) -> str:
    if interval is None:
        return "not determined by these data"
    return f"{value * scale:.5g} {unit} ({interval[0] * scale:.5g} to {interval[1] * scale:.5g})"


_Rates = dict[int, tuple[float, tuple[float, float] | None]]


def _rates_together(
    cells: NDArray[np.float64],
    times: NDArray[np.float64],
    counts: NDArray[np.int64],
    draws: int,
    seed: int,
    dataset: str,
) -> _Rates:
    """Fit the aggregate rate of long messages for the smallest and largest process count.

    These rates can be fitted even if the data do not identify the parameters of the model.
    """
    rates: _Rates = {}
    for count in sorted({int(counts[0]), int(counts[-1])}):
        selected = cells[:, 1] == count
        if selected.sum() < FEWEST_CELLS:
            continue
        all_bytes = np.column_stack([cells[selected, 0] * count, np.ones(int(selected.sum()))])
        fit = MaxRateRegressor("postal").fit(all_bytes, times[selected])
        intervals = parameter_intervals(
            fit, all_bytes, times[selected], draws=draws, generator=random_generator(seed, f"maxrate.{dataset}.{count}")
        )
        rates[count] = (fit.parameters_["r_c"], intervals["r_c"])
    return rates


def _export_lines(
    regressor: MaxRateRegressor,
    intervals: Mapping[str, tuple[float, float] | None],
    rates: _Rates,
    cells: NDArray[np.float64],
    times: NDArray[np.float64],
    convention: str,
) -> Iterator[str]:
    """Yield LogGOPS parameters and SimGrid factors from the identified parameters only."""
    usable = {name: regressor.parameters_[name] for name, interval in intervals.items() if interval is not None}
    if "r_c" not in usable and "r_b" not in usable and rates.get(1, (0.0, None))[1] is not None:
        usable["r_c"] = rates[1][0]
    rate_names = [name for name in ("r_b", "r_c") if name in usable]
    if convention == "windowed":
        per_byte = f"-G {1e9 / usable[rate_names[0]]:.4g}" if rate_names else "G requires the rate of a single process"
        yield f"  LogGOPS: windowed times do not determine L ({per_byte}); a latency test does"
    elif rate_names and ("s" in usable or "s0" in usable):
        line = from_maxrate(usable, convention).line()
        yield f"  LogGOPS (ns, one protocol; parameters that ping-pongs do not determine are 0): {line}"
    else:
        yield "  LogGOPS: not determined by these data; start-up time and rate of a single process are required"
    single = cells[:, 1] == 1
    if convention != "windowed" and single.sum() >= FEWEST_CELLS:
        split = ProtocolRegressor("postal").fit(cells[single], times[single])
        yield "  SimGrid, one process:"
        for line in simgrid_properties(split, convention):
            yield f"    {line}"
