"""Max-rate models fitted to measurements of several processes per node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.api.machine_inputs import Files, paths_of
from fabricast.api.messages import check_counts_of_table, datasets_of_facts, message_facts
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.quantities import check_count, check_seed
from fabricast.core.seeds import random_generator
from fabricast.maxrate.fitting import MaxRateRegressor, TimeRegressor, summarise
from fabricast.maxrate.intervals import parameter_intervals
from fabricast.maxrate.models import CONVENTIONS, FORMS
from fabricast.maxrate.protocols import ProtocolRegressor
from fabricast.maxrate.windowed import WindowedFit, fit_windowed

FEWEST_CELLS = 4
#: Models of several numbers of processes in the order of preference.
_CHOICES = ["refined", "maxrate"]
#: Ratio of a fitted rate of windowed times to the largest measured one above which it is replaced.
LARGEST_RATIO = 1.01
#: Size in bytes of messages that show a rate.
RATE_BYTES = 2.0**16
#: Least number of sizes of a protocol: the noise of two determines a line.
FEWEST_SIZES = 3
#: Share of the start of a protocol below which the time for its bytes determines no rate.
_SMALLEST_SHARE = 0.02
_UNITS = {"s": "s", "g": "s", "r": "bytes/s", "k": "processes"}


@dataclass(frozen=True)
class DatasetFit:
    """Max-rate model fitted to one data set."""

    #: Name of the data set, and convention of its times.
    dataset: str
    convention: str
    cells: NDArray[np.float64]  # Message sizes in bytes and numbers of processes, shape (cells, 2)
    times: NDArray[np.float64]  # Measured times in s, shape (cells,)
    model: str  # Key of `fabricast.maxrate.models.FORMS`
    regressor: MaxRateRegressor  # Fitted model
    #: 95 % interval of each parameter; None if the data do not identify the parameter.
    intervals: dict[str, tuple[float, float] | None]
    #: One line for each protocol of a single process, which fits better than one for all sizes.
    protocols: ProtocolRegressor | None = None
    #: Gap and rate of a windowed test of one process, if they fit better than lines.
    windowed: WindowedFit | None = None

    @property
    def fitted(self) -> TimeRegressor:
        """The model whose error is that of the answer."""
        return self.regressor if self.protocols is None else self.protocols

    def times_s(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the forecast time in s of sizes and numbers of processes, shape (cells, 2); NaN if none is determined.

        A fit of one number of processes says nothing about others.
        """
        if self.windowed is not None:
            times = np.maximum(self.windowed.gap_s, cells[:, 0] / self.windowed.bytes_per_s)
        else:
            times = np.asarray(self.fitted.predict(cells), dtype=np.float64)
        counts = np.unique(self.cells[:, 1])
        return np.where((counts.size > 1) | (cells[:, 1] == counts[0]), times, np.nan)

    @property
    def has_large_messages(self) -> bool:
        """Whether the sizes show a rate; the time of messages in flight decides smaller ones."""
        return bool(self.cells[:, 0].max() >= RATE_BYTES)


def fit_datasets(
    measurements: pd.DataFrame,
    model: str | None,
    *,
    smallest_bytes: float,
    largest_bytes: float = np.inf,
    draws: int,
    seed: int,
    path: str | None = None,
) -> Iterator[DatasetFit]:
    """Fit a model to every data set; without one, the first of `_CHOICES` whose parameters the data determine."""
    if model is not None and model not in FORMS:
        raise unknown_name("model", model, FORMS)
    rows = measurements[measurements["size_bytes"].between(smallest_bytes, largest_bytes)]
    if rows.empty:
        most = "" if largest_bytes == np.inf else f" and at most {largest_bytes:g}"
        raise InputError(f"contains no messages of at least {smallest_bytes:g}{most} bytes", path=path)
    for dataset, part in rows.groupby("dataset", sort=True):
        names = [model] if model is not None else _CHOICES if part["processes"].nunique() > 1 else ["postal"]
        fewest = max(FEWEST_CELLS, len(FORMS[names[0]].parameters))
        if len(part) < fewest:
            raise InputError(
                f"data set '{dataset}' has {len(part)} time{'' if len(part) == 1 else 's'} (one for each size and "
                f"number of processes), expected at least {fewest} for the model '{names[0]}'",
                path=path,
            )
        conventions = sorted(set(part["convention"]))
        if len(conventions) > 1:
            raise InputError(
                f"data set '{dataset}' mixes the conventions {', '.join(conventions)}, expected one", path=path
            )
        cells = part[["size_bytes", "processes"]].to_numpy(dtype=np.float64)
        times = part["time_s"].to_numpy(dtype=np.float64)
        fits = []
        for name in names:
            regressor = MaxRateRegressor(name, random_state=seed % 2**32).fit(cells, times)
            generator = random_generator(seed, f"maxrate.{dataset}")
            intervals = parameter_intervals(regressor, cells, times, draws=draws, generator=generator)
            fits.append(DatasetFit(str(dataset), conventions[0], cells, times, name, regressor, intervals))
            if all(interval is not None for interval in intervals.values()):
                break
        # The model with the fewest parameters that the data leave open.
        best = min(fits, key=lambda fit: list(fit.intervals.values()).count(None))
        best = _without_rate_of_one(best if model is not None else _by_protocol(best))
        if conventions[0] == "windowed":
            best = _within_measured(best)
            best = replace(best, windowed=_overlap(best)) if model is None else best
        yield best


def _overlap(fit: DatasetFit) -> WindowedFit | None:
    """Return gap and rate of a windowed test of one process, if they fit better than lines."""
    if (fit.cells[:, 1] != 1).any():
        return None
    found = fit_windowed(fit.cells[:, 0], fit.times)
    lines = summarise(fit.fitted.predict(fit.cells), fit.times)
    return found if found is not None and found.largest_error < lines.largest else None


def _by_protocol(fit: DatasetFit) -> DatasetFit:
    """Return a fit of one process with a line for each protocol, if there are several."""
    if fit.model != "postal" or fit.cells[0, 1] != 1:
        return fit
    split = ProtocolRegressor("postal", fewest_sizes=FEWEST_SIZES).fit(fit.cells, fit.times)
    if not split.breakpoints_:
        return fit
    _share_undetermined_rates(split)
    return replace(fit, protocols=split)


def _share_undetermined_rates(split: ProtocolRegressor) -> None:
    """Replace rates that change no time of their protocol by that of the next one."""
    regressors = split.regressors_
    for number in range(len(regressors) - 2, -1, -1):
        part, following = regressors[number].parameters_, regressors[number + 1].parameters_
        if split.breakpoints_[number] / part["r_c"] < _SMALLEST_SHARE * part["s"]:
            part["r_c"] = following["r_c"]


def _without_rate_of_one(fit: DatasetFit) -> DatasetFit:
    """Return a fit; one number of several processes does not determine the rate of one of them."""
    if fit.model != "postal" or (fit.cells[:, 1] == 1).any():
        return fit
    return replace(fit, intervals={**fit.intervals, "r_c": None})


def _within_measured(fit: DatasetFit) -> DatasetFit:
    """Return a fit of windowed times whose rates are not above measured ones.

    Overlapping messages hide their start-up time, which the forms add: rates that make up for it are too high.
    """
    limits = largest_rates(fit.cells, fit.times)
    parameters, intervals = dict(fit.regressor.parameters_), dict(fit.intervals)
    for name, most in (("r_n", max(limits.values())), ("r_b", limits.get(1)), ("r_c", _rate_of_one(limits))):
        if most is not None and parameters.get(name, 0.0) > LARGEST_RATIO * most:
            parameters[name] = most
            known = intervals[name]
            intervals[name] = None if known is None else (min(known[0], most), most)
    regressor = copy(fit.regressor)
    regressor.parameters_ = parameters
    for part in fit.protocols.regressors_ if fit.protocols is not None else ():
        part.parameters_["r_c"] = within_largest(part.parameters_["r_c"], max(limits.values()))
    return replace(fit, regressor=regressor, intervals=intervals)


def largest_rates(cells: NDArray[np.float64], times: NDArray[np.float64]) -> dict[int, float]:
    """Return the largest measured aggregate rate in bytes/s by number of processes."""
    rates = cells[:, 0] * cells[:, 1] / times
    return {int(count): float(rates[cells[:, 1] == count].max()) for count in np.unique(cells[:, 1])}


def within_largest(rate: float, largest: float) -> float:
    """Return a rate, or the largest measured one if the rate is more than a little above it."""
    return largest if rate > LARGEST_RATIO * largest else rate


def _rate_of_one(limits: Mapping[int, float]) -> float:
    """Return the largest measured rate of one of several processes."""
    return max(rate / count for count, rate in limits.items())


@with_checked_types
def fit_max_rate(
    measurements: pd.DataFrame | Files,
    *,
    model: str | None = None,
    processes: int | Mapping[str, int] | None = None,
    node_pairs: int = 1,
    smallest_bytes: float = 0.0,
    largest_bytes: float = np.inf,
    draws: int = 200,
    seed: int = 20161113,
) -> pd.DataFrame:
    """Fit a max-rate model to measurements, with 95 % intervals of the parameters.

    Max-rate models describe the time for several processes of a node to send messages of the same size, limited by
    the rate of each process and of the node.

    Parameters
    ----------
    measurements : pandas.DataFrame, str, Path or sequence of these
        Columns processes, size_bytes, time_s and, optionally, dataset and convention (round_trip, one_way or
        windowed; one_way by default). Files are CSV or Parquet, or output of benchmark programs; outputs of one
        program with different numbers of processes are fitted together.
    model : str, optional
        Model: postal, maxrate, refined, refined_latency or overload. By default refined, or maxrate if the data do not
        determine its parameters; postal for a single number of processes, with one line for each protocol of a process.
    processes : int or mapping of str to int, optional
        Number of process pairs, if the benchmark output omits it: of all files, or by file.
    node_pairs : int, default 1
        Number of node pairs over which the processes of benchmark output are spread evenly.
    smallest_bytes : float, default 0
        Size in bytes below which messages are ignored.
    largest_bytes : float, default inf
        Size in bytes above which messages are ignored.
    draws : int, default 200
        Number of bootstrap samples for the intervals.
    seed : int, default 20161113
        Seed of the starting points of the fit and of the bootstrap.

    Returns
    -------
    pandas.DataFrame
        One row per data set, protocol and parameter: dataset, model, convention, from_bytes, to_bytes, parameter,
        value, unit, low, high, determined, median_error, largest_error. `determined` is false if the data do not
        identify the parameter; value, low and high are then NaN. A protocol has the sizes from `from_bytes` to below
        `to_bytes`, and no intervals. A windowed test of one process may have the model `windowed`,
        ``T = max(g, n / r_c)``, whose `g` and `r_c` have none either. The errors are those of the fit, relative to the
        measured times: a largest error above 0.5 shows that the formula does not fit all sizes. Rates of windowed
        times are at most measured ones.

    Raises
    ------
    InputError
        If a file or column is invalid, or a data set is too small.

    References
    ----------
    Gropp, Olson, Samfass, "Modeling MPI communication performance on SMP nodes: Is it time to
    retire the ping pong test", EuroMPI 2016, https://doi.org/10.1145/2966884.2966919

    Examples
    --------
    >>> import fabricast as fc
    >>> k, n = np.meshgrid([1, 2, 4, 8, 16], 2.0 ** np.arange(10, 21))
    >>> times = 2e-6 + k * n / np.minimum(10e9, k * 3e9)
    >>> df = pd.DataFrame({"processes": k.ravel(), "size_bytes": n.ravel(), "time_s": times.ravel()})
    >>> fit = fc.fit_max_rate(df, model="maxrate", draws=20).set_index("parameter")
    >>> (fit["value"] / [1e-6, 1e9, 1e9]).round(3).to_dict()
    {'s': 2.0, 'r_n': 10.0, 'r_c': 3.0}
    """
    check_count("draws", draws, 100_000, least=20)
    check_seed(seed)
    check_count("node_pairs", node_pairs, 1_000_000)
    for count in processes.values() if isinstance(processes, Mapping) else [processes]:
        if count is not None:
            check_count("processes", count, 1_000_000)
    path: str | None = None
    if isinstance(measurements, pd.DataFrame):
        if isinstance(processes, Mapping):
            raise InputError("is a mapping, expected a number or None for a table", argument="processes")
        check_counts_of_table(processes, node_pairs)
        rows = _checked(measurements)
    else:
        path = next(iter(paths_of(measurements)), None)
        if path is None:
            raise InputError("is empty, expected at least one file", argument="measurements")
        found = datasets_of_facts(message_facts(measurements), processes=processes, node_pairs=node_pairs)
        rows = pd.concat([part for _, part in found], ignore_index=True)
    records: list[dict[str, object]] = []
    limits = {"smallest_bytes": smallest_bytes, "largest_bytes": largest_bytes}
    for fit in fit_datasets(rows, model, **limits, draws=draws, seed=seed, path=path):
        records += records_of(fit, **limits)
    return pd.DataFrame(records)


def records_of(
    fit: DatasetFit, smallest_bytes: float = 0.0, largest_bytes: float = np.inf
) -> Iterator[dict[str, object]]:
    """Yield one row for each parameter of each protocol."""
    if fit.windowed is not None:
        found = fit.windowed
        error = (found.median_error, found.largest_error)
        r_c = (np.nan, np.nan) if fit.has_large_messages else None
        yield _record(fit, "windowed", smallest_bytes, largest_bytes, "g", found.gap_s, (np.nan, np.nan), error)
        yield _record(fit, "windowed", smallest_bytes, largest_bytes, "r_c", found.bytes_per_s, r_c, error)
        return
    errors = summarise(fit.fitted.predict(fit.cells), fit.times)
    error = (errors.median, errors.largest)
    pieces: list[tuple[float, float, MaxRateRegressor]] = [(smallest_bytes, largest_bytes, fit.regressor)]
    if fit.protocols is not None:
        pieces = fit.protocols.pieces(smallest_bytes, largest_bytes)
    for first, last, regressor in pieces:
        for name, value in regressor.parameters_.items():
            interval = fit.intervals[name] if fit.protocols is None else (np.nan, np.nan)
            yield _record(fit, fit.model, first, last, name, value, interval, error)


def _record(
    fit: DatasetFit,
    model: str,
    from_bytes: float,
    to_bytes: float,
    name: str,
    value: float,
    interval: tuple[float, float] | None,
    error: tuple[float, float],
) -> dict[str, object]:
    """Return the row of a parameter; no interval means that the data do not determine it.

    `error` is the median and the largest relative error of the fit.
    """
    low, high = (np.nan, np.nan) if interval is None else interval
    return {
        "dataset": fit.dataset,
        "model": model,
        "convention": fit.convention,
        "from_bytes": from_bytes,
        "to_bytes": to_bytes,
        "parameter": name,
        "value": np.nan if interval is None else value,
        "unit": _UNITS[name[0]],
        "low": low,
        "high": high,
        "determined": interval is not None,
        "median_error": error[0],
        "largest_error": error[1],
    }


def _checked(measurements: pd.DataFrame) -> pd.DataFrame:
    rows = measurements.copy()
    needed = ["processes", "size_bytes", "time_s"]
    missing = [name for name in needed if name not in rows]
    if missing:
        raise InputError(f"lacks the columns {', '.join(missing)}", argument="measurements")
    numbers = rows[needed].apply(pd.to_numeric, errors="coerce")
    wrong = ~((numbers > 0) & np.isfinite(numbers)).all(axis=1)
    wrong |= (numbers["processes"] % 1 != 0) | (rows["processes"].map(lambda value: isinstance(value, bool)))
    if wrong.any():
        raise InputError(
            f"contains {int(wrong.sum())} invalid rows, expected positive numbers and whole numbers of processes",
            argument="measurements",
        )
    rows[needed] = numbers
    for name, default in (("dataset", "mine"), ("convention", "one_way")):
        if name not in rows:
            rows[name] = default
    unknown = sorted(set(rows["convention"]) - set(CONVENTIONS))
    if unknown:
        raise unknown_name("convention", unknown[0], CONVENTIONS)
    return rows
