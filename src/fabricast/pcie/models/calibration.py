"""Parameters of the PCIe models from a few probes, measured or simulated.

Three parameters need three kinds of probe: one copy alone below a switch gives the
bandwidth, one copy alone across the root complex gives the crossing cost, one conflict
of a local and a crossing copy for the same endpoint gives tau.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.core.seeds import random_generator
from fabricast.inputs.csv_files import read_csv
from fabricast.pcie.graphs.files import LARGEST_BYTES, SMALLEST_BYTES
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["PARAMETER_UNITS", "Estimate", "calibrate", "estimate_frame", "read_probe_times"]

#: Parameters in the order in which they are estimated, with their units.
PARAMETER_UNITS = {"bandwidth": "bytes/s", "crossing_cost": "1", "tau": "1"}
_COLUMNS = ("probe", "repeat", "source", "target", "size_bytes", "elapsed_s")
_RESAMPLES = 2000
#: Resamples of fewer runs than this reach no further than the runs themselves.
_FEW_RUNS = 20
#: Beyond these the probes contradict the model; less is noise, and taken as no cost.
_FASTEST_CROSSING, _TAU_NOISE = 1.05, 0.02


@dataclass(frozen=True)
class Estimate:
    """One calibrated parameter.

    Parameters
    ----------
    name : str
        Key of `PARAMETER_UNITS`.
    value, ci_low, ci_high : float
        Estimate and its 95 % interval, by bootstrap and of few runs Student's t; equal if every probe ran once.
    probes : int
        Runs behind it.
    """

    name: str
    value: float
    ci_low: float
    ci_high: float
    probes: int


def read_probe_times(path: Path | str) -> pd.DataFrame:
    """Read probe times from CSV.

    Parameters
    ----------
    path : Path or str
        File with the columns probe, repeat, source, target, size_bytes, elapsed_s: one row
        a copy, copies of one probe and repeat started together.

    Returns
    -------
    pandas.DataFrame
        The rows.

    Raises
    ------
    InputError
        On the first row that is wrong.
    """
    rows = []
    for row in read_csv(path, _COLUMNS):
        size_bytes, elapsed_s = row.number("size_bytes"), row.number("elapsed_s")
        if not (SMALLEST_BYTES <= size_bytes <= LARGEST_BYTES and 1e-12 <= elapsed_s <= 1e9):
            raise row.error(
                f"size_bytes is {size_bytes:g} and elapsed_s is {elapsed_s:g}, expected positive numbers of bytes and "
                "seconds"
            )
        rows.append((row["probe"], row["repeat"], row["source"], row["target"], size_bytes, elapsed_s))
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _observe(tree: PcieTree, times: pd.DataFrame) -> dict[str, list[NDArray[np.float64]]]:
    """Sort probe runs by what they tell: local and crossing rates alone, and conflicts."""
    names = tree.endpoint_names
    known = set(names)
    found: dict[str, list[NDArray[np.float64]]] = {"local": [], "crossing": [], "conflict": []}
    for (probe, _), run in times.groupby(["probe", "repeat"], sort=True):
        for name in (*run["source"], *run["target"]):
            if name not in known:
                raise InputError(
                    f"probe '{probe}' names the endpoint '{name}', expected one of {', '.join(names[:16])}"
                )
        if (run["source"] == run["target"]).any():
            raise InputError(f"probe '{probe}' copies an endpoint to itself")
        crossing = [tree.is_crossing(s, t) for s, t in zip(run["source"], run["target"], strict=True)]
        size, elapsed = run["size_bytes"].to_numpy(), run["elapsed_s"].to_numpy()
        if len(run) == 1:
            # What a link of capacity 1 would have given.
            route = tree.route(str(run["source"].iloc[0]), str(run["target"].iloc[0]))
            narrowest = float(tree.routes.capacity[route].min())
            found["crossing" if crossing[0] else "local"].append(size / elapsed / narrowest)
        elif len(run) == 2 and sorted(crossing) == [False, True] and run["target"].nunique() == 1:
            order = np.argsort(crossing)
            found["conflict"].append(np.concatenate([size[order], elapsed[order]]))
        else:
            raise InputError(
                f"probe '{probe}' has {len(run)} copies, expected one copy alone, or one local and one crossing "
                "copy to the same endpoint"
            )
    return found


def _raw_tau(conflict: NDArray[np.float64], bandwidth: float, crossing_cost: float) -> float:
    """Half the difference of the two factors while both copies run; the second ends alone."""
    size, elapsed = conflict[:2], conflict[2:]
    alone = np.array([bandwidth, bandwidth / crossing_cost])
    first = int(np.argmin(elapsed))
    moved = np.empty(2)
    moved[first] = size[first]
    moved[1 - first] = size[1 - first] - (elapsed[1 - first] - elapsed[first]) * alone[1 - first]
    rho = moved / elapsed[first] / bandwidth
    return float((rho[0] - rho[1]) / 2)


def _tau(conflict: NDArray[np.float64], bandwidth: float, crossing_cost: float) -> float:
    return float(np.clip(_raw_tau(conflict, bandwidth, crossing_cost), 0.0, 0.999))


def calibrate(tree: PcieTree, times: pd.DataFrame, *, seed: int, resamples: int = _RESAMPLES) -> list[Estimate]:
    """Estimate the models' parameters with bootstrap intervals.

    Parameters
    ----------
    tree : PcieTree
        Topology of the probes.
    times : pandas.DataFrame
        Probe times as `read_probe_times` gives.
    seed : int
        Root seed of the bootstrap.
    resamples : int, default 2000
        Bootstrap resamples; runs are drawn within each kind of probe.

    Returns
    -------
    list of Estimate
        The bandwidth, then those of crossing cost and tau that the probes tell.

    Raises
    ------
    InputError
        If no copy ran alone below a switch (on a tree without switches: alone at all), or
        a probe is none of the three kinds.

    Examples
    --------
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> times = simulate_probes(storm8, HARDWARE["split_256_128"], size_bytes=300 * 2**20)
    >>> {estimate.name: round(estimate.value, 3) for estimate in calibrate(storm8, times, seed=1)}
    {'bandwidth': 14403481318.767, 'crossing_cost': 1.086, 'tau': 0.162}
    """
    found = _observe(tree, times)
    names = tree.endpoint_names
    has_local = any(not tree.is_crossing(s, t) for s in names for t in names if s != t)
    alone = found["local"] if has_local else found["crossing"]
    if not alone:
        where = " below a switch, not across the root complex" if has_local else ""
        raise InputError(f"no probe is one copy alone{where}, expected at least one: it gives the bandwidth")

    def estimate(pick: dict[str, NDArray[np.int64]]) -> dict[str, float]:
        local = np.concatenate([alone[i] for i in pick["alone"]])
        values = {"bandwidth": float(local.mean())}
        if found["local"] and found["crossing"]:
            crossing = np.concatenate([found["crossing"][i] for i in pick["crossing"]])
            values["crossing_cost"] = max(1.0, values["bandwidth"] / float(crossing.mean()))
        if found["conflict"]:
            cost = values.get("crossing_cost", 1.0)
            values["tau"] = float(
                np.mean([_tau(found["conflict"][i], values["bandwidth"], cost) for i in pick["conflict"]])
            )
        return values

    counts = {"alone": len(alone), "crossing": len(found["crossing"]), "conflict": len(found["conflict"])}
    values = estimate({kind: np.arange(count) for kind, count in counts.items()})
    if found["local"] and found["crossing"]:
        ratio = float(np.concatenate(found["crossing"]).mean()) / values["bandwidth"]
        if ratio > _FASTEST_CROSSING:
            raise InputError(
                f"copies across the root complex alone are {ratio:.2f} times as fast as those below a switch, expected "
                "at most as fast: the topology does not fit these probes"
            )
    if found["conflict"]:
        raw = min(_raw_tau(one, values["bandwidth"], values.get("crossing_cost", 1.0)) for one in found["conflict"])
        if raw < -_TAU_NOISE:
            raise InputError(
                f"the crossing copy of a conflict gets more than the local one (tau would be {raw:.3f}), expected at "
                "most as much: the topology does not fit these probes"
            )
    generator = random_generator(seed, f"pcie.calibration.{tree.name}")
    draws = []
    for _ in range(resamples if max(counts.values()) > 1 else 1):
        # A kind that ran once cannot be resampled; it adds nothing to the interval.
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
    """Return a 95 % interval; of few runs by Student's t, as their resamples reach no further than the runs."""
    low, high = (float(end) for end in np.percentile(draws, [2.5, 97.5]))
    if not 1 < count < _FEW_RUNS:
        return low, high
    from scipy.special import stdtrit  # 0.2 s: only where it is needed

    # A resample of n runs spreads less than means of n runs do, by the part that their own mean takes.
    half = float(stdtrit(count - 1, 0.975) * np.std(draws) * np.sqrt(count / (count - 1)))
    return min(low, max(value - half, 0.0)), max(high, value + half)


def estimate_frame(estimates: list[Estimate], *, system: str, tag: str, source: str) -> pd.DataFrame:
    """Return estimates as rows of the table parameter.

    Parameters
    ----------
    estimates : list of Estimate
        What was calibrated.
    system, tag, source : str
        Columns of that name.

    Returns
    -------
    pandas.DataFrame
        Rows as in schema.sql.
    """
    return pd.DataFrame(
        [
            {
                "study": "pcie", "system": system, "name": estimate.name, "value": estimate.value,
                "unit": PARAMETER_UNITS[estimate.name], "tag": tag, "source": source,
                "ci_low": estimate.ci_low, "ci_high": estimate.ci_high,
            }
            for estimate in estimates
        ]
    )  # fmt: skip
