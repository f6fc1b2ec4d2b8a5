"""Settings of NCCL in logs that cost time: their cost in a forecast, and those whose cost is not forecast."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from fabricast.core.errors import InputError
from fabricast.core.facts import Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.number_text import size_text
from fabricast.diagnosis.weights import ACCESS, FIRST, SYMPTOM
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.nccl.records import NcclLog

#: Setting that a remedy proposes, not one that it removes.
_PROPOSED = re.compile(r"(?<!remove )(?<!unset )\b(NCCL_\w{2,40})=(\w{1,20})\b")
#: Identifier of a cause.
COSTLY_SETTINGS = "costly_settings"
#: Variables whose cost a forecast states, and others that may slow an operation.
FORECAST_SETTINGS = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_BUFFSIZE",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
    "NCCL_NVLS_ENABLE",
)
_OTHERS = (
    "NCCL_NTHREADS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
    "NCCL_TOPO_FILE",
    "NCCL_GRAPH_FILE",
    "NCCL_LL_THRESHOLD",
    "NCCL_TUNER_CONFIG_PATH",
)
#: Ratio of times from which settings are a cause, that of one of several, and sizes in bytes from which they count.
_COST, _COST_OF_ONE, _LARGE = 1.1, 1.05, 2.0**20
#: Ratio of the measured time to the forecast with the settings above which they may not be the main cause.
_UNEXPLAINED = 1.3
#: Values that switch direct copies off.
SWITCHED_OFF = {"NCCL_P2P_DISABLE": ("1",), "NCCL_P2P_LEVEL": ("LOC", "0")}


def costly_settings(
    fact: Fact, run: Fact | None, forecast: Callable[[NcclLog], pd.DataFrame | None]
) -> Iterator[Finding]:
    """Yield the settings of a run without which its operation is faster in the forecast, and in relation to its times.

    Parameters
    ----------
    fact : Fact
        Measured table.
    run : Fact, optional
        Statements of NCCL about the run.
    forecast : callable
        Function that returns size_bytes, time_us and measured_us with the settings of a log.
    """
    if run is None:
        return
    log: NcclLog = run.value
    chosen = [name for name in FORECAST_SETTINGS if name in log.environment]
    if not chosen:
        return
    others = {name: value for name, value in log.environment.items() if name not in chosen}
    try:
        now, plain = (forecast(_with(log, one)) for one in (log.environment, others))
        if now is None or plain is None:
            return
        place = _place(now, plain)
        if place is None:
            return
        plain_us = plain["time_us"].to_numpy(dtype=float)[place]
        alone = {
            name: now if len(chosen) == 1 else forecast(_with(log, {**others, name: log.environment[name]}))
            for name in chosen
        }
    except InputError:
        return
    costly = [
        name for name, one in alone.items() if one is not None and one["time_us"].iloc[place] > _COST_OF_ONE * plain_us
    ] or chosen
    # The measured time limits what a change can gain.
    slow_us = float(np.nanmin([now["time_us"].iloc[place], now["measured_us"].iloc[place]]))
    gain = slow_us / float(plain_us)
    words = " and ".join(f"{name}={log.environment[name]}" for name in costly)
    text = (
        f"{words} {'is' if len(costly) == 1 else 'are'} set; without {'it' if len(costly) == 1 else 'them'}, "
        f"{fact.value.operation} of {size_text(float(now['size_bytes'].iloc[place]))} is {gain:.2f} times as fast in "
        "the forecast"
    )
    # What the settings leave unexplained may be the larger part.
    rest = now["measured_us"].to_numpy(dtype=float) / now["time_us"].to_numpy(dtype=float)
    is_main = np.nanmax(rest[place:]) <= max(gain, _UNEXPLAINED)
    weight = ACCESS + 0.2 if is_main else SYMPTOM - 0.05
    yield Finding(
        COSTLY_SETTINGS, text, f"unset {' '.join(costly)}", weight, origin=_line(run.place.path, log, costly[0])
    )


def _place(now: pd.DataFrame, plain: pd.DataFrame) -> int | None:
    """Return the position of the largest size at which settings cost time; None if measured times refute it."""
    ratio = (now["time_us"] / plain["time_us"]).to_numpy(dtype=float)
    measured = now["measured_us"].to_numpy(dtype=float) / plain["time_us"].to_numpy(dtype=float)
    is_costly = (now["size_bytes"].to_numpy() >= _LARGE) & (ratio > _COST) & (measured > _COST)
    places = np.flatnonzero(is_costly)
    return int(places[-1]) if places.size else None


def _with(log: NcclLog, environment: Mapping[str, str]) -> NcclLog:
    """Return a log with other settings, without the rings and choices of its run."""
    return replace(
        log, environment=dict(environment), orders={}, patterns={}, coll_channels=None, choices=[], fallbacks=[]
    )


def settings_without_forecast(run: Fact | None) -> Iterator[Finding]:
    """Yield settings of a slow run whose cost no forecast states."""
    if run is None:
        return
    log: NcclLog = run.value
    found = [name for name in _OTHERS if name in log.environment]
    if not found:
        return
    words = " and ".join(f"{name}={log.environment[name]}" for name in found)
    text = f"{words} {'is' if len(found) == 1 else 'are'} set in a slow run; the cost is not forecast"
    remedy = f"measure again without {' '.join(found)}"
    yield Finding("settings_to_check", text, remedy, ACCESS - 0.1, origin=_line(run.place.path, log, found[0]))


def _line(path: str, log: NcclLog, name: str) -> str:
    line = log.lines.get(name)
    return f"{path}:{line}" if line else path


def with_settings_in_use(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Return findings whose remedies state which of their settings the logs have already."""
    used = {name: value for run in facts.values(Quantity.NCCL_RUN) for name, value in run.environment.items()}
    found = []
    for one in findings:
        already = [f"{name}={value}" for name, value in _PROPOSED.findall(one.remedy) if used.get(name) == value]
        words = f"{one.remedy} ({' and '.join(already)} {'are' if len(already) > 1 else 'is'} set already)"
        found.append(replace(one, remedy=words) if already else one)
    return found


def switched_off_links(facts: Facts) -> Iterator[Finding]:
    """Yield settings that switch direct copies off on machines whose files state NVLinks."""
    if not _has_links(facts):
        return
    for fact in facts.of(Quantity.NCCL_RUN):
        log: NcclLog = fact.value
        for name, values in SWITCHED_OFF.items():
            if log.environment.get(name, "").upper() in values:
                setting = f"{name}={log.environment[name]}"
                text = f"{setting} is set, so that the GPUs do not use their NVLinks: data pass through host memory"
                yield Finding(
                    "links_switched_off", text, f"unset {name}", FIRST - 2, origin=_line(fact.place.path, log, name)
                )
                return


def _has_links(facts: Facts) -> bool:
    """Return whether a file states active NVLinks, or GPUs that have them on every machine."""
    if any(facts.values(Quantity.NVLINKS)):
        return True
    names = [str(name) for name in facts.values(Quantity.GPU_MODEL)]
    names += [gpu for table in facts.values(Quantity.COLLECTIVE) for gpu in table.gpus[:1]]
    return any(is_known_gpu(name) and gpu_model(name).is_always_linked for name in names)
