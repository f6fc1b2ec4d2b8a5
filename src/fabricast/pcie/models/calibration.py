"""Calibration of the PCIe model parameters from measured or simulated probes.

Each of the three parameters needs one kind of probe. An isolated copy below a switch determines the bandwidth. An
isolated copy across the root complex determines the crossing cost. A conflict, in which a local and a crossing copy
share one target endpoint, determines tau.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.core.seeds import random_generator
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["PARAMETER_UNITS", "PROBE_COLUMNS", "Estimate", "calibrate", "estimate_frame"]

#: Unit of each parameter, in the order of estimation.
PARAMETER_UNITS = {"bandwidth": "bytes/s", "crossing_cost": "1", "tau": "1"}
#: Columns of probe times: one row per copy; copies of the same graph and repetition start together.
PROBE_COLUMNS = ("graph", "repetition", "source", "target", "size_bytes", "elapsed_s")
_RESAMPLES = 2000
#: Below this number of runs, bootstrap intervals are too narrow and Student's t is used as well.
_FEW_RUNS = 20
#: Largest deviations that count as noise and are clipped to no cost. Larger ones contradict the model.
_FASTEST_CROSSING, _TAU_NOISE = 1.05, 0.02


@dataclass(frozen=True)
class Estimate:
    """One calibrated parameter.

    Parameters
    ----------
    name : str
        Key of `PARAMETER_UNITS`.
    value, ci_low, ci_high : float
        Estimate and its 95 % confidence interval, from the bootstrap and, for fewer than 20 runs, Student's t. All
        three are equal if every probe ran once.
    probes : int
        Number of probe runs used.
    """

    name: str
    value: float
    ci_low: float
    ci_high: float
    probes: int


def _observe(tree: PcieTree, times: pd.DataFrame) -> dict[str, list[NDArray[np.float64]]]:
    """Classify probe runs: isolated local and crossing rates in bytes/s, and conflicts; ignore other graphs."""
    names = tree.endpoint_names
    endpoints = set(names)
    for column in ("size_bytes", "elapsed_s"):
        values = times[column].to_numpy(dtype=np.float64)
        if not (np.isfinite(values) & (values > 0)).all():
            raise InputError(f"{column} of the probes contains values that are not positive numbers")
    runs: dict[str, list[NDArray[np.float64]]] = {"local": [], "crossing": [], "conflict": []}
    for (probe, _), run in times.groupby(["graph", "repetition"], sort=True):
        for name in (*run["source"], *run["target"]):
            if name not in endpoints:
                raise InputError(
                    f"probe '{probe}' names the endpoint '{name}', expected one of {', '.join(names[:16])}"
                )
        if (run["source"] == run["target"]).any():
            raise InputError(f"probe '{probe}' copies an endpoint to itself, expected two different endpoints")
        crossing = [tree.is_crossing(s, t) for s, t in zip(run["source"], run["target"], strict=True)]
        size, elapsed = run["size_bytes"].to_numpy(), run["elapsed_s"].to_numpy()
        routes = [tree.route(str(s), str(t)) for s, t in zip(run["source"], run["target"], strict=True)]
        narrowest = np.array([float(tree.routes.capacity[route].min()) for route in routes])
        if len(run) == 1:
            # Rate on a link of capacity 1.
            runs["crossing" if crossing[0] else "local"].append(size / elapsed / narrowest)
        elif len(run) == 2 and sorted(crossing) == [False, True] and run["target"].nunique() == 1:
            order = np.argsort(crossing)
            runs["conflict"].append(np.concatenate([size[order], elapsed[order], narrowest[order]]))
    return runs


def _raw_tau(conflict: NDArray[np.float64], bandwidth: float, crossing_cost: float) -> float:
    """Return half the difference of the congestion factors of a local and a crossing copy.

    The factors are those while both copies run. After the first copy ends, the second one runs isolated, limited by
    the narrowest link of its route.
    """
    size, elapsed, narrowest = conflict[:2], conflict[2:4], conflict[4:]
    isolated = np.array([bandwidth, bandwidth / crossing_cost]) * narrowest
    first = int(np.argmin(elapsed))
    moved = np.empty(2)
    moved[first] = size[first]
    moved[1 - first] = size[1 - first] - (elapsed[1 - first] - elapsed[first]) * isolated[1 - first]
    rho = moved / elapsed[first] / bandwidth
    return float((rho[0] - rho[1]) / 2)


def _tau(conflict: NDArray[np.float64], bandwidth: float, crossing_cost: float) -> float:
    return float(np.clip(_raw_tau(conflict, bandwidth, crossing_cost), 0.0, 0.999))


def calibrate(tree: PcieTree, times: pd.DataFrame, *, seed: int, resamples: int = _RESAMPLES) -> list[Estimate]:
    """Estimate the model parameters with 95 % confidence intervals.

    Parameters
    ----------
    tree : PcieTree
        Topology of the probes.
    times : pandas.DataFrame
        Probe times with the columns `PROBE_COLUMNS`; graphs of other kinds are ignored.
    seed : int
        Root seed of the bootstrap.
    resamples : int, default 2000
        Number of bootstrap resamples. Runs are drawn within each kind of probe.

    Returns
    -------
    list of Estimate
        The bandwidth, followed by crossing cost and tau if the probes determine them.

    Raises
    ------
    InputError
        If there is no isolated copy below a switch (on a tree without switches: no isolated copy), if a probe is not
        of one of the three kinds, or if the probes contradict the topology.

    Examples
    --------
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.packets.probes import simulate_probes
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> times = simulate_probes(storm8, HARDWARE["split_256_128"], size_bytes=300 * 2**20)
    >>> {estimate.name: round(estimate.value, 3) for estimate in calibrate(storm8, times, seed=1)}
    {'bandwidth': 14403481318.767, 'crossing_cost': 1.086, 'tau': 0.162}
    """
    runs = _observe(tree, times)
    names = tree.endpoint_names
    has_local_path = any(not tree.is_crossing(s, t) for s in names for t in names if s != t)
    isolated = runs["local"] if has_local_path else runs["crossing"]
    if not isolated:
        where = " below a switch (not across the root complex)" if has_local_path else ""
        raise InputError(f"no probe is an isolated copy{where}, expected at least one to calibrate the bandwidth")

    def estimate(pick: dict[str, NDArray[np.int64]]) -> dict[str, float]:
        local = np.concatenate([isolated[i] for i in pick["alone"]])
        values = {"bandwidth": float(local.mean())}
        if runs["local"] and runs["crossing"]:
            crossing = np.concatenate([runs["crossing"][i] for i in pick["crossing"]])
            values["crossing_cost"] = max(1.0, values["bandwidth"] / float(crossing.mean()))
        if runs["conflict"]:
            cost = values.get("crossing_cost", 1.0)
            values["tau"] = float(
                np.mean([_tau(runs["conflict"][i], values["bandwidth"], cost) for i in pick["conflict"]])
            )
        return values

    counts = {"alone": len(isolated), "crossing": len(runs["crossing"]), "conflict": len(runs["conflict"])}
    values = estimate({kind: np.arange(count) for kind, count in counts.items()})
    if runs["local"] and runs["crossing"]:
        ratio = float(np.concatenate(runs["crossing"]).mean()) / values["bandwidth"]
        if ratio > _FASTEST_CROSSING:
            raise InputError(
                f"isolated copies across the root complex are {ratio:.2f} times as fast as those below a switch, "
                "expected at most as fast; check that the topology matches these probes"
            )
    if runs["conflict"]:
        raw = min(
            _raw_tau(conflict, values["bandwidth"], values.get("crossing_cost", 1.0)) for conflict in runs["conflict"]
        )
        if raw < -_TAU_NOISE:
            raise InputError(
                f"the crossing copy of a conflict is faster than the local copy (tau is {raw:.3f}), expected at most "
                "as fast; check that the topology matches these probes"
            )
    generator = random_generator(seed, f"pcie.calibration.{tree.name}")
    draws = []
    for _ in range(resamples if max(counts.values()) > 1 else 1):
        # A kind of probe with a single run cannot be resampled and does not widen the interval.
        pick = {kind: generator.integers(0, max(count, 1), size=count) for kind, count in counts.items()}
        draws.append(estimate(pick))
    kind_of = {"bandwidth": "alone", "crossing_cost": "crossing", "tau": "conflict"}
    estimates = []
    for name in PARAMETER_UNITS:
        if name in values:
            count = counts[kind_of[name]]
            low, high = _interval(values[name], [draw[name] for draw in draws], count)
            estimates.append(Estimate(name, values[name], low, high, count))
    return estimates


def _interval(value: float, draws: list[float], count: int) -> tuple[float, float]:
    """Return a 95 % confidence interval.

    For few runs, it is widened to the interval of Student's t, because resamples stay within the range of the runs.
    """
    low, high = (float(end) for end in np.percentile(draws, [2.5, 97.5]))
    if not 1 < count < _FEW_RUNS:
        return low, high
    from scipy.special import stdtrit  # slow import

    # The bootstrap variance of a mean of n runs is too small by a factor (n - 1) / n.
    half = float(stdtrit(count - 1, 0.975) * np.std(draws) * np.sqrt(count / (count - 1)))
    return min(low, max(value - half, 0.0)), max(high, value + half)


def estimate_frame(estimates: list[Estimate], *, system: str, tag: str, source: str) -> pd.DataFrame:
    """Return estimates as rows of the table ``parameter``.

    Parameters
    ----------
    estimates : list of Estimate
        Calibrated parameters.
    system, tag, source : str
        Values of the columns with these names.

    Returns
    -------
    pandas.DataFrame
        Rows with the columns of the table in schema.sql.
    """
    return pd.DataFrame(
        [
            {
                "study": "pcie",
                "system": system,
                "name": estimate.name,
                "value": estimate.value,
                "unit": PARAMETER_UNITS[estimate.name],
                "tag": tag,
                "source": source,
                "ci_low": estimate.ci_low,
                "ci_high": estimate.ci_high,
            }
            for estimate in estimates
        ]
    )
