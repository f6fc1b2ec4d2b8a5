"""Effect of faster components on the time of small messages (what-if analysis)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fabricast.api.messages import message_facts, message_times
from fabricast.breakdown.components import GROUPS, METRICS, System, form, read_system_file, read_systems
from fabricast.breakdown.whatif import reduce_components, share_of
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.resources import published
from fabricast.core.resources import systems as example_systems

#: Largest message of the breakdown in bytes, whose payload is part of the descriptor, and that of the publication.
_MOST_BYTES, _MESSAGE_BYTES = 64, 8
#: Number of pairs of tests that do not print it.
_SEVERAL = 2
#: Totals that bound each measured time: the layers between MPI and the network card have no times of their own.
_TOTALS = {
    "osu_latency": ("latency", "latency"),
    "imb_pingpong": ("latency", "latency"),
    "osu_bandwidth": ("injection", "injection"),
    **dict.fromkeys(("tag_latency", "ucp_latency", "ucx_latency"), ("latency_llp", "latency")),
    **dict.fromkeys(("transport_latency", "ib_write_lat", "ib_send_lat"), ("latency_llp", "latency_llp")),
    **dict.fromkeys(("transport_bandwidth", "ib_write_bw", "ib_send_bw"), ("injection_llp", "injection_llp")),
}


@dataclass(frozen=True)
class WhatIf:
    """Effect of component reductions on a total time.

    Parameters
    ----------
    system, metric : str
        Name of the system and of the total.
    before_ns, after_ns : float
        Total in ns before and after the reductions.
    share_removed : float
        Removed fraction of the total.
    speedup : float
        Total before divided by total after the reductions.
    shares : pandas.DataFrame
        Columns part, share: share of each component and group in the total, the upper bound of what a reduction of
        this component can remove.
    assumed : tuple of str
        Components with assumed times, which are neither published nor measured.
    recalled : tuple of str
        Components whose times are quoted from the paper from memory.
    """

    system: str
    metric: str
    before_ns: float
    after_ns: float
    share_removed: float
    speedup: float
    shares: pd.DataFrame
    assumed: tuple[str, ...]
    recalled: tuple[str, ...] = ()

    def __repr__(self) -> str:
        origins = {"assumed": self.assumed, "quoted from the paper from memory": self.recalled}
        notes = "".join(f"\n{words}: {', '.join(names)}" for words, names in origins.items() if names)
        return (
            f"{METRICS[self.metric]} of {self.system}: {self.before_ns:.2f} ns, then {self.after_ns:.2f} ns "
            f"({self.share_removed:.2%} removed, {self.speedup:.4f} times as fast){notes}"
        )

    def _repr_html_(self) -> str:
        return (
            f"<p>{METRICS[self.metric]}: {self.before_ns:.2f} ns, then {self.after_ns:.2f} ns "
            f"({self.share_removed:.2%} removed, {self.speedup:.4f} times as fast)</p>"
            + self.shares.to_html(index=False, formatters={"share": "{:.2%}".format})
        )


def load_system(name: str | Path) -> System:
    """Return a published system, or read a system from YAML.

    >>> load_system("thunderx2").posts_per_completion
    64
    """
    if str(name).lower().endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise InputError("does not exist", path=name)
        return read_system_file(name)
    systems = {system.system: system for system in read_systems(published() / "breakdown_components.csv")}
    examples = {path.stem: path for path in sorted(example_systems().glob("*.yaml"))}
    if str(name) in examples:
        return read_system_file(examples[str(name)])
    if str(name) not in systems:
        raise unknown_name("system", str(name), [*systems, *examples], otherwise=" or a .yaml file")
    return systems[str(name)]


@with_checked_types
def what_if(system: str | Path | System, *, metric: str = "latency", **reductions: float) -> WhatIf:
    """Compute how faster components change the total time of a small message.

    Component times add up. A reduction of one component does not change the others.

    Parameters
    ----------
    system : str, Path or System
        Name of a published system (thunderx2), .yaml file, or system.
    metric : str, default 'latency'
        Total time: injection, injection_llp, latency or latency_llp.
    **reductions : float
        Fraction, 0 to 1, to remove from components or groups, such as ``pio_copy=0.84``.

    Returns
    -------
    WhatIf
        Totals before and after the reductions, and the share of each component and group.

    Raises
    ------
    InputError
        If a name is unknown or a reduction is not between 0 and 1.

    References
    ----------
    Zambre et al., "Breaking Band: A breakdown of high-performance communication", ICPP 2019,
    https://doi.org/10.1145/3337821.3337910: T' = T - y X.

    Examples
    --------
    >>> import fabricast as fc
    >>> round(fc.what_if("thunderx2", metric="injection", hlp=0.2).share_removed, 4)
    0.0645
    """
    machine = system if isinstance(system, System) else load_system(system)
    outcome = reduce_components(machine, metric, reductions)
    weights = form(metric, machine.posts_per_completion)
    parts = [name for name, members in GROUPS.items() if any(member in weights for member in members)]
    return WhatIf(
        system=machine.system,
        metric=metric,
        before_ns=outcome.before_ns,
        after_ns=outcome.after_ns,
        share_removed=outcome.share_removed,
        speedup=outcome.speedup_ratio,
        shares=pd.DataFrame({"part": parts, "share": [share_of(machine, metric, name) for name in parts]}),
        assumed=_of_origin(machine, weights, "assumed"),
        recalled=_of_origin(machine, weights, "recalled"),
    )


def _of_origin(machine: System, names: Iterable[str], origin: str) -> tuple[str, ...]:
    """Return the components whose times have an origin."""
    return tuple(name for name in names if name in machine.components and machine.components[name].tag == origin)


@with_checked_types
def compare_breakdown(system: str | Path | System, files: Sequence[str | Path]) -> pd.DataFrame:
    r"""Compare the totals of a breakdown with measured times of small messages.

    A benchmark of MPI measures all layers, a benchmark of verbs or UCT only the lower layers (LLP). UCP is between
    both, so its time has a lower and an upper bound.

    Parameters
    ----------
    system : str, Path or System
        Name of a published system (thunderx2), .yaml file, or system.
    files : sequence of str or Path
        Output of osu_latency, osu_bw or osu_mbw_mr of one pair, IMB PingPong, ucx_perftest or perftest
        (ib_write_lat, ib_send_lat, ib_write_bw, ib_send_bw).

    Returns
    -------
    pandas.DataFrame
        One row per file and test, at the message nearest to 8 bytes: file, test, size_bytes, measured_ns, total (name
        of the total, or of two that bound it), low_ns, high_ns, deviation of the total (relative to the measured time;
        0 between the bounds).

    Raises
    ------
    InputError
        If a file is not output of these programs, or has no message of at most 64 bytes between two processes.

    Examples
    --------
    >>> import tempfile
    >>> import fabricast as fc
    >>> path = Path(tempfile.mkdtemp()) / "osu.txt"
    >>> _ = path.write_text("# OSU MPI Latency Test v7.2\n# Size          Latency (us)\n8       1.35\n")
    >>> row = fc.compare_breakdown("thunderx2", [path]).iloc[0]
    >>> row["total"], float(round(row["deviation"], 3))
    ('latency', 0.027)
    """
    machine = system if isinstance(system, System) else load_system(system)
    rows = [row for path in files for row in _compared(machine, Path(path))]
    if not rows:
        raise InputError("are empty, expected at least one output of a benchmark", argument="files")
    return pd.DataFrame(rows)


def _compared(machine: System, path: Path) -> list[dict[str, object]]:
    """Return one row per test of a file."""
    # Tests of several pairs, such as osu_multi_lat, do not print their number, which is not 1 and not needed here.
    times = message_times(message_facts(path), processes=_SEVERAL)
    small = times[(times["size_bytes"] <= _MOST_BYTES) & (times["processes"] == 1) & times["path"].isin(list(_TOTALS))]
    if small.empty:
        raise InputError(
            f"contains no time of a message of at most {_MOST_BYTES} bytes between two processes, expected "
            f"{', '.join(_TOTALS)}; it has {', '.join(times['path'].unique())}"
            f"{' of several pairs' if (times['processes'] > 1).all() else ''}",
            path=path,
        )
    rows: list[dict[str, object]] = []
    for test, group in small.groupby("path", sort=False):
        sizes = group["size_bytes"].to_numpy(dtype=float)
        # The publication measures messages of 8 bytes.
        size = float(sizes[np.argmin(np.abs(np.log2(sizes / _MESSAGE_BYTES)))])
        measured = float(group.loc[group["size_bytes"] == size, "time_s"].median()) * 1e9
        bounds = _TOTALS[str(test)]
        low, high = sorted(machine.total_ns(name) for name in bounds)
        nearest = min(max(measured, low), high)
        rows.append(
            {
                "file": str(path),
                "test": test,
                "size_bytes": size,
                "measured_ns": measured,
                "total": " to ".join(dict.fromkeys(bounds)),
                "low_ns": low,
                "high_ns": high,
                "deviation": nearest / measured - 1,
            }
        )
    return rows
