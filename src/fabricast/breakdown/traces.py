"""Component times from CPU timers and PCIe traces.

PCIe events are time-stamped by an analyser in front of the NIC. The time of a CPU region is the difference
of two clock readings minus the clock overhead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import read_csv

TRACE_COLUMNS = ("run_id", "seq", "t_ns", "direction", "tlp_type", "payload_b", "seq_num", "acked_seq", "role")
TIMER_COLUMNS = ("run_id", "region", "iter", "raw_ns", "overhead_ns")
#: Runs of a trace: posts of node 1 with and without the switch, and a ping-pong traced at the receiver.
RUNS = ("injection", "back_to_back", "ping_pong")
#: About four months; larger float64 time stamps cannot represent nanoseconds.
_LATEST_NS = 1e16
_WARM_UP_SHARE = 0.01
_MOST_LOST = 0.01


#: Components as signed sums of regions; nested regions are subtracted.
_REGIONS: dict[str, tuple[tuple[str, float], ...]] = {
    "md_setup": (("md_setup", 1),),
    "md_barrier": (("md_barrier", 1),),
    "dbc_barrier": (("dbc_barrier", 1),),
    "pio_copy": (("pio_copy", 1),),
    "llp_post_other": (("uct_post", 1), ("md_setup", -1), ("md_barrier", -1), ("dbc_barrier", -1), ("pio_copy", -1)),
    "hlp_post": (("mpi_isend", 1), ("uct_post", -1)),
    "llp_prog": (("uct_progress", 1),),
    "hlp_tx_prog": (("send_progress", 1),),
    "hlp_rx_prog": (("receive_progress", 1), ("uct_progress", -1)),
}


@dataclass(frozen=True)
class Derived:
    """Statistics of a component derived from time stamps."""

    name: str  # Name of the component, or ``observed_injection``
    #: Statistics over events. For a difference of regions, the percentiles equal the difference of medians.
    median_ns: float
    mean_ns: float
    p05_ns: float
    p95_ns: float
    samples: int  # Number of events
    flag: str = ""  # ``negative`` or ``difference``; empty for a directly measured component


def _statistics(name: str, values: NDArray[np.float64]) -> Derived:
    if not values.size:
        raise InputError(f"'{name}' has no events, expected at least one")
    p05, median, p95 = np.percentile(values, [5, 50, 95])
    flag = "negative" if median < 0 else ""
    return Derived(name, float(median), float(values.mean()), float(p05), float(p95), int(values.size), flag)


def _read(path: Path | str, columns: Sequence[str], numbers: Iterable[str], blank: Iterable[str] = ()) -> pd.DataFrame:
    """Read text and number columns, indexed by line; blank optional numbers are NaN."""
    rows = read_csv(path, columns)
    values = {
        name: [
            row[name] if name not in numbers else math.nan if name in blank and not row[name] else row.number(name)
            for row in rows
        ]
        for name in columns
    }
    return pd.DataFrame(values, index=[row.line for row in rows])


def read_trace(path: Path | str) -> pd.DataFrame:
    """Read a PCIe trace from CSV."""
    trace = _read(
        path, TRACE_COLUMNS, {"seq", "t_ns", "payload_b", "seq_num", "acked_seq"}, {"payload_b", "seq_num", "acked_seq"}
    )
    late = trace["t_ns"].abs() > _LATEST_NS
    if late.any():
        line = int(late.index[int(np.argmax(late))])
        raise InputError(f"t_ns is {trace['t_ns'][line]:g}, expected at most {_LATEST_NS:g}", path=path, line=line)
    for name, known in (
        ("run_id", RUNS),
        ("direction", ("down", "up")),
        ("tlp_type", ("MWr", "MRd", "CplD", "ACK", "UpdateFC")),
        ("role", ("post", "completion", "payload", "other", "")),
    ):
        wrong = ~trace[name].isin(known)
        if wrong.any():
            line = int(wrong.index[int(np.argmax(wrong))])
            raise InputError(
                f"{name} is '{trace[name][line]}', expected one of {', '.join(filter(None, known))}",
                path=path,
                line=line,
            )
    return trace.reset_index(drop=True)


def read_timers(path: Path | str) -> pd.DataFrame:
    """Read CPU timers from CSV."""
    timers = _read(path, TIMER_COLUMNS, {"iter", "raw_ns", "overhead_ns"})
    regions = {*(region for terms in _REGIONS.values() for region, _ in terms), "ping_pong"}
    wrong = ~timers["region"].isin(regions)
    for name in ("raw_ns", "overhead_ns"):
        wrong |= ~timers[name].between(0, _LATEST_NS)
    # Iterations are numbered from 0.
    wrong |= (timers["iter"] < 0) | (timers["iter"] != timers["iter"].round())
    if wrong.any():
        line = int(wrong.index[int(np.argmax(wrong))])
        row = timers.loc[line]
        raise InputError(
            f"region is '{row['region']}' with iter {row['iter']:g}, raw_ns {row['raw_ns']:g} and overhead_ns "
            f"{row['overhead_ns']:g}; expected an iteration from 0, times of 0 to {_LATEST_NS:g} and a region of "
            f"{', '.join(sorted(regions))}",
            path=path,
            line=line,
        )
    return timers.reset_index(drop=True)


def _ordered(trace: pd.DataFrame, run: str) -> pd.DataFrame:
    """Return the rows of one run in sequence-number order."""
    rows = trace[trace["run_id"] == run].sort_values("seq", kind="stable").reset_index(drop=True)
    backwards = np.flatnonzero(np.diff(rows["t_ns"]) < 0)
    if backwards.size:
        raise InputError(
            f"run '{run}': the clock runs backwards at seq {rows['seq'][int(backwards[0]) + 1]:.0f}, "
            "expected non-decreasing times"
        )
    return rows


def _after_warm_up(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[int(values.size * _WARM_UP_SHARE) :]


def _posts_and_completions(rows: pd.DataFrame, run: str, posts_per_completion: int) -> NDArray[np.float64]:
    """Return the time from the last covered post to its completion: 2 * network."""
    posts = rows[(rows["role"] == "post") & (rows["direction"] == "down")]["t_ns"].to_numpy()
    completions = rows[(rows["role"] == "completion") & (rows["direction"] == "up")]["t_ns"].to_numpy()
    expected = posts.size // posts_per_completion
    if expected == 0 or completions.size < expected * (1 - _MOST_LOST):
        raise InputError(
            f"run '{run}': {completions.size} completions for {posts.size} posts, expected one for each "
            f"{posts_per_completion} with at most {_MOST_LOST:.0%} missing"
        )
    if completions.size == expected:
        # All completions are present: every c-th post from the start of the trace is signalled.
        gaps = completions - posts[posts_per_completion - 1 :: posts_per_completion][:expected]
    else:
        # Completions have no sequence number: choose the posts for which the gap varies least.
        candidates = []
        for phase in range(posts_per_completion):
            signalled = posts[phase::posts_per_completion]
            before = np.searchsorted(signalled, completions, side="right") - 1
            has_post = before >= 0
            if has_post.any():
                candidates.append(completions[has_post] - signalled[before[has_post]])
        if not candidates:
            raise InputError(f"run '{run}': no completion follows a post, expected one for each {posts_per_completion}")
        gaps = min(candidates, key=lambda values: float(values.std()))
    if (gaps <= 0).any():
        raise InputError(f"run '{run}': completions precede their posts, expected completions after posts")
    return _after_warm_up(gaps)


def components_from_trace(
    trace: pd.DataFrame, *, posts_per_completion: int, llp_post_ns: float, llp_prog_ns: float
) -> dict[str, Derived]:
    """Derive components from a PCIe trace.

    Zambre et al., slides 19-20 and 48.
    """
    components: dict[str, Derived] = {}
    rows = _ordered(trace, "injection")
    if rows.empty:
        raise InputError("the trace has no run 'injection'")
    posts = rows[(rows["role"] == "post") & (rows["direction"] == "down") & (rows["payload_b"] == 64)]
    components["observed_injection"] = _statistics(
        "observed_injection", _after_warm_up(np.diff(posts["t_ns"].to_numpy()))
    )
    # An ACK may cover several writes; only the last covered write determines the crossing time.
    writes = rows[(rows["tlp_type"] == "MWr") & (rows["direction"] == "up")][["seq_num", "t_ns"]]
    acks = rows[(rows["tlp_type"] == "ACK") & (rows["direction"] == "down")][["acked_seq", "t_ns"]]
    pairs = writes.merge(acks, left_on="seq_num", right_on="acked_seq", suffixes=("_write", "_ack"))
    if pairs.empty:
        raise InputError("run 'injection': no ACK refers to a write, expected at least one to derive the PCIe time")
    components["pcie"] = _statistics("pcie", _after_warm_up((pairs["t_ns_ack"] - pairs["t_ns_write"]).to_numpy() / 2))
    components["network"] = _statistics("network", _posts_and_completions(rows, "injection", posts_per_completion) / 2)
    direct = _ordered(trace, "back_to_back")
    if not direct.empty:
        wire = _statistics("wire", _posts_and_completions(direct, "back_to_back", posts_per_completion) / 2)
        components["wire"] = wire
        switch = components["network"].median_ns - wire.median_ns
        components["switch"] = Derived(
            "switch", switch, switch, switch, switch, wire.samples, "negative" if switch < 0 else "difference"
        )
    pong = _ordered(trace, "ping_pong")
    if not pong.empty:
        arrived = pong[(pong["role"] == "payload") & (pong["direction"] == "up")]["t_ns"].to_numpy()
        answered = pong[(pong["role"] == "post") & (pong["direction"] == "down")]["t_ns"].to_numpy()
        after = np.searchsorted(answered, arrived, side="right")
        is_answered = after < answered.size
        gaps = answered[after[is_answered]] - arrived[is_answered]
        rest = 2 * components["pcie"].median_ns + llp_prog_ns + llp_post_ns
        components["rc_to_mem"] = _statistics("rc_to_mem", _after_warm_up(gaps - rest))
    return components


def components_from_timers(timers: pd.DataFrame) -> dict[str, Derived]:
    """Derive CPU components from timed regions.

    Zambre et al., slides 17-18: time = end - start - overhead; the time of a layer is the time of its
    call minus the time of the call to the layer below.

    >>> rows = [("r", "mpi_isend", i, 130.0, 30.0) for i in range(9)]
    >>> rows += [("r", "uct_post", i, 110.0, 30.0) for i in range(9)]
    >>> timers = pd.DataFrame(rows, columns=list(TIMER_COLUMNS))
    >>> components_from_timers(timers)["hlp_post"].median_ns
    20.0
    """
    net = timers.assign(net_ns=timers["raw_ns"] - timers["overhead_ns"])
    regions = {
        str(name): part.sort_values("iter", kind="stable")["net_ns"].to_numpy()[int(len(part) * _WARM_UP_SHARE) :]
        for name, part in net.groupby("region")
    }
    components = {}
    for name, terms in _REGIONS.items():
        if all(region in regions for region, _ in terms):
            if len(terms) == 1:
                components[name] = _statistics(name, regions[terms[0][0]])
                continue
            median = sum(sign * float(np.median(regions[region])) for region, sign in terms)
            mean = sum(sign * float(regions[region].mean()) for region, sign in terms)
            samples = min(regions[region].size for region, _ in terms)
            flag = "negative" if median < 0 else "difference"
            components[name] = Derived(name, median, mean, median, median, samples, flag)
    return components
