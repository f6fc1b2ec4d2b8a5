"""Copies through host memory: one row per copy from forecasts of both halves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.api.prediction_table import Prediction, communications, makespans
from fabricast.core.warnings import Warning, WarningCode
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_arcs
from fabricast.pcie.graphs.staged import chunk_overhead_s, staged_graphs
from fabricast.pcie.models.removals import Times, removal_texts, removals
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["folded", "other_transport", "with_limiting_copies"]

#: Relative difference above which a copy is slower than in isolation.
_SAME = 1e-9


def folded(
    halves: pd.DataFrame, tree: PcieTree, graphs: CongestionGraphs, is_staged: NDArray[np.bool_],
    rates: Mapping[tuple[str, str], float], elapsed_s: Times,
) -> Prediction:  # fmt: skip
    """Return one row per copy from the rows of both halves of staged copies.

    The halves overlap: ``elapsed_s`` is the time of the slower one and the time that the driver needs for its chunks.
    Unless that time was measured, ``earliest_s`` is without it, and ``latest_s`` with one half after the other.

    Parameters
    ----------
    halves : pandas.DataFrame
        Prediction of `fabricast.pcie.graphs.staged.staged_graphs`.
    tree : PcieTree
        Topology with host memory.
    graphs : CongestionGraphs
        Copies before staging.
    is_staged : ndarray of bool, shape (copies,)
        Which copies have two halves.
    rates : mapping of (str, str) to float
        Measured rates of single staged copies in bytes/s, by source and target.
    elapsed_s : callable
        Function that returns the elapsed time of each copy of some graphs in s.
    """
    times = halves["elapsed_s"].to_numpy()
    last = np.cumsum(np.where(is_staged, 2, 1)) - 1
    first = last - is_staged
    slower = np.where(times[first] > times[last], first, last)
    rows = halves.iloc[slower].reset_index(drop=True)
    copies = communications(tree, graphs)
    ends = zip(copies["source"].astype(str), copies["target"].astype(str), strict=True)
    measured_s = graphs.size_bytes / np.array([rates.get(pair, np.nan) for pair in ends])
    is_measured = np.isfinite(measured_s)
    isolated_s = _isolated_s(tree, graphs, is_staged, elapsed_s)
    chunks_s = np.where(is_measured, np.maximum(measured_s - isolated_s, 0.0), graphs.size_bytes * chunk_overhead_s())
    chunks_s = np.where(is_staged, chunks_s, 0.0)
    unknown = is_staged & ~is_measured
    columns = {name: rows[name] for name in rows.columns if name not in copies}
    columns["elapsed_s"] = rows["elapsed_s"] + chunks_s
    columns["earliest_s"] = rows["earliest_s"] + np.where(unknown, 0.0, chunks_s)
    other_s = halves["latest_s"].to_numpy()[first + last - slower]
    columns["latest_s"] = rows["latest_s"] + chunks_s + np.where(unknown, other_s, 0.0)
    columns["slowdown"] = columns["elapsed_s"] / (isolated_s + chunks_s)
    transports = pd.Categorical.from_codes(is_staged.astype(np.int8), pd.Index(["p2p", "staged"]))
    return Prediction({**copies, **columns, "transport": transports})


def _isolated_s(
    tree: PcieTree, graphs: CongestionGraphs, is_staged: NDArray[np.bool_], elapsed_s: Times
) -> NDArray[np.float64]:
    """Return the time of each copy alone, whose halves may slow each other, without the time for chunks."""
    numbers = graphs.source * len(tree.endpoint_names) + graphs.target
    _, first, of_copy = np.unique(numbers, return_index=True, return_inverse=True)
    arcs = [[(int(graphs.source[copy]), int(graphs.target[copy]))] for copy in first]
    flags = is_staged[first]
    times = elapsed_s(staged_graphs(tree, from_arcs(arcs, size_bytes=1e9), flags))
    # All models are linear in the size of an isolated copy.
    return _slower_half_s(times, flags)[of_copy] * graphs.size_bytes / 1e9


def _slower_half_s(times_s: NDArray[np.float64], is_staged: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the time of the slower half of each staged copy, and of each direct copy."""
    last = np.cumsum(np.where(is_staged, 2, 1)) - 1
    slower: NDArray[np.float64] = np.maximum(times_s[last - is_staged], times_s[last])
    return slower


def with_limiting_copies(
    table: Prediction, tree: PcieTree, graphs: CongestionGraphs, is_staged: NDArray[np.bool_], elapsed_s: Times
) -> Prediction:
    """Return the result of `folded` with the columns limited_by and elapsed_without_s.

    Parameters
    ----------
    table : Prediction
        Result of `folded`.
    tree : PcieTree
        Topology with host memory.
    graphs : CongestionGraphs
        Copies before staging.
    is_staged : ndarray of bool, shape (copies,)
        Which copies have two halves; copies of one pair are alike.
    elapsed_s : callable
        Function that returns the elapsed time of each copy of some graphs in s.
    """
    numbers = (graphs.source * len(tree.endpoint_names) + graphs.target).tolist()
    staged = dict(zip(numbers, is_staged.tolist(), strict=True))

    def of_halves(some: CongestionGraphs) -> tuple[NDArray[np.float64], list[int]]:
        pairs = (some.source * len(tree.endpoint_names) + some.target).tolist()
        flags = np.array([staged[pair] for pair in pairs], dtype=np.bool_)
        return _slower_half_s(elapsed_s(staged_graphs(tree, some, flags)), flags), pairs

    total_s = table["elapsed_s"].to_numpy(dtype=float)
    chunks_s = (total_s - of_halves(graphs)[0]) / graphs.size_bytes
    chunks = dict(zip(numbers, chunks_s.tolist(), strict=True))

    def times(some: CongestionGraphs) -> NDArray[np.float64]:
        halves_s, pairs = of_halves(some)
        elapsed: NDArray[np.float64] = halves_s + some.size_bytes * np.array([chunks[pair] for pair in pairs])
        return elapsed

    found = removals(graphs, total_s, table["slowdown"].to_numpy() > 1 + _SAME, times)
    texts = removal_texts(tree, graphs, found)
    return Prediction({**table, "limited_by": texts, "elapsed_without_s": found.elapsed_without_s})


def other_transport(staged: pd.DataFrame, direct: pd.DataFrame, *, is_measured: bool) -> Warning:
    """Return a sentence that compares staged copies with direct ones.

    Parameters
    ----------
    staged, direct : pandas.DataFrame
        Predictions of the same graphs.
    is_measured : bool
        Whether measured staged copies bound the prediction.
    """
    ends = makespans(staged), makespans(direct)
    if len(ends[0]) == 1:
        times = f"complete after {ends[1].iloc[0] * 1e3:.3g} ms, staged ones after {ends[0].iloc[0] * 1e3:.3g} ms"
    else:
        times = (
            f"need {(ends[1] / ends[0]).median():.3g} times as long as staged ones (median of {len(ends[0]):,} graphs)"
        )
    share = f"{chunk_overhead_s() * 1e12:.3g} µs per MB for the chunks of the driver, as on one public machine"
    bound = f"; staged times include {share}: measure staged copies (--measurements)"
    bound = "" if is_measured else bound
    return Warning(WarningCode.OTHER_TRANSPORT, f"with peer access (transport p2p), all copies would {times}{bound}")
