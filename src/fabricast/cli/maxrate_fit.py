"""Output of `fabricast fit`: parameters with intervals, errors, and exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.api.maxrate import (
    FEWEST_CELLS,
    FEWEST_SIZES,
    LARGEST_RATIO,
    RATE_BYTES,
    DatasetFit,
    fit_datasets,
    largest_rates,
    records_of,
    within_largest,
)
from fabricast.api.messages import assumes_one_way, datasets_of_facts, message_facts, netgauge_tables
from fabricast.core.errors import InputError
from fabricast.core.facts import Facts
from fabricast.core.number_text import duration_text, size_text
from fabricast.core.seeds import random_generator
from fabricast.maxrate.fitting import MaxRateRegressor, blocked_predictions, summarise
from fabricast.maxrate.intervals import parameter_intervals
from fabricast.maxrate.loggp import LogGOPS, from_maxrate, from_netgauge, read_netgauge, simgrid_properties
from fabricast.maxrate.models import CONVENTIONS, FORMS
from fabricast.maxrate.protocols import ProtocolRegressor, late_switch

_UNITS = {"s": (1e6, "us"), "r": (1e-9, "GB/s"), "k": (1.0, "processes")}


class FitOptions(NamedTuple):
    """Options of a fit."""

    model: str | None
    processes: int | Mapping[str, int] | None
    node_pairs: int
    smallest_bytes: float
    largest_bytes: float
    draws: int
    seed: int
    #: Numbers of processes and sizes in bytes whose times are forecast.
    cells: tuple[tuple[int, float], ...] = ()


def fit_lines(files: Sequence[str], options: FitOptions) -> Iterator[str]:
    """Fit a model to every data set of some files and yield the lines to print."""
    facts = message_facts(files)
    fits = []
    if assumes_one_way(facts):
        yield "assumed: one-way times; a column convention of the table states others (round_trip, windowed)"
    for fit in _fits(facts, options):
        fits.append(fit)
        yield from _dataset_lines(fit, options)
        yield from _forecast_lines(fit, options)
    yield from _joint_line(fits)
    for path, text in netgauge_tables(facts):
        yield f"  LogGOPS (ns, with netgauge's estimators, L without the overhead o): {_netgauge_line(path, text)}"
    for problem in facts.problems:
        yield f"  left out: {problem}"


def fit_table(files: Sequence[str], options: FitOptions) -> pd.DataFrame:
    """Fit a model to every data set of some files and return one row for each parameter, with its 95 % interval."""
    sizes = options.smallest_bytes, options.largest_bytes
    return pd.DataFrame([row for fit in _fits(message_facts(files), options) for row in records_of(fit, *sizes)])


def _fits(facts: Facts, options: FitOptions) -> Iterator[DatasetFit]:
    """Yield the fit of each data set of some files."""
    for path, rows in datasets_of_facts(facts, processes=options.processes, node_pairs=options.node_pairs):
        yield from fit_datasets(
            rows,
            options.model,
            smallest_bytes=options.smallest_bytes,
            largest_bytes=options.largest_bytes,
            draws=options.draws,
            seed=options.seed,
            path=path,
        )


def _joint_line(fits: Sequence[DatasetFit]) -> Iterator[str]:
    """Yield the parameters that a latency test and a windowed test determine together, if there is one of each."""
    latency = [fit for fit in fits if fit.convention != "windowed" and (fit.cells[:, 1] == 1).any()]
    windowed = [fit for fit in fits if fit.convention == "windowed" and (fit.cells[:, 1] == 1).sum() >= FEWEST_CELLS]
    if len(latency) != 1 or len(windowed) != 1 or max(fit.cells[:, 0].min() for fit in fits) > _SMALL_BYTES:
        return
    cells, times = windowed[0].cells, windowed[0].times
    one = cells[:, 1] == 1
    overlap = windowed[0].windowed
    of_protocol = _largest_protocol(cells[one], times[one])[0] if overlap is None else overlap.bytes_per_s
    rate = within_largest(of_protocol, largest_rates(cells, times)[1])
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
    """Return the LogGOPS parameters determined by netgauge's message trains, whose L includes 2 o."""
    try:
        found = from_netgauge(read_netgauge(path, text=text))
        if not (found.overhead_s >= 0 and found.gap_s >= 0 and found.gap_s_per_byte > 0):
            return "not determined (its trains of messages contradict its single messages: o or g is not positive)"
        if found.latency_s < 2 * found.overhead_s:
            return "not determined (the time of the smallest message is shorter than two overheads)"
        return replace(found, latency_s=max(found.latency_s - 2 * found.overhead_s, 0.0)).line()
    except InputError as error:
        return f"not determined ({error.reason})"


def _dataset_lines(fit: DatasetFit, options: FitOptions) -> Iterator[str]:
    dataset, convention, cells, times = fit.dataset, fit.convention, fit.cells, fit.times
    regressor, intervals = fit.regressor, fit.intervals
    counts = np.unique(cells[:, 1]).astype(int)
    shown = ", ".join(map(str, counts)) if counts.size <= 8 else f"{counts[0]} to {counts[-1]}"
    of = _RATES[convention]
    who = "1 process" if shown == "1" else f"{shown} processes"
    what = f"{len(cells)} sizes" if counts.size == 1 else f"{len(cells)} times"
    yield f"{dataset}: {what}, {who}, {convention.replace('_', '-')} times; rates are those of {of}"
    overlap, has_rate = fit.windowed, fit.has_large_messages or "r_c" not in intervals
    if overlap is not None:
        yield "  T = max(g, n / r_c), since the messages of a window overlap:"
        r_c = f"r_c {overlap.bytes_per_s / 1e9:.4g} GB/s" if has_rate else "r_c not determined by messages so small"
        yield f"    g {overlap.gap_s * 1e6:.4g} us, {r_c}"
    elif fit.protocols is not None:
        yield from _protocol_lines(fit.protocols)
        yield from _late_switch_lines(fit.protocols, cells[:, 0], convention)
    else:
        of_many = "k processes, " if counts[-1] > 1 else ""
        yield f"  T = {FORMS[fit.model].formula}  ({of_many}messages of n bytes)"
        for name, value in regressor.parameters_.items():
            yield f"  {name:4} {_with_interval(value, intervals[name], *_UNITS[name[0]])}"
    yield from _smallest_lines(cells, times, convention, has_protocols=fit.protocols is not None)
    missing = [name for name, interval in intervals.items() if interval is None]
    is_of_several = counts.size == 1 and counts[0] > 1
    rates = _rates_together(fit, counts, options) if missing or is_of_several else {}
    for count, (value, interval) in rates.items():
        who = f"{count} processes together" if count > 1 else "1 process (isolated)"
        what = "long messages" if _is_of_long(value, count, cells, times) else "messages of any size"
        yield f"  {who}, {what}: {_with_interval(value, interval, 1e-9, 'GB/s')}"
    if convention == "windowed" and counts[-1] > 1:
        yield _message_rate(cells, times)
    advice_of = {name: _ADVICE[name].removeprefix("a single process, or " if 1 in rates else "") for name in missing}
    if cells[:, 0].min() < _SMALL_BYTES:
        # The file has small messages already.
        advice_of.pop("s", None)
    if convention == "windowed" and _saturates(cells, times):
        largest = largest_rates(cells, times)
        share = largest[1] / max(largest.values())
        yield f"  one process reaches {share:.0%} of the rate of all of them, so that r_c is not determined beyond it"
        advice_of = {}
    if not has_rate:
        advice_of = dict.fromkeys(missing, f"messages of {size_text(RATE_BYTES)} or more")
    for advice in dict.fromkeys(advice_of.values()):
        yield f"  to determine {', '.join(name for name in missing if advice_of.get(name) == advice)}: {advice}"
    if overlap is not None:
        yield f"  error: median {overlap.median_error:.1%}, largest {overlap.largest_error:.1%}"
        per_byte = f" -G {1e9 / overlap.bytes_per_s:.4g}" if has_rate else ""
        gap = f"-g {overlap.gap_s * 1e9:.4g}"
        yield f"  LogGOPS: windowed times do not determine L ({gap}{per_byte}); a latency test does"
        return
    errors = summarise(fit.fitted.predict(cells), times)
    yield f"  error: median {errors.median:.1%}, 90 % of times below {errors.p90:.1%}, largest {errors.largest:.1%}"
    yield from _fastest_line(fit, cells, times)
    if errors.median > _MISFIT or errors.p90 > _WIDE_MISFIT or errors.largest > _LARGEST_MISFIT:
        yield f"  the formula does not fit these times: {_misfit_reason(fit, cells, times)}"
    unseen = blocked_predictions(regressor, cells, times, cells[:, 1])
    if np.isfinite(unseen).all():
        yield f"  error on process counts left out of the fit: median {summarise(unseen, times).median:.1%}"
    yield from _export_lines(fit, rates)


def _forecast_lines(fit: DatasetFit, options: FitOptions) -> Iterator[str]:
    """Yield the forecast times of wanted numbers of processes and sizes."""
    if not options.cells:
        return
    counts, sizes = fit.cells[:, 1], fit.cells[:, 0]
    wanted = np.array([(size, count) for count, size in options.cells], dtype=np.float64)
    for (size, count), time_s in zip(wanted.tolist(), fit.times_s(wanted).tolist(), strict=True):
        who = f"  forecast: {count:.0f} process{'es' if count > 1 else ''}, {size_text(size)}: "
        if not np.isfinite(time_s):
            yield f"{who}unknown, the data have {counts[0]:.0f} process{'es' if counts[0] > 1 else ''} only"
            continue
        rate = size * count / time_s * CONVENTIONS[fit.convention]
        is_beyond = not (counts.min() <= count <= counts.max() and sizes.min() <= size <= sizes.max())
        beyond = ", beyond the measured processes and sizes" if is_beyond else ""
        what = "in each direction" if "bidirectional" in fit.dataset else "in total"
        yield f"{who}{duration_text(time_s)}, {rate / 1e9:.3g} GB/s {what}{beyond}"


def _is_of_long(rate: float, count: int, cells: NDArray[np.float64], times: NDArray[np.float64]) -> bool:
    """Return whether a rate is not that of a small size that happens to be the fastest one."""
    rates = np.where(cells[:, 1] == count, cells[:, 0] * cells[:, 1] / times, 0.0)
    return bool(rate != rates.max() or cells[int(np.argmax(rates)), 0] >= RATE_BYTES)


def _fastest_line(fit: DatasetFit, cells: NDArray[np.float64], times: NDArray[np.float64]) -> Iterator[str]:
    """Yield the fastest size of one process, if no line of the fit is so fast."""
    if fit.convention == "windowed" or (cells[:, 1] != 1).any() or fit.model != "postal":
        return
    parts = [fit.regressor] if fit.protocols is None else fit.protocols.regressors_
    rates = cells[:, 0] / times * CONVENTIONS[fit.convention]
    place, most = int(np.argmax(rates)), max(part.parameters_["r_c"] for part in parts)
    if rates[place] > most * LARGEST_RATIO and fit.convention == "one_way":
        size, is_largest = size_text(float(cells[place, 0])), cells[place, 0] == cells[:, 0].max()
        more = "the rate still rises at the largest size" if is_largest else "larger messages are slower again"
        yield f"  {size} reach {rates[place] / 1e9:.4g} GB/s, faster than the line: {more}"


def _message_rate(cells: NDArray[np.float64], times: NDArray[np.float64]) -> str:
    """Return the largest number of messages per second, which the formulas do not have."""
    rates = cells[:, 1] / times
    place = int(np.argmax(rates))
    size, count = size_text(float(cells[place, 0])), f"{cells[place, 1]:.0f}"
    return f"  messages: most measured {rates[place] / 1e6:.3g} million per second, of {count} processes at {size}"


def _misfit_reason(fit: DatasetFit, cells: NDArray[np.float64], times: NDArray[np.float64]) -> str:
    """Return what a formula lacks: a limit of messages per second if more processes send hardly more, or protocols."""
    size = cells[:, 0].min()
    of_size = cells[:, 0] == size
    rates = dict(zip(cells[of_size, 1], cells[of_size, 1] / times[of_size], strict=True))
    counts = sorted(rates)
    is_limited = len(counts) > 1 and rates[counts[-1]] < rates[counts[-2]] * (counts[-1] / counts[-2]) ** _HARDLY_MORE
    if fit.convention != "windowed":
        return "fit protocols by themselves (--smallest-bytes, --largest-bytes)"
    if not is_limited:
        return (
            "messages of a window overlap, so that their time is not the sum of start-up and transfer: "
            "'--smallest-bytes 16384' fits the rates"
        )
    # Above this size the bytes take longer than the messages; twice that size, rounded up, has little of both.
    limit = max(rates.values())
    node = max(float((cells[:, 0] * cells[:, 1] / times).max()), 1.0)
    above = 2.0 ** np.ceil(np.log2(4 * node / limit))
    return (
        f"the node sends at most {limit / 1e6:.3g} million messages of {size_text(float(size))} per second, a limit "
        f"that no formula has; '--smallest-bytes {above:.0f}' leaves small messages out"
    )


def _saturates(cells: NDArray[np.float64], times: NDArray[np.float64]) -> bool:
    """Return whether one process reaches the largest rate of all."""
    rates = largest_rates(cells, times)
    return len(rates) > 1 and rates.get(1, 0.0) >= _SATURATES * max(rates.values())


def _protocol_lines(split: ProtocolRegressor) -> Iterator[str]:
    """Yield the line of each protocol."""
    shown = {}
    for first, last, part in split.pieces():
        below, from_ = size_text(last), size_text(first)
        sizes = f"below {below}" if first == 0 else f"from {from_}" if last == np.inf else f"{from_} to below {below}"
        s, r_c = part.parameters_["s"] * 1e6, part.parameters_["r_c"] / 1e9
        shown[sizes] = f"s {s:.3g} us, r_c {r_c:.3g} GB/s"
    if len(set(shown.values())) == 1:
        # Protocols that differ by less than is printed are one.
        yield f"  T = s + n / r_c: {next(iter(shown.values()))}"
        return
    yield "  T = s + n / r_c, with one line for each protocol, because one for all sizes does not fit:"
    for sizes, values in shown.items():
        yield f"    {sizes}: {values}"


def _late_switch_lines(split: ProtocolRegressor, sizes: NDArray[np.float64], convention: str) -> Iterator[str]:
    """Yield the sizes that would be faster with the protocol of larger messages, and the threshold for them."""
    found = late_switch(split, sizes) if convention != "windowed" else None
    if found is not None:
        crossing, last = size_text(found.from_bytes), size_text(found.to_bytes)
        yield (
            f"  messages of {crossing} to {last} would be faster with the protocol of larger ones, at {last} "
            f"{found.factor:.2f} times: lower its threshold to {crossing} (UCX_RNDV_THRESH, I_MPI_EAGER_THRESHOLD)"
        )


def _smallest_lines(
    cells: NDArray[np.float64], times: NDArray[np.float64], convention: str, *, has_protocols: bool
) -> Iterator[str]:
    """Yield the time of the smallest message, and sizes at which the time falls: there the protocol changes."""
    count = cells[:, 1].min()
    one = cells[:, 1] == count
    order = np.argsort(cells[one, 0], kind="stable")
    size, time = cells[one, 0][order], times[one][order]
    who = f"{count:.0f} processes" if count > 1 else "1 process"
    smallest = size_text(float(size[0]))
    if convention == "windowed":
        yield f"  time between messages (gap) at {smallest}, {who}: {time[0] * 1e6:.4g} us"
    else:
        yield f"  latency at {smallest}, {who}: {time[0] * 1e6:.4g} us; s is the start of the fitted protocol"
    # The first sizes of a run are often slow, and fitted protocols name their changes.
    # A fall within the scatter of small messages, whose times are alike, is noise.
    small = time[size <= _FIRST_FALL]
    least = max(_FALL, 1.5 * (1 - float(small.min() / small.max()))) if small.size else _FALL
    falls = np.flatnonzero((time[1:] < time[:-1] * (1 - least)) & (size[1:] >= _FIRST_FALL) & (not has_protocols))
    for place in falls[:2]:
        yield (
            f"  the time falls from {time[place] * 1e6:.4g} us at {size_text(float(size[place]))} to "
            f"{time[place + 1] * 1e6:.4g} us at {size_text(float(size[place + 1]))}: the protocol changes there"
        )


#: Share of the largest rate that one process reaches if it saturates the node.
_SATURATES = 0.9
#: Median error, error of 90 % of the cells, and largest error above which a formula is not that of the times.
_MISFIT, _WIDE_MISFIT, _LARGEST_MISFIT = 0.1, 0.25, 0.5
#: Size in bytes of small messages, and share by which the time falls at a change of the protocol.
_SMALL_BYTES, _FALL, _FIRST_FALL = 1024, 0.05, 64
#: Power of the number of processes with which message rates grow at most if the node limits them.
_HARDLY_MORE = 0.5
_RATES = {"round_trip": "round trips", "one_way": "one-way messages", "windowed": "overlapping one-way messages"}
#: Additional measurements that determine a parameter, by parameter.
_ADVICE = {
    "s": "messages below 1 KiB, where the start-up time dominates",
    **dict.fromkeys(("s0", "s1", "s2"), "small messages at several process counts"),
    **dict.fromkeys(
        ("r_b", "r_c"), "a single process, or several process counts at which the aggregate rate still increases"
    ),
    "r_i": "two or more process counts at which the aggregate rate still increases",
    "r_n": "more processes, until the aggregate rate saturates; if one process saturates the card, the rate of all "
    "processes together is that of the node",
    **dict.fromkeys(("k0", "r_x"), "process counts below and above the onset of overload"),
}


def _with_interval(value: float, interval: tuple[float, float] | None, scale: float, unit: str) -> str:
    if interval is None:
        return "not determined by these data"
    if interval[0] == interval[1]:
        return f"{value * scale:.5g} {unit} (the largest measured rate)"
    # Rates above all measured ones are replaced by the largest.
    most = ", the largest measured rate" if value == interval[1] else ""
    return f"{value * scale:.5g} {unit} ({interval[0] * scale:.5g} to {interval[1] * scale:.5g}{most})"


_Rates = dict[int, tuple[float, tuple[float, float] | None]]


def _rates_together(fit: DatasetFit, counts: NDArray[np.int64], options: FitOptions) -> _Rates:
    """Fit the aggregate rate of long messages for the smallest and largest process count.

    These rates can be fitted even if the data do not identify the parameters of the model.
    """
    rates: _Rates = {}
    cells, times = fit.cells, fit.times
    limits = largest_rates(cells, times) if fit.convention == "windowed" else {}
    for count in sorted({int(counts[0]), int(counts[-1])}):
        selected = cells[:, 1] == count
        if selected.sum() < FEWEST_CELLS:
            continue
        all_bytes = np.column_stack([cells[selected, 0] * count, np.ones(int(selected.sum()))])
        rate, postal, large = _largest_protocol(all_bytes, times[selected])
        generator = random_generator(options.seed, f"maxrate.{fit.dataset}.{count}")
        found = parameter_intervals(
            postal, all_bytes[large], times[selected][large], draws=options.draws, generator=generator
        )
        interval, most = found["r_c"], limits.get(count, np.inf)
        if rate > LARGEST_RATIO * most:
            rate, interval = most, None if interval is None else (min(interval[0], most), most)
        rates[count] = (rate, interval)
    return rates


def _largest_protocol(
    cells: NDArray[np.float64], times: NDArray[np.float64]
) -> tuple[float, MaxRateRegressor, NDArray[np.bool_]]:
    """Return the rate of the protocol of large messages, its fit, and the cells that it has."""
    split = ProtocolRegressor("postal", fewest_sizes=FEWEST_SIZES).fit(cells, times)
    part = split.regressors_[-1]
    return part.parameters_["r_c"], part, cells[:, 0] >= max(split.breakpoints_, default=0.0)


def _export_lines(fit: DatasetFit, rates: _Rates) -> Iterator[str]:
    """Yield LogGOPS parameters and SimGrid factors from the identified parameters only."""
    regressor, intervals, convention = fit.regressor, fit.intervals, fit.convention
    cells, times = fit.cells, fit.times
    usable = {name: regressor.parameters_[name] for name, interval in intervals.items() if interval is not None}
    is_known = rates.get(1, (0.0, None))[1] is not None and fit.has_large_messages
    if "r_c" not in usable and "r_b" not in usable and is_known:
        usable["r_c"] = rates[1][0]
    if fit.protocols is not None:
        usable["r_c"] = fit.protocols.regressors_[-1].parameters_["r_c"]
    rate_names = [name for name in ("r_b", "r_c") if name in usable]
    if convention == "windowed":
        per_byte = f"-G {1e9 / usable[rate_names[0]]:.4g}" if rate_names else "G requires the rate of a single process"
        yield f"  LogGOPS: windowed times do not determine L ({per_byte}); a latency test does"
    elif fit.protocols is not None:
        yield "  LogGOPS (ns; o, g and O are 0, since ping-pongs do not determine them):"
        for first, last, part in fit.protocols.pieces():
            sizes = f"below {size_text(last)}" if first == 0 else f"from {size_text(first)}"
            line = from_maxrate(part.parameters_, convention).line()
            yield f"    {sizes}: {line}"
    elif rate_names and ("s" in usable or "s0" in usable):
        line = from_maxrate(usable, convention).line()
        yield f"  LogGOPS (ns, one protocol; o, g and O are 0, since ping-pongs do not determine them): {line}"
    else:
        yield "  LogGOPS: not determined by these data; start-up time and rate of a single process are required"
    single = cells[:, 1] == 1
    if convention != "windowed" and single.sum() >= FEWEST_CELLS and (fit.protocols is not None or rate_names):
        split = fit.protocols
        if split is None:
            split = ProtocolRegressor("postal", fewest_sizes=FEWEST_SIZES).fit(cells[single], times[single])
        yield "  SimGrid, one process:"
        for line in simgrid_properties(split, convention):
            yield f"    {line}"
